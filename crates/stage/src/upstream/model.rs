//! The language models of the scripted upstream: the streams that such services send, and the
//! requests that they take.
//!
//! A model that is asked as Ollama and `OpenAI` are asked repeats the last message, word by word, so
//! that who asked can see that what it sent arrived. One that streams nothing is refused: there is no
//! other kind here.

use serde_json::{Value, json};

use super::http::{Gone, Request};
use super::routes::Script;

/// How the rows of a stream look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    /// A row a piece, in both of Ollama's shapes at once.
    Ndjson,
    /// The same rows as named events.
    Events,
    /// `OpenAI`'s chunks.
    OpenAi,
    /// Ollama's `/api/chat`.
    Chat,
    /// Ollama's `/api/generate`.
    Generate,
}

impl Format {
    const fn is_ndjson(self) -> bool {
        matches!(self, Format::Ndjson | Format::Chat | Format::Generate)
    }

    fn row(self, model: &str, word: &str) -> Value {
        match self {
            Format::Ndjson | Format::Events => {
                json!({"message": {"content": word}, "response": word, "done": false})
            }
            Format::OpenAi => openai(model, &json!({"content": word}), &Value::Null),
            Format::Chat => {
                let message = json!({"role": "assistant", "content": word});
                json!({"model": model, "message": message, "done": false})
            }
            Format::Generate => json!({"model": model, "response": word, "done": false}),
        }
    }

    /// What stands behind the last word.
    fn ending(self, model: &str) -> String {
        match self {
            Format::Ndjson => "{\"message\":{\"content\":\"\"},\"done\":true}\n".to_owned(),
            Format::Events => String::new(),
            Format::OpenAi => {
                format!("data: {}\n\ndata: [DONE]\n\n", openai(model, &json!({}), &"stop".into()))
            }
            Format::Chat => {
                let message = json!({"role": "assistant", "content": ""});
                let row = json!({"model": model, "message": message, "done": true, "done_reason": "stop"});
                format!("{row}\n")
            }
            Format::Generate => {
                let row =
                    json!({"model": model, "response": "", "done": true, "done_reason": "stop"});
                format!("{row}\n")
            }
        }
    }
}

fn openai(model: &str, delta: &Value, reason: &Value) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
    })
}

/// The formats that have a path of their own.
fn of_path(path: &str) -> Option<Format> {
    match path {
        "/api/chat" => Some(Format::Chat),
        "/api/generate" => Some(Format::Generate),
        "/v1/chat/completions" => Some(Format::OpenAi),
        _ => None,
    }
}

/// Serves a path of a model's; `None`: it is none.
pub(super) fn serve(script: &mut Script<'_>) -> Option<Result<(), Gone>> {
    let request = script.request;
    if request.path == "/model" {
        return Some(words(script));
    }
    let format = of_path(&request.path)?;
    Some(match asked(request, format) {
        Ok((model, text)) => stream(script, format, &model, text.split_inclusive(' ')),
        Err(why) => script.refuse(&json!({"error": why})),
    })
}

/// `/model`: as many words as asked for.
fn words(script: &mut Script<'_>) -> Result<(), Gone> {
    const WORDS: [&str; 6] = ["The", " hedge", " is", " as", " green", " as ever."];
    let format = match script.request.text("format") {
        Some("openai") => Format::OpenAi,
        None | Some("ndjson") => Format::Ndjson,
        Some(_) => Format::Events,
    };
    let count = usize::try_from(script.count(8)).unwrap_or(usize::MAX);
    stream(script, format, "model", WORDS.iter().copied().cycle().take(count.min(1_000_000)))
}

/// The model's name and the text to repeat, of a request as those services take it.
fn asked(request: &Request, format: Format) -> Result<(String, String), String> {
    if request.method != "POST" {
        return Err("a model is asked with POST".to_owned());
    }
    let body: Value =
        serde_json::from_slice(&request.body).map_err(|error| format!("the body: {error}"))?;
    // Ollama streams unless it is told not to, OpenAI does not unless it is told to.
    let streams = body["stream"].as_bool().unwrap_or(format != Format::OpenAi);
    let said = match format {
        Format::Generate => body["prompt"].as_str(),
        _ => body["messages"].as_array().and_then(|all| all.last()?["content"].as_str()),
    };
    match (body["model"].as_str(), said) {
        (Some(model), Some(text)) if streams => Ok((model.to_owned(), text.to_owned())),
        (Some(_), Some(_)) => Err("this model streams, or says nothing".to_owned()),
        _ => Err("neither model nor text".to_owned()),
    }
}

fn stream<'w>(
    script: &mut Script<'_>,
    format: Format,
    model: &str,
    words: impl IntoIterator<Item = &'w str>,
) -> Result<(), Gone> {
    let request = script.request;
    let ms = request.number("ms").unwrap_or(20);
    let (nonsense, breaks) = (request.number("nonsense"), request.number("break"));
    let kind = if format.is_ndjson() { "application/x-ndjson" } else { "text/event-stream" };
    script.begin(kind)?;
    for (n, word) in (1..).zip(words) {
        let row = match nonsense == Some(n) {
            true => "nonsense".to_owned(),
            false => format.row(model, word).to_string(),
        };
        let text = match format {
            Format::OpenAi => format!("data: {row}\n\n"),
            Format::Events => format!("id: {n}\nevent: token\ndata: {row}\n\n"),
            Format::Ndjson | Format::Chat | Format::Generate => format!("{row}\n"),
        };
        script.piece(text.as_bytes())?;
        script.client.wait(Some(ms))?;
        if breaks == Some(n) {
            return Err(script.reset());
        }
    }
    let ending = format.ending(model);
    if !ending.is_empty() {
        script.piece(ending.as_bytes())?;
    }
    script.end()
}
