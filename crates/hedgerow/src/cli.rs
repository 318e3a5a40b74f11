//! The command line: arguments in, one [`Command`] out. Nothing is run or opened here.
//!
//! Every key of the configuration is a flag of `serve` and `check`; the flags come from the
//! registry, so they cannot differ from the file.

mod check;
mod grammar;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::config::suggestion;

pub use check::{Outcome, check, judge};
pub use values::Unit;

/// What the user asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Run the gateway.
    Serve(ConfigArguments),
    /// Validate the configuration.
    Check(CheckArguments),
    /// Run everything in one process tree, with nothing else needed.
    Demo {
        /// Port for clients; the admin listener has this plus 1000.
        port: u16,
    },
    /// Work out a hedge from measured durations.
    PlanHedge(PlanHedge),
    /// Replay an incident.
    Drill(Drill),
    /// Name the drills.
    DrillList,
    /// Tell the story of one request.
    Explain(Explain),
    /// Run the conformance suite against a worker program.
    Conform {
        /// The program and its arguments, at least one word.
        command: Vec<String>,
    },
    /// Run a scripted actor.
    Stage {
        /// Which one.
        actor: Actor,
        /// What it is told; it reads this itself.
        flags: Vec<String>,
    },
    /// Print a page made from the program itself.
    Docs(Page),
    /// Print the version.
    Version,
}

/// Where the configuration comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigArguments {
    /// The file that was named; `None`: `hedgerow.toml` if it is there.
    pub file: Option<PathBuf>,
    /// Flags of keys in order: the name without hyphens, and the value.
    pub flags: Vec<(String, String)>,
}

/// `hedgerow check`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckArguments {
    /// Where the configuration comes from.
    pub config: ConfigArguments,
    /// Whether to show the effective configuration.
    pub print: bool,
    /// Whether warnings count as errors.
    pub strict: bool,
}

/// `hedgerow plan hedge`
#[derive(Clone, Debug, PartialEq)]
pub struct PlanHedge {
    /// One duration a line, or a table or log that holds them.
    pub file: PathBuf,
    /// CSV column or JSON member to take; `None`: one whose name means a duration.
    pub column: Option<String>,
    /// Calls to this upstream alone, of an event log or a ledger.
    pub upstream: Option<String>,
    /// Unit of the numbers in the file and of bare numbers in `at`.
    pub unit: Unit,
    /// Thresholds to work out; empty: the program chooses.
    pub at: Vec<Duration>,
    /// Quantile to improve, above 0 and below 1.
    pub target: f64,
    /// Extra calls for each call, 0 to 1.
    pub budget: f64,
    /// Calls that one build waits for; `None`: not asked about.
    pub fan_out: Option<u32>,
    /// Cost of one call; `None`: not asked about.
    pub cost: Option<f64>,
    /// Where to draw the curve.
    pub svg: Option<PathBuf>,
    /// Whether to print JSON.
    pub json: bool,
    /// Whether to print nothing but the lines of the configuration.
    pub apply: bool,
}

/// `hedgerow drill NAME`
#[derive(Clone, Debug, PartialEq)]
pub struct Drill {
    /// Name of the drill.
    pub name: String,
    /// Policies to compare; empty: all.
    pub policies: Vec<String>,
    /// Seed of the run.
    pub seed: u64,
    /// Where to write the seconds as CSV.
    pub csv: Option<PathBuf>,
    /// Where to draw them.
    pub svg: Option<PathBuf>,
    /// Whether to print JSON.
    pub json: bool,
    /// Changes to the model.
    pub model: DrillModel,
    /// A configuration to drill beside the drill's own policies.
    pub config: Option<PathBuf>,
    /// Which of its upstreams; `None`: the only one that hedges, or the only one.
    pub upstream: Option<String>,
}

/// Flags of the drill's model; `None`: the drill's own figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrillModel {
    /// Requests a second that the database serves.
    pub mu: Option<f64>,
    /// How long the cache stalls.
    pub stall: Option<Duration>,
    /// Requests a second.
    pub rate: Option<f64>,
    /// Number of keys.
    pub keys: Option<u64>,
    /// How long a cached value lives.
    pub ttl: Option<Duration>,
    /// Queries that the database's line holds.
    pub line: Option<usize>,
    /// How long the breaker stays open.
    pub open: Option<Duration>,
    /// Length of the drill.
    pub duration: Option<Duration>,
}

