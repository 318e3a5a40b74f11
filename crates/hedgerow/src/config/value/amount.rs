//! Numbers: counts, shares, times and sizes.

use std::time::Duration;

use toml::de::DeValue;

use super::{Refusal, Value, expected, quote, wrong_type};

/// Longest time accepted: it keeps every sum of times far from overflow.
const LONGEST_MS: u64 = 365 * 24 * 3600 * 1000;

/// A TOML integer as `i64`. `None`: not an integer; an integer too large for it is clamped, since
/// every range ends far below.
fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    let clamped = if integer.as_str().starts_with('-') { i64::MIN } else { i64::MAX };
    Some(i64::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(clamped))
}

/// The refusal of a number in the file shows it as it is written there, not as it was clamped.
fn as_written(value: &DeValue<'_>) -> impl Fn(Refusal) -> Refusal {
    let written = value.as_integer().map(|integer| format!("is {integer}"));
    move |refusal| Refusal { what: written.clone().unwrap_or(refusal.what), ..refusal }
}

fn number<T: Value>(text: &str) -> Result<i64, Refusal> {
    text.trim().parse().map_err(|_| Refusal::new(format!("is {text:?}"), expected::<T>()))
}

/// An integer from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Int<const MIN: u64, const MAX: u64>(pub(crate) u64);

impl<const MIN: u64, const MAX: u64> Int<MIN, MAX> {
    fn in_range(n: i64) -> Result<Self, Refusal> {
        match u64::try_from(n) {
            Ok(n) if (MIN..=MAX).contains(&n) => Ok(Self(n)),
            _ => Err(Refusal::new(format!("is {n}"), expected::<Self>())),
        }
    }

    /// The number as another integer type that holds `MAX`.
    pub(crate) fn get<N: TryFrom<u64> + Default>(self) -> N {
        N::try_from(self.0).unwrap_or_default()
    }
}

impl<const MIN: u64, const MAX: u64> Value for Int<MIN, MAX> {
    fn accepts() -> String {
        format!("integer, {MIN} to {MAX}")
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        Self::in_range(number::<Self>(text)?)
    }
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        let n = integer(value).ok_or_else(|| wrong_type::<Self>(value))?;
        Self::in_range(n).map_err(as_written(value))
    }
    fn to_toml(&self) -> String {
        self.0.to_string()
    }
}

/// Number of requests that may wait; below zero is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLength(pub(crate) u64);

impl QueueLength {
    fn in_range(n: i64) -> Result<Self, Refusal> {
        if n > 1_000_000 {
            return Err(Refusal::new(format!("is {n}"), expected::<Self>()));
        }
        Ok(Self(u64::try_from(n).unwrap_or(0)))
    }
}

impl Value for QueueLength {
    fn accepts() -> String {
        "integer, at most 1000000; zero or less: no queue".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        Self::in_range(number::<Self>(text)?)
    }
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        let n = integer(value).ok_or_else(|| wrong_type::<Self>(value))?;
        Self::in_range(n).map_err(as_written(value))
    }
    fn to_toml(&self) -> String {
        self.0.to_string()
    }
}

/// A number from zero to `MAX`; zero itself only where `ZERO` says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Real<const MAX: u32, const ZERO: bool>(pub(crate) f64);

impl<const MAX: u32, const ZERO: bool> Real<MAX, ZERO> {
    fn in_range(n: f64) -> Result<Self, Refusal> {
        let low_enough = n <= f64::from(MAX);
        if low_enough && (n > 0.0 || (ZERO && n == 0.0)) {
            return Ok(Self(n));
        }
        Err(Refusal::new(format!("is {n}"), expected::<Self>()))
    }
}

impl<const MAX: u32, const ZERO: bool> Value for Real<MAX, ZERO> {
    fn accepts() -> String {
        let above = if ZERO { "0" } else { "above 0," };
        format!("number, {above} to {MAX}")
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        let wrong = || Refusal::new(format!("is {text:?}"), expected::<Self>());
        Self::in_range(text.trim().parse().map_err(|_| wrong())?)
    }
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        let n = match value {
            DeValue::Float(n) => n.as_str().parse().ok(),
            DeValue::Integer(n) => n.as_str().parse().ok(),
            _ => None,
        };
        Self::in_range(n.ok_or_else(|| wrong_type::<Self>(value))?)
    }
    fn to_toml(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A time in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Millis(pub(crate) Duration);

/// A time in milliseconds that is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositiveMillis(pub(crate) Duration);

/// A time in milliseconds; below zero is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueMillis(pub(crate) Duration);

/// Splits `"10MiB"` into its number and its unit.
fn split_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// Reads `"3s"`. A bare number is milliseconds, where `bare` allows one.
///
/// # Errors
/// What is wrong with it, and what would be accepted.
pub(crate) fn duration(text: &str, bare: bool) -> Result<Duration, Refusal> {
    let accept = "expected milliseconds (3000) or text with a unit: ms, s, m, h or d (\"3s\")";
    let wrong = || Refusal::new(format!("is {text:?}"), accept);
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" if bare => 1,
        "" => {
            let help = format!("write {} or \"{text}ms\"", text.trim());
            return Err(Refusal::new(format!("is {text:?}, which has no unit"), help));
        }
        _ => return Err(wrong()),
    };
    let ms = number * f64::from(unit_ms);
    if ms.fract() != 0.0 {
        return Err(Refusal::new(format!("is {text:?}, not whole milliseconds"), accept));
    }
    // A float past the longest time saturates in the cast; the range check then refuses it.
    in_range(ms as i64)
}

