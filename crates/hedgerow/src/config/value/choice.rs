//! One word out of a few.

use super::{Refusal, Value, quote};
use crate::config::guess::closest;
use crate::config::model::{
    Answer, HedgeMode, JournalOverflow, LogFormat, ProblemJson, Progress, Protocol, Shed,
    WorkerKind,
};

/// Refuses a word, with the one that was probably meant.
fn refuse(text: &str, words: &[&'static str]) -> Refusal {
    let list: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    let mut accept = format!("expected {}", list.join(" or "));
    if let Some(word) = closest(text, words.iter().copied()) {
        accept.push_str(&format!("; did you mean {word:?}?"));
    }
    Refusal::new(format!("is {text:?}"), accept)
}

macro_rules! choices {
    ($($kind:ident { $($word:literal => $variant:ident),+ $(,)? })+) => { $(
        impl Value for $kind {
            fn accepts() -> String {
                [$(concat!("\"", $word, "\"")),+].join(" or ")
            }
            fn from_text(text: &str) -> Result<Self, Refusal> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(refuse(text, &[$($word),+])),
                }
            }
            fn to_toml(&self) -> String {
                quote(match self { $(Self::$variant => $word),+ })
            }
        }
    )+ };
}

choices! {
    ProblemJson { "accept" => Accept, "never" => Never }
    LogFormat { "json" => Json, "text" => Text }
    Answer { "full" => Full, "first_data" => FirstData, "headers" => Headers }
    Progress { "data" => Data, "bytes" => Bytes }
    HedgeMode { "on" => On, "observe" => Observe }
    JournalOverflow { "stay_shed" => StayShed, "flush" => Flush }
    Protocol { "auto" => Auto, "http1" => Http1, "http2" => Http2 }
    Shed { "fallback" => Fallback, "error" => Error }
}

impl Value for WorkerKind {
    fn accepts() -> String {
        "\"frames\"".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        match text {
            "frames" => Ok(Self::Frames),
            "fastcgi" | "http" => Err(Refusal::new(
                format!("is {text:?}"),
                "not supported in this version; use \"frames\"",
            )),
            _ => Err(refuse(text, &["frames"])),
        }
    }
    fn to_toml(&self) -> String {
        quote("frames")
    }
}