/// `hedgerow explain`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explain {
    /// The trace or the request it is about.
    pub id: String,
    /// The event log to read; `None`: ask the running gateway, then read that of the configuration.
    pub event_log: Option<PathBuf>,
    /// Whether to print JSON.
    pub json: bool,
    /// Where the configuration comes from, which says where the gateway is.
    pub config: ConfigArguments,
}

/// A program that behaves, or misbehaves, as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// `hedgerow stage worker`
    Worker,
    /// `hedgerow stage upstream`
    Upstream,
    /// `hedgerow stage store`
    Store,
}

/// A page made from the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// `docs/configuration.md`
    Configuration,
    /// `docs/metrics.md`
    Metrics,
    /// Every key with its flag and variable.
    Keys,
}

impl Page {
    /// The text of the page.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Configuration => crate::config::reference::markdown(),
            Self::Metrics => hedgerow_gateway::metrics_reference(),
            Self::Keys => crate::config::reference::key_list(),
        }
    }
}

/// There is nothing to run: print the text and leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// 0 for help that was asked for, 2 for bad usage.
    pub code: u8,
    /// What to print: on standard output for code 0, else on standard error.
    pub text: String,
}

/// Reads the arguments, the program's name first.
///
/// # Errors
/// Help that was asked for, or bad usage.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Leave> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let matches = grammar::grammar(&arguments).try_get_matches_from(&arguments);
    let matches = matches.map_err(|error| Leave {
        code: u8::try_from(error.exit_code()).unwrap_or(2),
        text: unknown_flag(&error, &arguments)
            .unwrap_or_else(|| format!("{}\n", error.render().to_string().trim_end())),
    })?;
    Ok(grammar::command(&matches))
}

/// An unknown flag of a command that takes keys is most likely a key: say which one was meant.
fn unknown_flag(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let keyed = ["serve", "check", "explain"];
    let keys = arguments.get(1).is_some_and(|command| keyed.iter().any(|keyed| command == keyed));
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    if !keys || error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let name = flag.strip_prefix("--")?.split('=').next()?;
    let advice = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(known)) => format!("did you mean {known}?"),
        _ => suggestion(name),
    };
    Some(format!("error: unknown flag --{name}\n = help: {advice}\n"))
}

