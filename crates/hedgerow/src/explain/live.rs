//! A request that is still under way: there is no story yet, but where it is.

use super::print::{ms, shown};
use super::source::Gateway;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Requests {
    requests: Vec<Request>,
}

#[derive(Deserialize, Serialize)]
struct Request {
    trace_id: String,
    request_id: String,
    method: String,
    path: String,
    phase: String,
    age_ms: f64,
    phase_ms: f64,
    worker_id: Option<u32>,
    deadline_ms: Option<f64>,
}

/// What the gateway knows of a request in flight; `None` where it knows none of that id.
pub(crate) fn of(gateway: &Gateway, id: &str, json: bool) -> Result<Option<String>, String> {
    let answer = gateway.get("/admin/requests?limit=10000")?;
    let Ok(Requests { requests }) = serde_json::from_slice(&answer) else { return Ok(None) };
    let mut found = requests.into_iter().filter(|r| r.trace_id == id || r.request_id == id);
    let Some(request) = found.next() else { return Ok(None) };
    if json {
        #[derive(Serialize)]
        struct Live {
            live: Request,
        }
        let text = serde_json::to_string_pretty(&Live { live: request }).unwrap_or_default();
        return Ok(Some(text + "\n"));
    }
    let Request { method, path, phase, age_ms, phase_ms, worker_id, deadline_ms, .. } = request;
    let worker = worker_id.map(|id| format!(", worker {id}")).unwrap_or_default();
    let left = deadline_ms.map(|left| format!(", {} left", ms(left))).unwrap_or_default();
    Ok(Some(format!(
        "{} {} is still under way: it came {} ago, and has been {} for {}{worker}{left}\n",
        shown(&method),
        shown(&path),
        ms(age_ms),
        shown(&phase),
        ms(phase_ms),
    )))
}
