//! Several values in one key.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use super::{Refusal, Value, one, quote, wrong_type};

/// An array; as text, values between commas.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

/// An array, or one value without brackets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OneOrMany<T>(pub(crate) Vec<T>);

/// Names with text; as text, `A=1,B=2`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Map(pub(crate) BTreeMap<String, String>);

fn split<T: Value>(text: &str) -> Result<Vec<T>, Refusal> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(|part| T::from_text(part.trim())).collect()
}

fn array<T: Value>(value: &DeValue<'_>) -> Option<Result<Vec<T>, Refusal>> {
    let items = value.as_array()?.iter().map(|item| {
        // The place of the one bad element, not of the whole array.
        T::from_toml(item.get_ref()).map_err(|refusal| Refusal {
            span: refusal.span.or_else(|| Some(item.span())),
            ..refusal
        })
    });
    Some(items.collect())
}

fn shown<T: Value>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_toml).collect();
    format!("[{}]", items.join(", "))
}

impl<T: Value> Value for List<T> {
    fn accepts() -> String {
        format!("array, each {}", one::<T>())
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        split(text).map(Self)
    }
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        array(value).unwrap_or_else(|| Err(wrong_type::<Self>(value))).map(Self)
    }
    fn to_toml(&self) -> String {
        shown(&self.0)
    }
}

impl<T: Value> Value for OneOrMany<T> {
    fn accepts() -> String {
        format!("{}, or an array of them", T::accepts())
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        split(text).map(Self)
    }
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        array(value).unwrap_or_else(|| T::from_toml(value).map(|one| vec![one])).map(Self)
    }
    fn to_toml(&self) -> String {
        shown(&self.0)
    }
}

impl Map {
    fn checked(name: &str, text: &str) -> Result<(String, String), Refusal> {
        if name.is_empty() || name.contains(['=', '\0']) {
            let what = format!("has a name that no variable can have: {name:?}");
            return Err(Refusal::new(what, "expected a name without \"=\" and NUL"));
        }
        if text.contains('\0') {
            let what = format!("has a NUL character in the text of {name:?}");
            return Err(Refusal::new(what, "remove it"));
        }
        Ok((name.to_owned(), text.to_owned()))
    }

    /// Whether a variable of this name is likely to hold a secret.
    fn hidden(name: &str) -> bool {
        let name = name.to_ascii_uppercase();
        ["PASS", "SECRET", "TOKEN", "KEY", "CREDENTIAL", "AUTH", "DSN", "_URL"]
            .iter()
            .any(|part| name.contains(part))
    }
}

impl Value for Map {
    fn secret_spans(value: &Spanned<DeValue<'_>>) -> Vec<Range<usize>> {
        let table = value.get_ref().as_table();
        let pairs = table.into_iter().flat_map(|table| table.iter());
        pairs
            .filter(|(name, _)| Self::hidden(name.get_ref()))
            .map(|(_, text)| text.span())
            .collect()
    }
    fn accepts() -> String {
        "table of text".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        let pair = |part: &str| match part.split_once('=') {
            Some((name, text)) => Self::checked(name.trim(), text),
            None => Err(Refusal::new(format!("has {part:?}"), "expected NAME=text,NAME=text")),
        };
        text.split(',')
            .filter(|part| !part.trim().is_empty())
            .map(pair)
            .collect::<Result<_, _>>()
            .map(Self)
    }
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        let table = value.as_table().ok_or_else(|| wrong_type::<Self>(value))?;
        let pair = |(name, text): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
            let name = name.get_ref();
            match text.get_ref() {
                DeValue::String(text) => Self::checked(name, text),
                other => Err(Refusal::new(
                    format!("has {name:?}, which {}", wrong_type::<String>(other).what),
                    "expected text; write it in quotes",
                )),
            }
            .map_err(|refusal| Refusal { span: Some(text.span()), ..refusal })
        };
        table.iter().map(pair).collect::<Result<_, _>>().map(Self)
    }
    fn to_toml(&self) -> String {
        let pairs = self.0.iter().map(|(name, text)| {
            let text = if Self::hidden(name) && !text.is_empty() { "***" } else { text.as_str() };
            format!("{} = {}", quote(name), quote(text))
        });
        let pairs: Vec<String> = pairs.collect();
        if pairs.is_empty() { "{}".into() } else { format!("{{ {} }}", pairs.join(", ")) }
    }
}
