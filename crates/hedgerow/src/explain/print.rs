//! The story as text and as JSON.
//!
//! Invariant: nothing that came from outside can move a terminal: control characters are shown, not
//! sent.

use super::story::{Other, Part, Story};

/// Width of the longest bar.
const BAR: f64 = 30.0;
/// Other requests of the trace that are named.
const OTHERS: usize = 5;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";

/// Milliseconds as people read them.
pub(crate) fn ms(ms: f64) -> String {
    match ms {
        ms if ms < 9.95 => format!("{ms:.1} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        ms if ms < 99_950.0 => format!("{:.2} s", ms / 1e3),
        ms => format!("{:.0} s", ms / 1e3),
    }
}

/// Text that is safe to show.
pub(crate) fn shown(text: &str) -> String {
    let shown = text.chars().map(|c| match c {
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '?',
        c if c.is_control() => '?',
        c => c,
    });
    shown.collect()
}

struct Page {
    out: String,
    colours: bool,
}

impl Page {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

impl Story {
    /// One JSON object.
    pub(crate) fn json(&self) -> String {
        // Numbers, strings and lists alone: it cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// For people.
    pub(crate) fn text(&self, colours: bool) -> String {
        let mut page = Page { out: String::new(), colours };
        self.title(&mut page);
        page.line("");
        self.told(&mut page);
        self.where_it_went(&mut page);
        if let Some(cause) = &self.cause {
            page.line("");
            let phase = cause.phase.as_ref().map(|p| format!(" ({p})")).unwrap_or_default();
            let class = page.painted(RED, &format!("{}{phase}", shown(&cause.class)));
            page.line(&format!("{class}: {}.", cause.meaning));
            if let Some(message) = &cause.message {
                page.line(&format!("It was said: {}", shown(message)));
            }
            page.line(&format!("Look at: {}.", cause.look_at));
        }
        self.others(&mut page);
        page.out
    }

    fn title(&self, page: &mut Page) {
        let answer = match (&self.error_class, self.status) {
            (Some(class), Some(status)) => format!("{status} {}", shown(class)),
            (None, Some(status)) => status.to_string(),
            _ => String::new(),
        };
        let colour = if self.error_class.is_some() { RED } else { GREEN };
        let answer = if answer.is_empty() {
            String::new()
        } else {
            format!("  ->  {}", page.painted(colour, &answer))
        };
        let what = page.painted(BOLD, &shown(&self.what));
        page.line(&format!("{what}{answer}, {} in all", ms(self.duration_ms)));
        let ids = [("trace", &self.trace_id), ("request", &self.request_id)];
        let ids =
            ids.iter().filter_map(|(name, id)| Some(format!("{name} {}", shown(id.as_ref()?))));
        let mut about: Vec<String> = ids.collect();
        about.extend(self.remote_addr.as_ref().map(|addr| format!("from {}", shown(addr))));
        about.extend(self.protocol.as_deref().map(shown));
        about.push(format!("{} UTC", self.started_at));
        let about = page.painted(DIM, &about.join(", "));
        page.line(&about);
    }

    fn told(&self, page: &mut Page) {
        for told in &self.timeline {
            let at = page.painted(DIM, &format!("{:>9}", ms(told.at_ms.max(0.0))));
            let what = shown(&told.what);
            let what = if told.bad { page.painted(RED, &what) } else { what };
            page.line(&format!("{at}  {what}"));
            for more in &told.more {
                page.line(&format!("{:>13}{}", "", shown(more)));
            }
        }
    }

    fn where_it_went(&self, page: &mut Page) {
        if self.parts.is_empty() {
            return;
        }
        page.line("");
        page.line("Where the time went");
        let name = self.parts.iter().map(|part| part.name.len()).max().unwrap_or(0);
        let all = self.duration_ms.max(f64::MIN_POSITIVE);
        for Part { name: of, ms: spent } in &self.parts {
            let share = spent / all;
            let bar = "#".repeat((share * BAR).round() as usize);
            page.line(&format!("  {of:name$}  {:>8}  {:>3.0} %  {bar}", ms(*spent), share * 100.0));
        }
        page.line(&format!("  {:name$}  {:>8}", "together", ms(self.duration_ms)));
    }

    fn others(&self, page: &mut Page) {
        if self.others.is_empty() {
            return;
        }
        page.line("");
        page.line("Other requests of this trace");
        for Other { request_id, what, status, duration_ms, at_ms } in
            self.others.iter().rev().take(OTHERS)
        {
            let request = request_id.as_deref().unwrap_or("?");
            let status = status.unwrap_or(0);
            let when = if *at_ms < 0.0 {
                format!("{} before", ms(-at_ms))
            } else {
                format!("{} after", ms(*at_ms))
            };
            let what = shown(what);
            page.line(&format!(
                "  {what}  {status}, {}, {when}, request {}",
                ms(*duration_ms),
                shown(request)
            ));
        }
        if let Some(more @ 1..) = self.others.len().checked_sub(OTHERS) {
            page.line(&format!("  and {more} more"));
        }
    }
}
