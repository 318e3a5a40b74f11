//! How a call came about, in headers.
//!
//! Invariant: what these names say is this gateway's word; what an upstream says in them is dropped.

use hedgerow_policy::hedge::Role;
use hedgerow_upstream::Report;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

const ATTEMPTS: HeaderName = HeaderName::from_static("hedgerow-attempts");
const WINNER: HeaderName = HeaderName::from_static("hedgerow-winner");
const HEDGED_AFTER: HeaderName = HeaderName::from_static("hedgerow-hedged-after-ms");
const RETRIES: HeaderName = HeaderName::from_static("hedgerow-retries");

/// Says how the call came about.
pub(crate) fn mark(headers: &mut HeaderMap, report: Report) {
    // They are this port's to say, whatever an upstream sends. Few send them, and looking is cheaper
    // than removing what is not there.
    let own = [ATTEMPTS, WINNER, HEDGED_AFTER, RETRIES];
    if headers.keys().any(|name| own.contains(name)) {
        for name in own {
            headers.remove(name);
        }
    }
    if report.attempts == 0 {
        return;
    }
    let once = report.attempts == 1;
    let attempts = if once { HeaderValue::from_static("1") } else { report.attempts.into() };
    headers.insert(ATTEMPTS, attempts);
    let winner = report.winner.unwrap_or(Role::Primary);
    headers.insert(WINNER, HeaderValue::from_static(winner.name()));
    if let Some(after) = report.hedged_after {
        let ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        headers.insert(HEDGED_AFTER, HeaderValue::from(ms));
    }
    if report.retries > 0 {
        headers.insert(RETRIES, HeaderValue::from(report.retries));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_call_came_about_is_said_by_nobody_else() {
        let all = [ATTEMPTS, WINNER, HEDGED_AFTER, RETRIES];
        let forged = all.map(|name| (name, HeaderValue::from_static("forged")));
        let mut headers = HeaderMap::from_iter(forged);
        mark(&mut headers, Report { attempts: 1, ..Report::default() });
        assert_eq!(headers.len(), 2, "{headers:?}");
        assert!(headers[ATTEMPTS] == "1" && headers[WINNER] == "primary", "{headers:?}");
    }
}
