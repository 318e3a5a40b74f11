//! `/script`: what each attempt of a call gets, step by step.
//!
//! A query parameter holds the steps of one kind of request: `NAME.N` those of attempt N at the
//! upstream of that name, `NAME` and `N` those of all its attempts, and of that attempt everywhere;
//! the first of these that is there counts, and a request that has none is answered at once. Steps
//! are separated by commas: `wait:MS` (`wait`: for ever), `status:CODE` (a whole answer; `retry_after`
//! as for `/status`), `events` or `rows` (a head of that type), `data:TEXT` (a piece; `\n` is a new
//! line), `hex:DIGITS` (a piece of bytes), `reset`. What was begun is ended behind the last step.

use super::http::Gone;
use super::routes::Script;

/// Plays the steps.
pub(super) fn play(script: &mut Script<'_>) -> Result<(), Gone> {
    let request = script.request;
    let attempt = request.header("hedgerow-attempt");
    let name = script.name;
    let steps = [format!("{name}.{attempt}"), name.to_owned(), attempt.to_owned()]
        .iter()
        .find_map(|key| request.text(key));
    let mut begun = false;
    for step in steps.unwrap_or_default().split(',').filter(|step| !step.is_empty()) {
        let (what, with) = step.split_once(':').unwrap_or((step, ""));
        let kind = match what {
            "events" => "text/event-stream",
            "rows" => "application/x-ndjson",
            "data" => "text/plain",
            _ => "application/octet-stream",
        };
        if !begun && matches!(what, "events" | "rows" | "data" | "hex") {
            script.begin(kind)?;
            begun = true;
        }
        match what {
            "wait" => script.client.wait(with.parse().ok())?,
            "status" => return script.status(with.parse().unwrap_or(500)),
            "data" => script.piece(with.replace("\\n", "\n").as_bytes())?,
            "hex" => script.piece(&bytes(with))?,
            "reset" => return Err(script.reset()),
            _ => {}
        }
    }
    if begun { script.end() } else { script.answer() }
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or("0"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap_or(0)).collect()
}
