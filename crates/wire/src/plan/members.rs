//! The members of plans and batches, whatever types they were written in.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{PlannedRequest, Target};
use crate::loose::{self, Value};

/// What a plan or one call of a batch says about hedging, beside what its upstream does anyway.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HedgeOverride {
    /// `false`: this call is not hedged.
    pub enabled: Option<bool>,
    /// `after_ms`.
    pub after_ms: Option<u64>,
    /// `after_quantile`, over 0 and under 1.
    pub after_quantile: Option<f64>,
    /// `idle_ms`.
    pub idle_ms: Option<u64>,
    /// `max`.
    pub max: Option<u32>,
    /// `answer`.
    pub answer: Option<Answer>,
    /// `progress`.
    pub progress: Option<Progress>,
    /// `non_idempotent`.
    pub non_idempotent: Option<bool>,
    /// `mode`.
    pub mode: Option<Mode>,
    /// `min_useful_ms`.
    pub min_useful_ms: Option<u64>,
}

/// What wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// `full`
    Full,
    /// `first_data`
    FirstData,
    /// `headers`
    Headers,
}

/// What counts as a sign of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// `data`
    Data,
    /// `bytes`
    Bytes,
}

/// Whether twins are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `on`
    On,
    /// `observe`
    Observe,
}

/// The members of one object: name and raw JSON. Order is kept, the last of a repeated name wins.
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// What stands in `meta`.
pub(super) struct Meta {
    pub(super) field_path: Option<String>,
    pub(super) fallback: Option<String>,
    pub(super) sse_event: Option<String>,
}

impl<'a> Members<'a> {
    pub(crate) fn read(payload: &'a [u8]) -> Result<Members<'a>, String> {
        let text = std::str::from_utf8(payload).map_err(|_| "not UTF-8".to_owned())?;
        Members::of(text)
    }

    /// An object; a list is one with its indices as names.
    pub(crate) fn of(text: &'a str) -> Result<Members<'a>, String> {
        let entries = serde_json::from_str::<Entries<'a>>(text);
        entries.map(|entries| Members(entries.0)).map_err(|error| error.to_string())
    }

    pub(crate) fn into_entries(self) -> Vec<(Cow<'a, str>, &'a RawValue)> {
        self.0
    }

    pub(crate) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, raw)| *raw)
    }

    fn value(&self, name: &str) -> Value<'a> {
        let raw = self.raw(name).map(RawValue::get);
        raw.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
    }

    /// A map of texts and lists of texts.
    pub(crate) fn take(&mut self, name: &str) -> Value<'a> {
        let raw = self.raw(name).map(RawValue::get);
        raw.and_then(|raw| loose::map(&mut serde_json::Deserializer::from_str(raw)).ok())
            .unwrap_or_default()
    }

    /// A member that is text and not empty.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.value(name).as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    pub(crate) fn whole(&self, name: &str) -> Option<u64> {
        self.value(name).as_whole()
    }

    fn ratio(&self, name: &str) -> Option<f64> {
        match self.value(name) {
            Value::Number(ratio) if ratio > 0.0 && ratio < 1.0 => Some(ratio),
            _ => None,
        }
    }

    /// A member that is true or false, and no other type.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.value(name) {
            Value::Bool(flag) => Some(flag),
            _ => None,
        }
    }

    fn inner(&self, name: &str) -> Members<'a> {
        let inner = self.raw(name).and_then(|raw| Members::of(raw.get()).ok());
        inner.unwrap_or(Members(Vec::new()))
    }

    pub(super) fn meta(&self) -> Meta {
        let meta = self.inner("meta");
        Meta {
            field_path: meta.text("field_path"),
            fallback: meta.text("fallback_field_path"),
            sse_event: meta.text("sse_event"),
        }
    }

    /// The call that stands in these members.
    pub(crate) fn request(&mut self, headers_name: &str) -> Result<PlannedRequest, String> {
        let target = match (self.text("url"), self.text("upstream")) {
            (_, Some(name)) => {
                let path = self.text("path").unwrap_or_else(|| "/".to_owned());
                Target::Upstream { name, path }
            }
            (Some(url), None) => Target::Url(url),
            // A fixture needs neither.
            (None, None) if self.text("fixture_path").is_some() => Target::default(),
            (None, None) => return Err("neither url nor upstream".to_owned()),
        };
        let body = match self.value("body").into_text() {
            Some(text) => Bytes::from(text.into_owned()),
            // A body that is JSON is sent as JSON.
            None => {
                self.raw("body").map(|raw| Bytes::from(raw.get().to_owned())).unwrap_or_default()
            }
        };
        let body = if &body[..] == b"null" { Bytes::new() } else { body };
        let method = self.text("method").map(|method| method.to_ascii_uppercase());
        let usual = if body.is_empty() { "GET" } else { "POST" };
        Ok(PlannedRequest {
            target,
            method: method.unwrap_or_else(|| usual.to_owned()),
            headers: headers(self.take(headers_name)),
            body,
            hedge: self.hedge(),
        })
    }

    fn hedge(&self) -> HedgeOverride {
        let h = self.inner("hedge");
        HedgeOverride {
            enabled: self.flag("hedge").or_else(|| h.flag("enabled")),
            after_ms: h.whole("after_ms").filter(|ms| *ms > 0),
            after_quantile: h.ratio("after_quantile"),
            idle_ms: h.whole("idle_ms").filter(|ms| *ms > 0),
            max: h.whole("max").and_then(|max| u32::try_from(max).ok()).filter(|max| *max > 0),
            answer: h.text("answer").and_then(|name| match name.as_str() {
                "full" => Some(Answer::Full),
                "first_data" => Some(Answer::FirstData),
                "headers" => Some(Answer::Headers),
                _ => None,
            }),
            progress: h.text("progress").and_then(|name| match name.as_str() {
                "data" => Some(Progress::Data),
                "bytes" => Some(Progress::Bytes),
                _ => None,
            }),
            non_idempotent: h.flag("non_idempotent"),
            mode: h.text("mode").and_then(|name| match name.as_str() {
                "on" => Some(Mode::On),
                "observe" => Some(Mode::Observe),
                _ => None,
            }),
            min_useful_ms: h.whole("min_useful_ms"),
        }
    }
}

/// The headers of a map: names in lower case, a list is several lines.
pub(crate) fn headers(value: Value<'_>) -> Vec<(String, String)> {
    let Value::Map(entries) = value else { return Vec::new() };
    let mut headers = Vec::with_capacity(entries.len());
    for (name, value) in entries {
        let name = name.to_ascii_lowercase();
        match value {
            Value::List(lines) => {
                let lines = lines.into_iter().filter_map(Value::into_text);
                headers.extend(lines.map(|line| (name.clone(), line.into_owned())));
            }
            value => headers.extend(value.into_text().map(|text| (name, text.into_owned()))),
        }
    }
    headers
}

struct Entries<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntriesVisitor).map(Entries)
    }
}

struct EntriesVisitor;

impl<'de> serde::de::Visitor<'de> for EntriesVisitor {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            entries.push((name, map.next_value()?));
            if entries.len() > loose::MAX_ENTRIES {
                return Err(serde::de::Error::custom("too many members"));
            }
        }
        Ok(entries)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(raw) = seq.next_element()? {
            entries.push((Cow::Owned(entries.len().to_string()), raw));
            if entries.len() > loose::MAX_ENTRIES {
                return Err(serde::de::Error::custom("too many entries"));
            }
        }
        Ok(entries)
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
