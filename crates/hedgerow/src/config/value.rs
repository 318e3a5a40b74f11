//! The types a key can have: how each is read from TOML and from text, and how it is shown.
//!
//! Promise: a value that was read is in range. Every type says in one phrase what it accepts, and
//! every refusal uses that phrase.

mod amount;
mod choice;
mod list;
mod net;

use std::ops::Range;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;

pub(crate) use amount::duration;
pub(crate) use amount::{Bytes, Int, Millis, PositiveMillis, QueueLength, QueueMillis, Real};
pub(crate) use list::{List, Map, OneOrMany};
pub(crate) use net::{
    Address, Endpoint, HeaderPrefix, Host, HostPattern, MaybeAddress, Method, StoreUrl,
};

use super::model::Secret;

/// Why a value was refused.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// What is wrong; follows the key in a sentence: "is a boolean".
    pub(crate) what: String,
    /// What would be accepted.
    pub(crate) accept: String,
    /// The part that is wrong, where it is smaller than the whole value.
    pub(crate) span: Option<Range<usize>>,
}

impl Refusal {
    pub(crate) fn new(what: impl Into<String>, accept: impl Into<String>) -> Self {
        Self { what: what.into(), accept: accept.into(), span: None }
    }
}

/// The type of a key.
pub(crate) trait Value: Sized + Clone {
    /// Whether the text must never be shown.
    const SECRET: bool = false;
    /// The parts of a TOML value that must never be shown.
    fn secret_spans(value: &Spanned<DeValue<'_>>) -> Vec<Range<usize>> {
        if Self::SECRET { vec![value.span()] } else { Vec::new() }
    }
    /// What is accepted, as a phrase for messages and for the reference.
    fn accepts() -> String;
    /// Reads the text of a flag, a variable or a TOML string.
    fn from_text(text: &str) -> Result<Self, Refusal>;
    /// Reads a TOML value; a string is read as text unless the type says otherwise.
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        match value {
            DeValue::String(text) => Self::from_text(text),
            other => Err(wrong_type::<Self>(other)),
        }
    }
    /// The value as TOML, masked where it is secret; reading it again gives the same value.
    fn to_toml(&self) -> String;
}

/// The refusal of a TOML value of another type.
pub(crate) fn wrong_type<T: Value>(found: &DeValue<'_>) -> Refusal {
    let found = match found {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    };
    Refusal::new(format!("is {found}"), expected::<T>())
}

/// "expected an integer, 1 to 5"
pub(crate) fn expected<T: Value>() -> String {
    format!("expected {}", one::<T>())
}

/// What a type accepts, with its article where it needs one.
pub(crate) fn one<T: Value>() -> String {
    let phrase = T::accepts();
    let article = match phrase.split([' ', ',']).next() {
        Some("integer" | "address" | "array") => "an ",
        Some("number" | "path" | "table" | "URL" | "method" | "host") => "a ",
        _ => "",
    };
    format!("{article}{phrase}")
}

/// Text as a TOML string. `${env.` is doubled, so that reading it again does not expand it.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.replace("${env.", "$${env.").chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Refuses the one character that no program argument, path or variable can hold.
fn without_nul(text: &str) -> Result<&str, Refusal> {
    if text.contains('\0') {
        return Err(Refusal::new("contains a NUL character", "remove it"));
    }
    Ok(text)
}

impl Value for String {
    fn accepts() -> String {
        "text".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        without_nul(text).map(str::to_owned)
    }
    fn to_toml(&self) -> String {
        quote(self)
    }
}

impl Value for PathBuf {
    fn accepts() -> String {
        "path".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        without_nul(text).map(PathBuf::from)
    }
    fn to_toml(&self) -> String {
        quote(&self.to_string_lossy())
    }
}

impl Value for bool {
    fn accepts() -> String {
        "true or false".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Refusal::new(format!("is {text:?}"), "expected true or false")),
        }
    }
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        value.as_bool().ok_or_else(|| wrong_type::<Self>(value))
    }
    fn to_toml(&self) -> String {
        self.to_string()
    }
}

impl Value for Secret {
    const SECRET: bool = true;
    fn accepts() -> String {
        "text (never shown)".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        without_nul(text).map(|text| Self(text.to_owned()))
    }
    fn to_toml(&self) -> String {
        // An empty secret is no secret, and "is one set?" is what the reader wants to know.
        if self.0.is_empty() { "\"\"".into() } else { "\"***\"".into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_reads_back() {
        for text in ["", "plain", "a \"b\" \\ \n\t\u{7f}\u{1}ä", "${env.HOME}"] {
            let shown = quote(text);
            let value = DeValue::parse(&shown).expect("valid TOML");
            let read = value.get_ref().as_str().expect("a string").to_owned();
            assert_eq!(read.replace("$${env.", "${env."), text);
        }
    }

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret("hunter2".into());
        assert_eq!(format!("{secret:?} {}", secret.to_toml()), "*** \"***\"");
    }
}
