//! What can be written on the command line, and how it is read back.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command as Clap, value_parser};

use super::values::{self, At, Unit};
use super::{
    Actor, CheckArguments, Command, ConfigArguments, Drill, DrillModel, Explain, Page, PlanHedge,
};
use crate::config::keys::{flag_of, path_of_flag, settable};

const KEYS: &str = "\
Every key of the configuration is a flag: worker.read_timeout_ms is --worker-read-timeout-ms 3000.
`hedgerow docs keys` lists them all.";

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help)
}

fn path(name: &'static str, help: &'static str) -> Arg {
    flag(name, help).value_name("FILE").value_parser(value_parser!(PathBuf))
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    flag(name, help).action(ArgAction::SetTrue)
}

fn time(name: &'static str, help: &'static str) -> Arg {
    flag(name, help).value_name("TIME").value_parser(values::duration)
}

/// The grammar. Upstreams have flags by their own names: those in the arguments are added.
pub(super) fn grammar(arguments: &[OsString]) -> Clap {
    Clap::new("hedgerow")
        .about("Keeps an application answering while what it depends on stalls.")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help("Try `hedgerow demo` first. `hedgerow help COMMAND` says more about each.")
        .subcommand(with_keys(Clap::new("serve").about("Run it"), arguments))
        .subcommand(
            with_keys(Clap::new("check").about("Validate the configuration"), arguments)
                .arg(switch("print", "Show every value in effect and where it came from"))
                .arg(switch("strict", "Let warnings count as errors")),
        )
        .subcommand(
            Clap::new("demo").about("Run a tour with everything built in").arg(
                flag("port", "Port for clients; the admin page has this plus 1000")
                    .value_name("PORT")
                    .default_value("8080")
                    // The admin port must exist too.
                    .value_parser(value_parser!(u16).range(..=64535)),
            ),
        )
        .subcommand(plan())
        .subcommand(drill())
        .subcommand(
            with_keys(
                Clap::new("explain").about("Tell the story of one request").arg(
                    Arg::new("trace")
                        .value_name("TRACE_ID")
                        .required(true)
                        .help("The trace id of a request, or its request id"),
                ),
                arguments,
            )
            .arg(path("event-log", "Read this event log and ask no gateway"))
            .arg(switch("json", "Print JSON"))
            .override_usage("hedgerow explain TRACE_ID [--event-log FILE] [-c FILE] [--json]"),
        )
        .subcommand(
            Clap::new("conform").about("Run the conformance suite against a worker program").arg(
                Arg::new("command")
                    .value_name("COMMAND")
                    .required(true)
                    .num_args(1..)
                    .last(true)
                    .help("The program and its arguments, after --"),
            ),
        )
        .subcommand(stage())
        .subcommand(Clap::new("docs").about("Print a page made from the program").arg(
            Arg::new("page").value_name("PAGE").required(true).value_parser([
                "configuration",
                "metrics",
                "keys",
            ]),
        ))
        .subcommand(Clap::new("version").about("Print the version"))
}