/// The line of `hedgerow version`.
#[must_use]
pub fn version() -> String {
    format!("hedgerow {}\n", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, Leave> {
        super::parse(line.split(' ').map(OsString::from))
    }

    fn serve(line: &str) -> ConfigArguments {
        match parse(line) {
            Ok(Command::Serve(arguments)) => arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_grammar_is_sound() {
        grammar::grammar(&[]).debug_assert();
    }

    #[test]
    fn every_command_is_on_its_page() {
        let page = include_str!("../../../docs/command-line.md");
        let grammar = grammar::grammar(&[]);
        for command in grammar.get_subcommands() {
            let row = format!("| `hedgerow {}", command.get_name());
            assert!(page.contains(&row), "docs/command-line.md: {row}");
        }
        let stage = grammar.find_subcommand("stage").expect("it is one");
        for actor in stage.get_subcommands() {
            let used = format!("`hedgerow stage {}", actor.get_name());
            assert!(page.contains(&used), "docs/command-line.md: {used}");
        }
    }

    #[test]
    fn keys_are_flags() {
        let given = serve("hedgerow serve --worker-read-timeout-ms 3000 --server-listen=[::1]:1");
        let flag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [flag("worker-read-timeout-ms", "3000"), flag("server-listen", "[::1]:1")];
        assert_eq!(given.flags, expected);
        assert_eq!(given.file, None);
    }

    #[test]
    fn the_last_flag_comes_last() {
        let given = serve("hedgerow serve --log-access true --php-bin x --log-access false");
        let names: Vec<_> =
            given.flags.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(names, ["log-access=true", "php-bin=x", "log-access=false"]);
    }

    #[test]
    fn values_may_begin_with_a_hyphen() {
        let given = serve("hedgerow serve --worker-queue-capacity -1 --php-args -d,x=1 a.toml");
        assert_eq!(given.flags[0].1, "-1");
        assert_eq!(given.flags[1].1, "-d,x=1");
        assert_eq!(given.file, Some("a.toml".into()));
    }

    #[test]
    fn upstreams_have_flags_by_name() {
        let given = serve("hedgerow serve --upstream-my-api-hedge-after-ms 100");
        assert_eq!(given.flags[0].0, "upstream-my-api-hedge-after-ms");
    }

    #[test]
    fn an_unknown_flag_leaves_with_a_suggestion() {
        let leave = parse("hedgerow serve --worker-read-timout-ms 3000").expect_err("unknown");
        assert_eq!(leave.code, 2);
        assert!(leave.text.contains("mean --worker-read-timeout-ms?"), "{}", leave.text);
        let leave = parse("hedgerow check --upstream-api-hedg-max=1").expect_err("unknown");
        assert!(leave.text.contains("--upstream-NAME-hedge-max"), "{}", leave.text);
        let leave = parse("hedgerow check --zzz").expect_err("unknown");
        assert!(leave.text.contains("docs keys"), "{}", leave.text);
    }

    #[test]
    fn a_bare_file_is_the_configuration() {
        assert_eq!(serve("hedgerow serve x.toml").file, Some("x.toml".into()));
        assert_eq!(serve("hedgerow serve -c x").file, Some("x".into()));
        assert!(parse("hedgerow serve x.json").is_err());
        assert!(parse("hedgerow serve x.toml -c y.toml").is_err());
    }

    #[test]
    fn every_other_command() {
        assert_eq!(parse("hedgerow version"), Ok(Command::Version));
        assert_eq!(parse("hedgerow demo"), Ok(Command::Demo { port: 8080 }));
        assert!(parse("hedgerow demo --port 65000").is_err());
        assert_eq!(parse("hedgerow drill list"), Ok(Command::DrillList));
        assert_eq!(parse("hedgerow docs configuration"), Ok(Command::Docs(Page::Configuration)));
        let conform = Command::Conform { command: vec!["php".into(), "-d".into(), "x".into()] };
        assert_eq!(parse("hedgerow conform -- php -d x"), Ok(conform));
        let explain = Explain {
            id: "abc".into(),
            event_log: Some("e".into()),
            config: serve("hedgerow serve -c x.toml --admin-token t"),
            json: true,
        };
        let line = "hedgerow explain abc --event-log e -c x.toml --admin-token t --json";
        assert_eq!(parse(line), Ok(Command::Explain(explain)));
        assert!(parse("hedgerow conform").is_err());
    }

    #[test]
    fn actors_read_their_own_flags() {
        let line = "hedgerow stage worker --boot=fail --print 3 --socket /s";
        let flags = ["--boot=fail", "--print", "3", "--socket", "/s"].map(str::to_owned).to_vec();
        assert_eq!(parse(line), Ok(Command::Stage { actor: Actor::Worker, flags }));
        let store = Command::Stage { actor: Actor::Store, flags: Vec::new() };
        assert_eq!(parse("hedgerow stage store"), Ok(store));
        let help = |line| parse(line).expect_err("help").text;
        for (line, said) in [
            ("hedgerow --help", "stage "),
            ("hedgerow stage --help", "upstream "),
            ("hedgerow stage worker --help", hedgerow_stage::args::FLAGS),
            ("hedgerow help stage upstream", hedgerow_stage::upstream::FLAGS),
            ("hedgerow stage store -h", hedgerow_stage::store::CONTROL),
        ] {
            assert!(help(line).contains(said), "{line}: {}", help(line));
        }
        assert_eq!(parse("hedgerow stage actor").map_err(|leave| leave.code), Err(2));
    }

    #[test]
    fn plan_and_drill() {
        let line = "hedgerow plan hedge f --unit ms --at 100s --at 250 --target p99.9 --budget 5% --fan-out 5";
        let Ok(Command::PlanHedge(plan)) = parse(line) else { panic!() };
        assert_eq!(plan.at, [Duration::from_secs(100), Duration::from_millis(250)]);
        assert!((plan.target - 0.999).abs() < 1e-9 && (plan.budget - 0.05).abs() < 1e-9);
        assert_eq!((plan.fan_out, plan.cost), (Some(5), None));
        let line = "hedgerow drill cache-stall --policy a,b --seed 7 --stall 6s --mu 400";
        let Ok(Command::Drill(drill)) = parse(line) else { panic!() };
        assert_eq!(drill.policies, ["a", "b"]);
        assert_eq!((drill.seed, drill.model.stall), (7, Some(Duration::from_secs(6))));
    }

    #[test]
    fn help_is_not_an_error() {
        assert_eq!(parse("hedgerow --help").map_err(|leave| leave.code), Err(0));
        assert_eq!(parse("hedgerow help serve").map_err(|leave| leave.code), Err(0));
        assert_eq!(parse("hedgerow").map_err(|leave| leave.code), Err(2));
    }
}