fn in_range(ms: i64) -> Result<Duration, Refusal> {
    match u64::try_from(ms) {
        Ok(ms) if ms <= LONGEST_MS => Ok(Duration::from_millis(ms)),
        Ok(_) => Err(Refusal::new("is too long", "expected at most 365 days")),
        Err(_) => Err(Refusal::new(format!("is {ms}"), "expected a time that is not negative")),
    }
}

fn shown(time: Duration) -> String {
    time.as_millis().to_string()
}

impl Value for Millis {
    fn accepts() -> String {
        "milliseconds or \"3s\"".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        duration(text, true).map(Self)
    }
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        match value {
            DeValue::String(text) => duration(text, false).map(Self),
            _ => {
                let ms = integer(value).ok_or_else(|| wrong_type::<Self>(value))?;
                in_range(ms).map(Self).map_err(as_written(value))
            }
        }
    }
    fn to_toml(&self) -> String {
        shown(self.0)
    }
}

impl PositiveMillis {
    fn positive(time: Millis) -> Result<Self, Refusal> {
        if time.0.is_zero() {
            return Err(Refusal::new("is zero", "expected a time above zero"));
        }
        Ok(Self(time.0))
    }
}

impl Value for PositiveMillis {
    fn accepts() -> String {
        "milliseconds or \"3s\", above zero".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        Millis::from_text(text).and_then(Self::positive)
    }
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        Millis::from_toml(value).and_then(Self::positive)
    }
    fn to_toml(&self) -> String {
        shown(self.0)
    }
}

impl Value for QueueMillis {
    fn accepts() -> String {
        "milliseconds or \"3s\"; zero or less: no queue".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        match text.trim().strip_prefix('-') {
            Some(rest) => duration(rest, true).map(|_| Self(Duration::ZERO)),
            None => duration(text, true).map(Self),
        }
    }
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        match value {
            DeValue::String(text) if text.trim().starts_with('-') => Self::from_text(text),
            DeValue::String(text) => duration(text, false).map(Self),
            _ => {
                let ms = integer(value).ok_or_else(|| wrong_type::<Self>(value))?;
                in_range(ms.max(0)).map(Self)
            }
        }
    }
    fn to_toml(&self) -> String {
        shown(self.0)
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

const BINARY: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const DECIMAL: [(&str, u64); 4] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000)];

impl Value for Bytes {
    fn accepts() -> String {
        "bytes or \"16MiB\"".into()
    }
    fn from_text(text: &str) -> Result<Self, Refusal> {
        let accept = "expected bytes (1024) or text with a unit: B, KB, MB, GB (thousands), KiB, MiB, GiB (\"16MiB\")";
        let wrong = || Refusal::new(format!("is {text:?}"), accept);
        let (number, unit) = split_unit(text).ok_or_else(wrong)?;
        let size = match unit {
            "" => 1,
            _ => BINARY.iter().chain(&DECIMAL).find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
        };
        let bytes = number * size as f64;
        if bytes.fract() != 0.0 || bytes >= i64::MAX as f64 {
            return Err(wrong());
        }
        Ok(Self(bytes as u64))
    }
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Refusal> {
        if let DeValue::String(text) = value {
            return Self::from_text(text);
        }
        let n = integer(value).ok_or_else(|| wrong_type::<Self>(value))?;
        let accept = match n {
            ..0 => "expected a size that is not negative",
            i64::MAX => "expected a size below 8 EiB",
            _ => return Ok(Self(n.unsigned_abs())),
        };
        Err(as_written(value)(Refusal::new("", accept)))
    }
    fn to_toml(&self) -> String {
        let whole =
            BINARY[..4].iter().find(|(_, size)| self.0 >= *size && self.0.is_multiple_of(*size));
        whole.map_or(self.0.to_string(), |(unit, size)| quote(&format!("{}{unit}", self.0 / size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> Option<u128> {
        duration(text, true).ok().map(|time| time.as_millis())
    }

    #[test]
    fn times() {
        assert_eq!(ms("3s"), Some(3000));
        assert_eq!(ms("200ms"), Some(200));
        assert_eq!(ms("1m"), Some(60_000));
        assert_eq!(ms("1.5s"), Some(1500));
        assert_eq!(ms("3000"), Some(3000));
        assert!(duration("3000", false).is_err());
        for bad in ["", "s", "3 x", "0.1ms", "-3s", "1e3s", "999999999999d", "nan", ".s"] {
            assert_eq!(ms(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes() {
        let bytes = |text| Bytes::from_text(text).ok().map(|b| b.0);
        assert_eq!(bytes("16MiB"), Some(16 << 20));
        assert_eq!(bytes("10MB"), Some(10_000_000));
        assert_eq!(bytes("64KiB"), Some(65_536));
        assert_eq!(bytes("7"), Some(7));
        for bad in ["", "10M", "MiB", "0.3B", "99999999TiB", "-1"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
        assert_eq!(Bytes(16 << 20).to_toml(), "\"16MiB\"");
        assert_eq!(Bytes(10_000_000).to_toml(), "10000000");
        assert_eq!(Bytes(0).to_toml(), "0");
    }

    #[test]
    fn a_queue_below_zero_is_none() {
        assert_eq!(QueueLength::from_text("-1").map(|q| q.0).ok(), Some(0));
        assert_eq!(QueueMillis::from_text("-5").map(|q| q.0).ok(), Some(Duration::ZERO));
        assert_eq!(QueueMillis::from_text("-5ms").map(|q| q.0).ok(), Some(Duration::ZERO));
    }

    #[test]
    fn shares_exclude_what_is_no_number() {
        assert!(Real::<1, true>::from_text("nan").is_err());
        assert!(Real::<1, true>::from_text("0").is_ok());
        assert!(Real::<1, false>::from_text("0").is_err());
        assert!(Real::<1, true>::from_text("1.1").is_err());
    }
}