/// The actors read their flags themselves, as they do in a program of their own.
fn stage() -> Clap {
    use hedgerow_stage::{args, store, upstream};
    let actor = |name: &'static str, about: &'static str, flags: String| {
        let given = Arg::new("flags")
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .hide(true);
        let usage = format!("hedgerow stage {name} [FLAGS]");
        Clap::new(name).about(about).arg(given).override_usage(usage).after_help(flags)
    };
    let control =
        format!("Flags:\n{}\n\nAt the control address:\n{}", store::FLAGS, store::CONTROL);
    Clap::new("stage")
        .about(
            "Run a scripted actor: a worker, an upstream or a store that misbehaves as it is told",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(actor(
            "worker",
            "A worker for worker.command; what a request asks of it is in its path",
            format!("Flags:\n{}", args::FLAGS),
        ))
        .subcommand(actor(
            "upstream",
            "An HTTP service; what a request asks of it is in its path",
            format!("Flags:\n{}", upstream::FLAGS),
        ))
        .subcommand(actor("store", "A store of the Redis protocol that stalls and wakes", control))
}

fn with_keys(command: Clap, arguments: &[OsString]) -> Clap {
    let named = arguments.iter().filter_map(|argument| {
        let flag = argument.to_str()?.strip_prefix("--upstream-")?;
        let flag = format!("upstream-{}", flag.split('=').next()?);
        path_of_flag(&flag).map(|_| flag)
    });
    let fixed = settable().filter(|(path, ..)| !path.contains('*')).map(|(path, ..)| flag_of(path));
    let mut flags: Vec<String> = fixed.chain(named).collect();
    flags.sort();
    flags.dedup();
    let keys = flags.into_iter().map(|flag| {
        Arg::new(flag.clone())
            .long(flag)
            .action(ArgAction::Append)
            // "-1" and "-d,x=1" are values too.
            .allow_hyphen_values(true)
            .hide(true)
    });
    let usage = format!("hedgerow {} [-c FILE] [--KEY VALUE]...", command.get_name());
    command
        .arg(
            Arg::new("config")
                .short('c')
                .long("config")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("The configuration; without it, hedgerow.toml if it is there"),
        )
        .arg(
            Arg::new("file")
                .value_name("FILE.toml")
                .value_parser(toml_file)
                .conflicts_with("config")
                .help("The same, without -c"),
        )
        .args(keys)
        .override_usage(usage)
        .after_help(KEYS)
}

fn toml_file(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    if path.extension().is_some_and(|extension| extension == "toml") {
        return Ok(path.to_path_buf());
    }
    Err("expected a *.toml file; another name needs -c".into())
}

fn plan() -> Clap {
    let hedge = Clap::new("hedge")
        .about("Work out a hedge from measured durations")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help(
                    "One duration a line; or CSV, NDJSON, the event log, the ledger, an nginx log",
                ),
        )
        .arg(
            flag("column", "CSV column or JSON member that holds the durations").value_name("NAME"),
        )
        .arg(
            flag("upstream", "Calls to this upstream alone, of an event log or a ledger")
                .value_name("NAME"),
        )
        .arg(
            flag("unit", "Unit of bare numbers: s or ms")
                .value_name("UNIT")
                .default_value("s")
                .value_parser(values::unit),
        )
        .arg(
            flag("at", "Work out this threshold only, such as 100s or 250ms; may be repeated")
                .value_name("TIME")
                .action(ArgAction::Append)
                .value_parser(values::at),
        )
        .arg(
            flag("target", "Quantile to improve")
                .value_name("QUANTILE")
                .default_value("p99")
                .value_parser(values::quantile),
        )
        .arg(
            flag("budget", "Extra calls for each call")
                .value_name("SHARE")
                .default_value("5%")
                .value_parser(values::share),
        )
        .arg(
            flag("fan-out", "Calls that one build waits for")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(flag("cost", "Cost of one call").value_name("PRICE").value_parser(values::cost))
        .arg(path("svg", "Draw the curve into this file"))
        .arg(switch("json", "Print JSON"))
        .arg(
            switch("apply", "Print the lines of the configuration that follow")
                .conflicts_with("json"),
        );
    Clap::new("plan")
        .about("Work out settings from measurements")
        .subcommand_required(true)
        .subcommand(hedge)
}

fn drill() -> Clap {
    Clap::new("drill")
        .about("Replay an incident in virtual time; `drill list` names them")
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .required(true)
                .help("The drill; `list` shows them all, with their policies and flags"),
        )
        .arg(
            flag("policy", "Policies to compare, with commas; without it, all")
                .value_name("NAME")
                .action(ArgAction::Append)
                .value_delimiter(','),
        )
        .arg(
            flag("seed", "Seed of the run")
                .value_name("N")
                .default_value("1")
                .value_parser(value_parser!(u64)),
        )
        .arg(path("csv", "Write every second into this file"))
        .arg(path("svg", "Draw it into this file"))
        .arg(switch("json", "Print JSON"))
        .arg(path("config", "Drill the settings of this configuration too, as the policy yours"))
        .arg(
            flag("upstream", "Which upstream of the configuration")
                .value_name("NAME")
                .requires("config"),
        )
        .next_help_heading("Model")
        .arg(
            flag("mu", "Requests a second that the database serves")
                .value_name("N")
                .value_parser(values::positive),
        )
        .arg(time("stall", "How long it stalls, such as 6s or 500ms"))
        .arg(flag("rate", "Requests a second").value_name("N").value_parser(values::positive))
        .arg(
            flag("keys", "Number of keys")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..)),
        )
        .arg(time("ttl", "How long a cached value lives"))
        .arg(
            flag("line", "Queries that the database's line holds; one more is refused")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..1_000_000)),
        )
        .arg(time("open", "How long the breaker stays open"))
        .arg(time("duration", "Length of the drill"))
}

