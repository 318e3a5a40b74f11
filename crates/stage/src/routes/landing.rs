//! The page at `/`.

use std::io;

use super::Call;
use crate::reply::Reply;

const SCENES: &[(&str, &str)] = &[
    ("/hello", "a plain answer"),
    ("/sleep?ms=500", "an answer after half a second"),
    ("/hang", "an answer that never comes"),
    ("/envelope", "the request as the worker sees it"),
    ("/error?exception=RuntimeException&message=boom", "an uncaught error"),
    ("/fault/exit", "the worker process dies"),
    ("/fault/half", "the worker sends half a frame and closes"),
    ("/stream/text?n=5&ms=200", "a stream of text"),
    ("/stream/sse?n=5&ms=200", "a stream of events"),
    ("/stream/die?after=2", "a stream that breaks off"),
];

pub(super) fn serve(call: &Call<'_>, reply: &mut Reply<'_>) -> io::Result<()> {
    if call.header("accept").is_some_and(|accept| accept.contains("application/json")) {
        let scenes: serde_json::Map<String, serde_json::Value> =
            SCENES.iter().map(|&(path, what)| (path.to_owned(), what.into())).collect();
        let json = serde_json::json!({ "worker": std::process::id(), "scenes": scenes });
        return reply.json(json.to_string().as_bytes());
    }
    let items: String = SCENES
        .iter()
        .map(|(path, what)| format!("<li><a href=\"{path}\"><code>{path}</code></a> {what}</li>\n"))
        .collect();
    let note = call.args.note.as_deref().and_then(crate::store::note);
    let note = note.map_or_else(String::new, |note| format!("<pre>\n{}</pre>\n", escaped(&note)));
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>The stage</title>\n\
         <h1>The stage</h1>\n<p>Answered by worker process {}.</p>\n<ul>\n{items}</ul>\n{note}</html>\n",
        std::process::id()
    );
    reply.respond(200, &[("content-type", "text/html; charset=utf-8")], page.as_bytes())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
