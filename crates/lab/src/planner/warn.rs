//! What to know before believing the figures.

use super::choose::{Chosen, earliest, quantile_name};
use super::read::Input;
use super::trace::{Trace, seconds};
use super::{Question, Target};
use crate::text::{percent, seconds as time};

/// Confidence of the target's range.
const CONFIDENCE: f64 = 0.95;

/// From so many expected exceedances on, the binomial is close enough to the normal.
const NORMAL: f64 = 200.0;

pub(super) fn target(trace: &Trace, quantile: f64) -> Target {
    let n = trace.samples();
    let (low, high) = ranks(n, quantile);
    Target {
        quantile,
        now: seconds(trace.quantile(quantile)),
        low: low.map_or(0.0, |low| seconds(trace.sorted()[low])),
        high: trace.sorted().get(high).copied().map(seconds),
    }
}

/// Order statistics (from 0) around the quantile: the number of samples beyond it is binomial.
/// There may be none below; the upper one may be `n`, which is none either.
fn ranks(n: usize, quantile: f64) -> (Option<usize>, usize) {
    let share = 1.0 - quantile;
    let expected = n as f64 * share;
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let (few, many) = if expected > NORMAL {
        let width = 1.96 * (expected * quantile).sqrt();
        ((expected - width).floor() as usize, (expected + width).ceil() as usize)
    } else {
        // P(B = 0), P(B = 1), …
        let mut chance = quantile.powf(n as f64);
        let (mut sum, mut beyond) = (0.0, 0usize);
        let mut few = None;
        loop {
            sum += chance;
            if few.is_none() && sum > tail {
                few = Some(beyond);
            }
            if sum >= 1.0 - tail || beyond >= n {
                break (few.unwrap_or(0), beyond);
            }
            chance *= (n - beyond) as f64 / (beyond + 1) as f64 * share / quantile;
            beyond += 1;
        }
    };
    (n.checked_sub(many + 1), n.saturating_sub(few))
}

pub(super) fn warnings(
    trace: &Trace,
    input: &Input,
    question: &Question,
    chosen: &Chosen,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let target = quantile_name(question.target);
    let needed = (1.0 / (1.0 - question.target) - 1e-9).ceil();
    if (trace.samples() as f64) < needed {
        warnings.push(format!(
            "{} samples cannot show {target}: it takes at least {needed}, and ten times as many \
             for a figure to rely on",
            trace.samples()
        ));
    }
    budget(trace, question, &target, &mut warnings);
    censored(trace, &mut warnings);
    edge(trace, question, chosen, &mut warnings);
    runs(trace, input, &mut warnings);
    if input.failed > 0 {
        warnings.push(format!(
            "{} failed calls were left out: their durations say nothing about how long an answer \
             takes",
            input.failed
        ));
    }
    warnings
}

/// A fixed threshold beyond the target's quantile cannot move it.
fn budget(trace: &Trace, question: &Question, target: &str, warnings: &mut Vec<String>) {
    let allowed = 1.0 - question.budget;
    if question.budget <= 0.0 {
        warnings.push("a budget of 0 % allows no hedge at all".to_owned());
    } else if question.target < allowed - 1e-9 {
        warnings.push(format!(
            "a budget of {} cannot help a fixed threshold: it has to wait until {} ({}), and \
             {target} < {}; only a hedge with a probability below 1 can fire before {target}",
            percent(question.budget),
            quantile_name(allowed),
            time(earliest(trace, question.budget)),
            quantile_name(allowed),
        ));
    }
}

fn censored(trace: &Trace, warnings: &mut Vec<String>) {
    let Some(&first) = trace.censored().first() else { return };
    warnings.push(format!(
        "{} of {} durations were cut off (the first at {}) and count as if they had ended there: \
         quantiles and means beyond it are lower bounds, with a hedge and without",
        trace.censored().len(),
        trace.samples(),
        time(seconds(first)),
    ));
}

/// A threshold right behind a crowd: a little less, or a slightly slower day, and the crowd fires.
fn edge(trace: &Trace, question: &Question, chosen: &Chosen, warnings: &mut Vec<String>) {
    const MARGIN: f64 = 0.05;
    let Some(hedge) = chosen.fixed.or(chosen.randomised) else { return };
    let earlier = hedge.after - (hedge.after as f64 * MARGIN) as u64;
    let extra = hedge.probability * trace.beyond(earlier);
    if hedge.after > 0 && extra > 2.0 * question.budget {
        warnings.push(format!(
            "a threshold of {} lies right behind many calls: {} earlier it would start {} extra \
             calls; give it a margin and look at it with --at",
            time(seconds(hedge.after)),
            percent(MARGIN),
            percent(extra),
        ));
    }
}

/// Slow calls that follow slow calls: a twin would have met the same trouble.
fn runs(trace: &Trace, input: &Input, warnings: &mut Vec<String>) {
    let samples = &input.samples;
    // A sorted file has lost the order in which the calls were made.
    if samples.is_sorted_by_key(|sample| sample.nanos)
        || samples.is_sorted_by_key(|sample| u64::MAX - sample.nanos)
    {
        return;
    }
    let limit = trace.quantile(0.95);
    let slow = |at: usize| samples[at].nanos > limit;
    let count = (0..samples.len()).filter(|&at| slow(at)).count();
    let before = (0..samples.len() - 1).filter(|&at| slow(at)).count() as f64;
    let pairs = (0..samples.len() - 1).filter(|&at| slow(at) && slow(at + 1)).count() as f64;
    let share = count as f64 / samples.len() as f64;
    let expected = before * share;
    // Three times what chance gives, and beyond three standard deviations of it.
    if count >= 5 && pairs > 3.0 * expected && pairs > expected + 3.0 * expected.sqrt() {
        warnings.push(format!(
            "slow calls come in runs: {} of the calls after a slow one are slow too, and {} of \
             all; a twin would often meet the same trouble, so expect less than the table says",
            percent(pairs / before),
            percent(share),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::ranks;

    #[test]
    fn the_range_covers_what_it_says() {
        // Exact coverage of [x(low), x(high)]: low ≤ #below the quantile < high, in 0-based ranks.
        for (n, quantile) in [(100usize, 0.99f64), (50, 0.5), (1_000, 0.99), (299, 0.9)] {
            let (Some(low), high) = ranks(n, quantile) else { panic!("{n} {quantile}") };
            let mut chance = (1.0 - quantile).powf(n as f64);
            let mut covered = 0.0;
            for below in 0..=n {
                if below > low && below <= high {
                    covered += chance;
                }
                chance *= (n - below) as f64 / (below + 1) as f64 * quantile / (1.0 - quantile);
            }
            // 0.01^1000 is no f64: the sum starts at nothing there.
            assert!(covered == 0.0 || covered >= 0.95, "{n} {quantile}: {covered}");
            assert!(low < high);
        }
    }

    #[test]
    fn every_length_has_a_range() {
        for n in 1..300 {
            for quantile in [0.001, 0.5, 0.9, 0.99, 0.999, 0.99999] {
                let (low, high) = ranks(n, quantile);
                assert!(low.is_none_or(|low| low < high) && high <= n, "{n} {quantile}");
            }
        }
    }
}