/// What was matched, typed. The grammar has made sure that it is one of these.
pub(super) fn command(matches: &ArgMatches) -> Command {
    match matches.subcommand() {
        Some(("serve", of)) => Command::Serve(config(of)),
        Some(("check", of)) => Command::Check(CheckArguments {
            config: config(of),
            print: of.get_flag("print"),
            strict: of.get_flag("strict"),
        }),
        Some(("demo", of)) => Command::Demo { port: get(of, "port").unwrap_or(8080) },
        Some(("plan", of)) => {
            Command::PlanHedge(plan_hedge(of.subcommand().map_or(of, |(_, of)| of)))
        }
        Some(("drill", of)) => drill_of(of),
        Some(("explain", of)) => Command::Explain(Explain {
            id: get(of, "trace").unwrap_or_default(),
            event_log: get(of, "event-log"),
            json: of.get_flag("json"),
            config: config(of),
        }),
        Some(("conform", of)) => Command::Conform { command: all(of, "command") },
        Some(("stage", of)) => Command::Stage {
            actor: match of.subcommand_name() {
                Some("upstream") => Actor::Upstream,
                Some("store") => Actor::Store,
                _ => Actor::Worker,
            },
            flags: of.subcommand().map_or_else(Vec::new, |(_, of)| all(of, "flags")),
        },
        Some(("docs", of)) => Command::Docs(match get::<String>(of, "page").as_deref() {
            Some("keys") => Page::Keys,
            Some("metrics") => Page::Metrics,
            _ => Page::Configuration,
        }),
        _ => Command::Version,
    }
}

fn get<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Option<T> {
    matches.get_one::<T>(name).cloned()
}

fn all<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<T> {
    matches.get_many::<T>(name).into_iter().flatten().cloned().collect()
}

fn config(matches: &ArgMatches) -> ConfigArguments {
    let own = ["config", "file", "print", "strict", "trace", "event-log", "json"];
    let mut flags = Vec::new();
    for id in matches.ids().map(clap::Id::as_str).filter(|id| !own.contains(id)) {
        let values = matches.get_many::<String>(id).into_iter().flatten();
        let places = matches.indices_of(id).into_iter().flatten();
        flags.extend(places.zip(values).map(|(at, value)| (at, id.to_owned(), value.clone())));
    }
    // In the order in which they were written, so that the last one wins.
    flags.sort();
    ConfigArguments {
        file: get(matches, "config").or_else(|| get(matches, "file")),
        flags: flags.into_iter().map(|(_, name, value)| (name, value)).collect(),
    }
}

fn plan_hedge(of: &ArgMatches) -> PlanHedge {
    let unit: Unit = get(of, "unit").unwrap_or_default();
    let time = |at: At| match at {
        At::Time(time) => time,
        At::Number(number) => unit.duration(number).unwrap_or_default(),
    };
    PlanHedge {
        file: get(of, "file").unwrap_or_default(),
        column: get(of, "column"),
        upstream: get(of, "upstream"),
        unit,
        at: all(of, "at").into_iter().map(time).collect(),
        target: get(of, "target").unwrap_or(0.99),
        budget: get(of, "budget").unwrap_or(0.05),
        fan_out: get(of, "fan-out"),
        cost: get(of, "cost"),
        svg: get(of, "svg"),
        json: of.get_flag("json"),
        apply: of.get_flag("apply"),
    }
}

fn drill_of(of: &ArgMatches) -> Command {
    let name: String = get(of, "name").unwrap_or_default();
    if name == "list" {
        return Command::DrillList;
    }
    Command::Drill(Drill {
        name,
        policies: all(of, "policy"),
        seed: get(of, "seed").unwrap_or(1),
        csv: get(of, "csv"),
        svg: get(of, "svg"),
        json: of.get_flag("json"),
        config: get(of, "config"),
        upstream: get(of, "upstream"),
        model: DrillModel {
            mu: get(of, "mu"),
            stall: get(of, "stall"),
            rate: get(of, "rate"),
            keys: get(of, "keys"),
            ttl: get(of, "ttl"),
            line: get::<u64>(of, "line").and_then(|line| usize::try_from(line).ok()),
            open: get(of, "open"),
            duration: get(of, "duration"),
        },
    })
}
