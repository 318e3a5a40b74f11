//! One number a line.

use super::{Input, ReadError, Unit, lines, sample};

pub(super) fn read(text: &str, unit: Unit) -> Result<Input, ReadError> {
    let samples = lines(text)
        .map(|(line, word)| sample(word, unit).map_err(|what| ReadError { line, what }))
        .collect::<Result<_, _>>()?;
    Ok(Input { samples, failed: 0, source: "one number a line".to_owned() })
}
