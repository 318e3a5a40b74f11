//! A column of a table: separated by commas, semicolons or tabs, fields perhaps in quotes.

use super::{Input, NAMES, ReadError, Unit, sample, shown, unit_of};

const SEPARATORS: [char; 3] = ['\t', ';', ','];

fn separator(line: &str) -> char {
    SEPARATORS.into_iter().find(|&separator| line.contains(separator)).unwrap_or(',')
}

pub(super) fn looks_like(first: &str, column: Option<&str>) -> bool {
    column.is_some()
        || first.contains(SEPARATORS)
        || NAMES.contains(&first.trim_matches('"').to_ascii_lowercase().as_str())
}

/// The fields of a line. A quote inside quotes is doubled; a line break inside them is not
/// supported.
fn fields(line: &str, separator: char) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut rest = line.chars().peekable();
    while let Some(next) = rest.next() {
        let Some(field) = fields.last_mut() else { break };
        match next {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            _ if next == separator && !quoted => fields.push(String::new()),
            _ => field.push(next),
        }
    }
    fields
}

/// Reads these lines, of which `first` is the first.
pub(super) fn read<'t>(
    first: &str,
    lines: impl Iterator<Item = (usize, &'t str)>,
    unit: Unit,
    column: Option<&str>,
) -> Result<Input, ReadError> {
    let mut lines = lines.peekable();
    let line = lines.peek().map_or(1, |(line, _)| *line);
    let separator = separator(first);
    let head: Vec<String> =
        fields(first, separator).iter().map(|name| name.trim().to_owned()).collect();
    let named = head.iter().all(|name| sample(name, unit).is_err());
    let at = if named { find(&head, column) } else { number(&head, column) };
    let at = at.map_err(|what| ReadError { line: Some(line), what })?;
    let (unit, source) = if named {
        lines.next();
        (unit_of(&head[at], unit), format!("CSV, column {}", head[at]))
    } else {
        (unit, format!("CSV, column {}", at + 1))
    };
    let samples = lines
        .map(|(line, row)| {
            let fields = fields(row, separator);
            let field = fields.get(at).ok_or_else(|| ReadError {
                line: Some(line),
                what: format!("there is no column {}", at + 1),
            })?;
            sample(field, unit).map_err(|what| ReadError { line: Some(line), what })
        })
        .collect::<Result<_, _>>()?;
    Ok(Input { samples, failed: 0, source })
}

/// The column by its name.
fn find(head: &[String], column: Option<&str>) -> Result<usize, String> {
    let position = |wanted: &str| head.iter().position(|name| name.eq_ignore_ascii_case(wanted));
    let found = match column {
        Some(column) => position(column).or_else(|| nth(head, column)),
        None if head.len() == 1 => Some(0),
        None => NAMES.iter().find_map(|name| position(name)),
    };
    found.ok_or_else(|| {
        let wanted = column.map_or_else(|| "of durations".to_owned(), shown);
        format!("there is no column {wanted} among {}; name one with --column", head.join(", "))
    })
}

/// The column by its number, the first if there is one only.
fn number(head: &[String], column: Option<&str>) -> Result<usize, String> {
    match column {
        Some(column) => nth(head, column)
            .ok_or_else(|| format!("there is no head that names {}", shown(column))),
        None if head.len() == 1 => Ok(0),
        None => Err(format!(
            "{} columns and no head that names them; say --column 1 to take the first",
            head.len()
        )),
    }
}

fn nth(head: &[String], column: &str) -> Option<usize> {
    let at = column.parse::<usize>().ok()?.checked_sub(1)?;
    (at < head.len()).then_some(at)
}
