//! Values whose JSON type an application may get wrong.
//!
//! A frame that is JSON at all must be judged by what it means, not by the type in which a number
//! was written, so these read any value without an error and keep only what can be used. Nothing is
//! kept of a value that can not be, however large: memory follows the use, not the input.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::Capabilities;

/// The most entries kept of a list or a map; one with more is [`Value::Unusable`].
pub(crate) const MAX_ENTRIES: usize = 1024;

/// One value.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Value<'a> {
    /// Not there, or `null`.
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Whole(u64),
    /// A number that is no whole one, or negative.
    Number(f64),
    Bool(bool),
    List(Vec<Value<'a>>),
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
    /// A list or a map where none is of use, or one that is too long.
    Unusable,
}

impl<'a> Value<'a> {
    /// Text as it is, numbers and booleans as their text, nothing else.
    pub(crate) fn into_text(self) -> Option<Cow<'a, str>> {
        match self {
            Value::Text(text) => Some(text),
            Value::Whole(number) => Some(number.to_string().into()),
            Value::Number(number) => Some(number.to_string().into()),
            // Owned: a text that is borrowed is a piece of the payload.
            Value::Bool(value) => Some(value.to_string().into()),
            Value::Absent | Value::List(_) | Value::Map(_) | Value::Unusable => None,
        }
    }

    /// Text, and no other type.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number that this is, or that its digits say.
    pub(crate) fn as_whole(&self) -> Option<u64> {
        match self {
            Value::Whole(number) => Some(*number),
            Value::Number(number) if number.fract() == 0.0 && (0.0..1e15).contains(number) => {
                Some(*number as u64)
            }
            Value::Text(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok()
            }
            _ => None,
        }
    }
}

/// A value of which lists and maps are of no use.
impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Keep::Scalars.deserialize(deserializer)
    }
}

/// Reads a list of scalars, or one.
pub(crate) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value<'de>, D::Error> {
    Keep::Lists.deserialize(deserializer)
}

/// Reads a map of scalars and lists of scalars.
pub(crate) fn map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value<'de>, D::Error> {
    Keep::Maps.deserialize(deserializer)
}

/// The `capabilities` of a frame: a list of names, or absent.
pub(crate) fn capabilities(value: &Value<'_>) -> Option<Capabilities> {
    match value {
        Value::List(names) => {
            Some(Capabilities::from_names(names.iter().filter_map(Value::as_str)))
        }
        _ => None,
    }
}

/// What is of use at one place: each level keeps the level below it inside.
#[derive(Clone, Copy, PartialEq)]
enum Keep {
    Scalars,
    Lists,
    Maps,
}

impl<'de> DeserializeSeed<'de> for Keep {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keep {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Absent)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value<'de>, E> {
        Ok(Value::Whole(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value<'de>, E> {
        Ok(u64::try_from(value).map_or(Value::Number(value as f64), Value::Whole))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value<'de>, E> {
        Ok(Value::Number(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value<'de>, A::Error> {
        let mut values = Vec::new();
        let mut usable = self != Keep::Scalars;
        while usable {
            let Some(value) = seq.next_element_seed(Keep::Scalars)? else {
                return Ok(Value::List(values));
            };
            usable = values.len() < MAX_ENTRIES;
            values.push(value);
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Unusable)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value<'de>, A::Error> {
        let mut entries = Vec::new();
        let mut usable = self == Keep::Maps;
        while usable {
            let Some(name) = map.next_key_seed(Keep::Scalars)? else {
                return Ok(Value::Map(entries));
            };
            let value = map.next_value_seed(Keep::Lists)?;
            let Value::Text(name) = name else { return Err(A::Error::custom("a key is no text")) };
            usable = entries.len() < MAX_ENTRIES;
            entries.push((name, value));
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Unusable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, keep: Keep) -> Value<'_> {
        keep.deserialize(&mut serde_json::Deserializer::from_str(json)).unwrap()
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        assert!(matches!(read(r#""abc""#, Keep::Scalars), Value::Text(Cow::Borrowed("abc"))));
        assert!(matches!(read(r#""a\n""#, Keep::Scalars), Value::Text(Cow::Owned(_))));
    }

    #[test]
    fn each_level_keeps_what_is_of_use_there() {
        assert_eq!(read("[1]", Keep::Scalars), Value::Unusable);
        assert_eq!(read("[]", Keep::Scalars), Value::Unusable);
        assert_eq!(
            read("[1,[2]]", Keep::Lists),
            Value::List(vec![Value::Whole(1), Value::Unusable])
        );
        assert_eq!(read(r#"{"a":1}"#, Keep::Lists), Value::Unusable);
        let inner = Value::List(vec![Value::Unusable]);
        let map = Value::Map(vec![("a".into(), inner), ("b".into(), Value::Unusable)]);
        assert_eq!(read(r#"{"a":[{}],"b":{"c":1}}"#, Keep::Maps), map);
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let list = |n: usize| format!("[{}1]", "1,".repeat(n - 1));
        assert!(matches!(read(&list(MAX_ENTRIES), Keep::Lists), Value::List(_)));
        assert!(matches!(read(&list(MAX_ENTRIES + 1), Keep::Lists), Value::Unusable));
        assert!(matches!(read(&list(MAX_ENTRIES + 9), Keep::Lists), Value::Unusable));
        let map = |n: usize| {
            let members: Vec<String> = (0..n).map(|i| format!("\"{i}\":{i}")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert!(matches!(read(&map(MAX_ENTRIES), Keep::Maps), Value::Map(_)));
        assert!(matches!(read(&map(MAX_ENTRIES + 1), Keep::Maps), Value::Unusable));
    }

    #[test]
    fn whole_numbers_have_several_spellings() {
        for json in ["200", "200.0", "2e2", "\"200\""] {
            assert_eq!(read(json, Keep::Scalars).as_whole(), Some(200), "{json}");
        }
        for json in ["-200", "200.5", "\"\"", "\"2x\"", "\"+200\"", "true", "null", "1e300"] {
            assert_eq!(read(json, Keep::Scalars).as_whole(), None, "{json}");
        }
    }
}
