//! A dotted path to a text inside JSON: `choices.0.delta.content`.

use bytes::BytesMut;
use serde_json::Value;

/// The path. The empty one is the row itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldPath(Vec<String>);

impl FieldPath {
    /// The steps of a dotted path. A step that is a number is an index where it meets a list.
    #[must_use]
    pub fn new(path: &str) -> FieldPath {
        FieldPath(path.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect())
    }

    /// Appends the text there to `out`: text as it is, numbers and booleans as JSON writes them.
    /// False if there is none.
    pub(super) fn write(&self, row: &Value, out: &mut BytesMut) -> bool {
        let mut value = row;
        for step in &self.0 {
            let next = match value {
                Value::Object(members) => members.get(step),
                Value::Array(items) => step.parse::<usize>().ok().and_then(|at| items.get(at)),
                _ => None,
            };
            let Some(next) = next else { return false };
            value = next;
        }
        match value {
            Value::String(text) => out.extend_from_slice(text.as_bytes()),
            Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Null | Value::Array(_) | Value::Object(_) => return false,
        }
        true
    }
}
