//! What a drill shows: a summary a policy, a table a second, curves.

use crate::chart::{self, Chart};
use crate::text::{table, thousands, trimmed};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// One value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// How many.
    Count(u64),
    /// A number with two places at most.
    Number(f64),
    /// Whole or broken seconds.
    Seconds(f64),
    /// A share, 0 to 1.
    Share(f64),
    /// It did not happen in this run.
    Never,
    /// It does not apply.
    Nothing,
}

impl Cell {
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => thousands(*count),
            Self::Number(number) => trimmed(*number, 2),
            Self::Seconds(seconds) => format!("{} s", trimmed(*seconds, 2)),
            Self::Share(share) => crate::text::percent(*share),
            Self::Never => "never".to_owned(),
            Self::Nothing => "-".to_owned(),
        }
    }

    fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number) | Self::Seconds(number) => trimmed(*number, 6),
            Self::Share(share) => trimmed(*share, 6),
            Self::Never => "never".to_owned(),
            Self::Nothing => String::new(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Count(count) => json!(count),
            Self::Number(number) | Self::Seconds(number) | Self::Share(number) => json!(number),
            Self::Never | Self::Nothing => Value::Null,
        }
    }
}

/// Rows under names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns' names, as CSV and JSON spell them.
    pub columns: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The table for people; underscores are spaces there.
    #[must_use]
    pub fn text(&self) -> String {
        let head: Vec<String> = self.columns.iter().map(|name| name.replace('_', " ")).collect();
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
        table(&head, &rows)
    }

    /// The table as CSV. No value holds a comma or a quote.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = self.columns.join(",");
        out.push('\n');
        for row in &self.rows {
            let row: Vec<String> = row.iter().map(Cell::plain).collect();
            let _ = writeln!(out, "{}", row.join(","));
        }
        out
    }

    fn json(&self) -> Value {
        let object = |row: &Vec<Cell>| {
            let members = self.columns.iter().zip(row);
            Value::Object(members.map(|(name, cell)| ((*name).to_owned(), cell.json())).collect())
        };
        Value::Array(self.rows.iter().map(object).collect())
    }
}

/// What a drill shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The drill.
    pub drill: &'static str,
    /// The seed.
    pub seed: u64,
    /// The model's figures, by flag.
    pub model: Vec<(&'static str, Cell)>,
    /// A few of the seconds, for people.
    pub glimpse: Option<(String, Table)>,
    /// A row a policy.
    pub summary: Table,
    /// What to read out of it.
    pub notes: Vec<String>,
    /// Every second, or every call.
    pub details: Table,
    /// The curves.
    pub charts: Vec<Chart>,
}

impl Report {
    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let model: Vec<String> =
            self.model.iter().map(|(name, cell)| format!("{name} {}", cell.shown())).collect();
        let mut out = format!("{}, seed {}: {}\n\n", self.drill, self.seed, model.join(", "));
        if let Some((title, table)) = &self.glimpse {
            let _ = writeln!(out, "{title}\n{}", table.text());
        }
        out.push_str(&self.summary.text());
        if !self.notes.is_empty() {
            out.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(out, "{note}");
        }
        out
    }

    /// The details as CSV.
    #[must_use]
    pub fn csv(&self) -> String {
        self.details.csv()
    }

    /// The curves as SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        chart::svg(&self.charts)
    }

    /// The summary as JSON: `drill seed model policies notes`.
    #[must_use]
    pub fn json(&self) -> String {
        let model: Map<String, Value> =
            self.model.iter().map(|(name, cell)| ((*name).to_owned(), cell.json())).collect();
        let value = json!({
            "drill": self.drill,
            "seed": self.seed,
            "model": model,
            "policies": self.summary.json(),
            "notes": self.notes,
        });
        let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
        text.push('\n');
        text
    }
}
