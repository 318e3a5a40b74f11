//! Values of arguments that are no configuration keys.

use std::time::Duration;

use crate::config::duration as time_of;

/// Unit of bare numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    #[default]
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

impl Unit {
    /// A number in this unit. `None`: negative, not finite, or beyond any time.
    #[must_use]
    pub fn duration(self, number: f64) -> Option<Duration> {
        let seconds = match self {
            Self::Seconds => number,
            Self::Milliseconds => number / 1000.0,
        };
        Duration::try_from_secs_f64(seconds).ok()
    }
}

pub(super) fn unit(text: &str) -> Result<Unit, String> {
    match text {
        "s" => Ok(Unit::Seconds),
        "ms" => Ok(Unit::Milliseconds),
        _ => Err("expected s or ms".into()),
    }
}

/// A time with its unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    time_of(text, false)
        .map_err(|_| "expected a time with its unit, such as 500ms, 6s or 2m".into())
}

/// A time; a bare number waits for its unit.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    Time(Duration),
    Number(f64),
}

pub(super) fn at(text: &str) -> Result<At, String> {
    match text.parse::<f64>() {
        Ok(number) if Unit::Seconds.duration(number).is_some() => Ok(At::Number(number)),
        Ok(_) => Err("expected a time that is not negative".into()),
        Err(_) => duration(text).map(At::Time),
    }
}

/// `p99`, `p99.9` or `0.99`
pub(super) fn quantile(text: &str) -> Result<f64, String> {
    let value = match text.strip_prefix('p') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match value {
        Ok(value) if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err("expected a quantile such as p99, p99.9 or 0.99".into()),
    }
}

/// `5%` or `0.05`
pub(super) fn share(text: &str) -> Result<f64, String> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match value {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("expected a share such as 5% or 0.05".into()),
    }
}

/// A number above zero.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a number above 0".into()),
    }
}

/// A number that is not negative.
pub(super) fn cost(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a number, 0 or above".into()),
    }
}
