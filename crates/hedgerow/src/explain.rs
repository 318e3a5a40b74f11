//! `hedgerow explain`: the story of one request, from what was written down about it.
//!
//! Invariant: only what events say is told. What they do not say is not guessed, and what merely
//! happened at the same time is told as that.

mod calls;
mod event;
mod evidence;
mod live;
mod print;
mod remedy;
mod source;
mod story;
#[cfg(test)]
mod tests;

use crate::cli::{Explain, Outcome};
use crate::config::Config;
use evidence::Found;
use source::{Events, Gateway};
use std::io::IsTerminal as _;

/// Looks the request up, at the running gateway or in an event log, and tells its story.
///
/// Exit code 1 where nothing is known of it, 2 where nothing could be read.
#[must_use]
pub fn run(arguments: &Explain) -> Outcome {
    answer(arguments).unwrap_or_else(|(code, what)| Outcome {
        code,
        output: String::new(),
        errors: format!("hedgerow: {what}\n"),
    })
}

fn answer(arguments: &Explain) -> Result<Outcome, (u8, String)> {
    let id = &arguments.id;
    if let Some(path) = &arguments.event_log {
        let events = Events::File(path.clone());
        let found = evidence::find(&events, id).map_err(|error| (2, error))?;
        return match found {
            Found::Evidence(evidence) => Ok(told(arguments, &story::of(&evidence, id))),
            Found::Nothing { near } => Err((1, missing(id, &[events.name()], &near))),
        };
    }
    let config = Config::load_to_ask(&arguments.config)
        .map_err(|report| (2, report.to_string().trim_end().to_owned()))?;
    let gateway = Gateway::of(&config);
    let (mut looked, mut near, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    let mut sources = Vec::new();
    match gateway.events() {
        Ok(events) => sources.push(events),
        Err(error) => refused.push(error),
    }
    sources.extend(config.log.event_log.map(Events::File));
    for events in &sources {
        match evidence::find(events, id) {
            Ok(Found::Evidence(evidence)) => {
                return Ok(told(arguments, &story::of(&evidence, id)));
            }
            Ok(Found::Nothing { near: more }) => {
                looked.push(events.name());
                near.extend(
                    more.into_iter().filter(|more| !near.contains(more)).collect::<Vec<_>>(),
                );
            }
            Err(error) => refused.push(error),
        }
        if events.is_live()
            && let Ok(Some(text)) = live::of(&gateway, id, arguments.json)
        {
            return Ok(Outcome { code: 0, output: text, errors: String::new() });
        }
    }
    if looked.is_empty() {
        return Err((2, refused.join("; ")));
    }
    Err((1, missing(id, &looked, &near)))
}

fn told(arguments: &Explain, story: &story::Story) -> Outcome {
    let output = if arguments.json {
        story.json()
    } else {
        // https://no-color.org: any value that is not empty.
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        story.text(std::io::stdout().is_terminal() && !plain)
    };
    Outcome { code: 0, output, errors: String::new() }
}

fn missing(id: &str, looked: &[String], near: &[String]) -> String {
    let id: String = id.chars().take(128).filter(|c| !c.is_control()).collect();
    let near = match near {
        [] => String::new(),
        near => format!("; near it: {}", near.join(", ")),
    };
    format!("nothing is known of {id} in {}{near}", looked.join(" and "))
}
