//! How the scripted worker is told to boot.
//!
//! Flags come from the command line, then from `HEDGEROW_STAGE_ARGS` (split at white space), so that
//! a test can change the behaviour of a worker whose command it does not write.

use std::path::PathBuf;

use hedgerow_wire::Capabilities;

/// What it understands: everything except a lean envelope, for it shows what workers are sent.
const SPOKEN: Capabilities = Capabilities { lean: false, ..Capabilities::ALL };

/// The flags, for the usage text.
pub const FLAGS: &str = "  --socket PATH           where to listen
  --boot-ms N             take N ms to boot
  --boot ok|fail|exit|hang|silent|never-listen
                          say that booting failed; exit at once; neither say anything nor listen;
                          listen without saying so; say so without listening
  --boot-fail-file PATH   fail to boot while this file exists
  --no-capabilities       announce none
  --only-capability NAME  announce this one (may be repeated)
  --mode PATH             answer every request as if it were for this path and query
  --note ADDRESS          the page at / shows what a scripted store's control port has to say
  --fork-child            start a child that sleeps, to see whether it is ended too
  --print N               write N lines to each of stdout and stderr while booting
  --rss MB                hold so much memory";

/// What becomes of the boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Boot {
    /// Listen, then say that it is ready.
    #[default]
    Ok,
    /// Say that it failed, and exit.
    Fail,
    /// Exit without a word.
    Exit,
    /// Neither listen nor say anything, and stay.
    Hang,
    /// Listen without saying so: a worker that does not know of readiness.
    Silent,
    /// Say that it is ready without listening.
    NeverListen,
}

/// The parsed flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args {
    /// Where to listen.
    pub socket: PathBuf,
    /// How long booting takes, in milliseconds.
    pub boot_ms: u64,
    /// What becomes of it.
    pub boot: Boot,
    /// Fail to boot while this exists.
    pub boot_fail_file: Option<PathBuf>,
    /// What to announce.
    pub capabilities: Capabilities,
    /// Answer every request as if it were for this path and query.
    pub mode: Option<String>,
    /// Where there is a note for the page.
    pub note: Option<String>,
    /// Start a child that sleeps.
    pub fork_child: bool,
    /// Lines to print while booting.
    pub print: u64,
    /// Memory to hold, in MiB.
    pub rss_mb: usize,
}

impl Args {
    /// Reads the flags, the environment's included.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let more = std::env::var("HEDGEROW_STAGE_ARGS").unwrap_or_default();
        let more: Vec<String> = more.split_whitespace().map(str::to_owned).collect();
        Self::parse_from(args.into_iter().chain(more))
    }

    fn parse_from(args: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            socket: PathBuf::new(),
            boot_ms: 0,
            boot: Boot::Ok,
            boot_fail_file: None,
            capabilities: SPOKEN,
            mode: None,
            note: None,
            fork_child: false,
            print: 0,
            rss_mb: 0,
        };
        let mut only = None;
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let (flag, mut inline) = match arg.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            let mut value = || {
                inline.take().or_else(|| args.next()).ok_or_else(|| format!("{flag} needs a value"))
            };
            match flag.as_str() {
                "--socket" => parsed.socket = value()?.into(),
                "--boot-ms" => parsed.boot_ms = number(&flag, &value()?)?,
                "--boot" => parsed.boot = boot(&value()?)?,
                "--boot-fail-file" => parsed.boot_fail_file = Some(value()?.into()),
                "--no-capabilities" => parsed.capabilities = Capabilities::NONE,
                "--only-capability" => {
                    only = Some(only.unwrap_or(Capabilities::NONE).with(&value()?));
                }
                "--mode" => parsed.mode = Some(value()?),
                "--note" => parsed.note = Some(value()?),
                "--fork-child" => parsed.fork_child = true,
                "--print" => parsed.print = number(&flag, &value()?)?,
                "--rss" => parsed.rss_mb = number(&flag, &value()?)?,
                _ => return Err(format!("unknown flag {flag}\n{FLAGS}")),
            }
        }
        if let Some(only) = only {
            parsed.capabilities = only;
        }
        if parsed.socket.as_os_str().is_empty() {
            return Err("--socket PATH is missing".to_owned());
        }
        Ok(parsed)
    }
}

/// The values of these flags, each with what it is without being given.
pub(crate) fn flags<const N: usize>(
    args: impl IntoIterator<Item = String>,
    known: [(&str, &str); N],
) -> Result<[String; N], String> {
    let mut values = known.map(|(_, value)| value.to_owned());
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let (flag, inline) = match arg.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        let Some(at) = known.iter().position(|(name, _)| *name == flag) else {
            return Err(format!("unknown flag {flag}"));
        };
        values[at] =
            inline.or_else(|| args.next()).ok_or_else(|| format!("{flag} needs a value"))?;
    }
    Ok(values)
}

fn number<T: std::str::FromStr>(flag: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{flag} takes a whole number, not {value:?}"))
}

fn boot(value: &str) -> Result<Boot, String> {
    Ok(match value {
        "ok" => Boot::Ok,
        "fail" => Boot::Fail,
        "exit" => Boot::Exit,
        "hang" => Boot::Hang,
        "silent" => Boot::Silent,
        "never-listen" => Boot::NeverListen,
        _ => return Err(format!("--boot does not know {value:?}\n{FLAGS}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        Args::parse_from(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn both_spellings_of_a_value() {
        assert_eq!(parse("--socket /s --boot-ms 5"), parse("--boot-ms=5 --socket=/s"));
    }

    #[test]
    fn capabilities_can_be_taken_away() {
        assert_eq!(parse("--socket s").unwrap().capabilities, SPOKEN);
        let none = parse("--socket s --no-capabilities").unwrap();
        assert_eq!(none.capabilities, Capabilities::NONE);
        let two = parse("--socket s --only-capability cancel --only-capability raw_body").unwrap();
        assert_eq!(two.capabilities, Capabilities::from_names(["raw_body", "cancel"]));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse("").unwrap_err().contains("--socket"));
        assert!(parse("--socket").unwrap_err().contains("needs a value"));
        assert!(parse("--socket s --boot maybe").unwrap_err().contains("maybe"));
        assert!(parse("--socket s --print many").unwrap_err().contains("many"));
        assert!(parse("--frobnicate").unwrap_err().contains("--frobnicate"));
    }
}
