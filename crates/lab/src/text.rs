//! Numbers and tables as people read them.

use std::fmt::Write as _;

/// A number with `decimals` places at most, without zeros at the end.
pub(crate) fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Seconds with a unit that fits: `250 ms`, `60 s`.
pub(crate) fn seconds(value: f64) -> String {
    if value > 0.0 && value < 1.0 {
        return format!("{} ms", trimmed(value * 1000.0, 3));
    }
    format!("{} s", trimmed(value, 3))
}

/// A share as percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", trimmed(share * 100.0, 2))
}

/// A count with its thousands set apart: `1,234,567`.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Rows under a head: the first column to the left, the others to the right.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|word| word.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    let head: Vec<String> = head.iter().map(|&word| word.to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = match at {
                0 => write!(line, "{cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(trimmed(65.4250, 3), "65.425");
        assert_eq!(trimmed(330.0, 3), "330");
        assert_eq!(trimmed(100.0, 0), "100");
        assert_eq!(seconds(0.25), "250 ms");
        assert_eq!(seconds(0.0), "0 s");
        assert_eq!(percent(0.2262), "22.62 %");
        assert_eq!((thousands(999), thousands(1_234_567)), ("999".into(), "1,234,567".into()));
    }

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), "1".into()], vec!["bbb".into(), "22".into()]];
        assert_eq!(table(&["x", "yyyy"], &rows), "x    yyyy\na       1\nbbb    22\n");
    }
}
