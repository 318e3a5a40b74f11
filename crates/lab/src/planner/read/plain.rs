//! One number a line.

use super::{Input, ReadError, Unit, sample};

pub(super) fn read<'t>(
    lines: impl Iterator<Item = (usize, &'t str)>,
    unit: Unit,
) -> Result<Input, ReadError> {
    let samples = lines
        .map(|(line, word)| sample(word, unit).map_err(|what| ReadError { line: Some(line), what }))
        .collect::<Result<_, _>>()?;
    Ok(Input { samples, failed: 0, source: "one number a line".to_owned() })
}
