//! The digest against plain lists, and its own promises.

use super::*;
use proptest::prelude::*;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn fed(took: &[(u64, u64)], censored: &[(u64, u64)]) -> Digest {
    let mut digest = Digest::new();
    for &(count, seconds) in took {
        (0..count).for_each(|_| digest.on_sample(Moment::START, Sample::Took(s(seconds))));
    }
    for &(count, seconds) in censored {
        (0..count).for_each(|_| digest.on_sample(Moment::START, Sample::Censored(s(seconds))));
    }
    digest
}

#[test]
fn case_27_stalls_that_lost_do_not_pull_quantiles_down() {
    let digest = fed(&[(95, 60)], &[(5, 160)]);
    assert_eq!(digest.quantile(0.95), Some(Quantile::Is(s(60))));
    assert_eq!(digest.quantile(0.99), Some(Quantile::AtLeast(s(160))));
    assert_eq!(digest.quantile(0.99).unwrap().to_string(), ">=160");
    assert_eq!(digest.quantile(0.5).unwrap().to_string(), "60");
}

#[test]
fn one_cut_off_early_says_nothing_of_the_rest() {
    // Twins that lost after a second must not make a call of a second look usual.
    let with = fed(&[(50, 10), (50, 60)], &[(500, 1)]);
    let without = fed(&[(50, 10), (50, 60)], &[]);
    for q in [0.3, 0.5, 0.51, 0.9, 0.99] {
        assert_eq!(with.quantile(q), without.quantile(q), "{q}");
    }
}

#[test]
fn nothing_measured_and_nothing_but_stalls() {
    assert_eq!(Digest::new().quantile(0.5), None);
    let stalls = fed(&[], &[(3, 7)]);
    assert_eq!(stalls.quantile(0.01), Some(Quantile::AtLeast(s(7))));
    assert_eq!((stalls.taken(), stalls.censored(), stalls.longest()), (0, 3, None));
}

#[test]
fn what_was_saved_is_what_is_known_of_longer_calls() {
    let digest = fed(&[(95, 60), (5, 330)], &[]);
    let rest = digest.mean_residual(s(160)).as_secs();
    assert!((165..=170).contains(&rest), "{rest}");
    assert_eq!(digest.mean_residual(s(400)), Duration::ZERO);
    let unknown = fed(&[(95, 60)], &[(5, 160)]);
    assert_eq!(unknown.mean_residual(s(100)), Duration::ZERO, "nothing is known beyond");
}

#[test]
fn buckets_are_contiguous_and_narrow() {
    for b in 0..BUCKETS {
        assert_eq!(bucket(floor(b)), b);
        let next = if b + 1 < BUCKETS { floor(b + 1) } else { LONGEST + 1 };
        assert_eq!(bucket(next - 1), b);
        assert!(b < 64 || (next - floor(b)) * 32 <= floor(b), "bucket {b}");
    }
}

#[test]
fn old_slices_leave_and_the_sums_follow() {
    let mut digest = Digest::new();
    for minute in 0..20u64 {
        for _ in 0..SLICE_SAMPLES {
            let now = Moment::START + s(60 * minute);
            digest.on_sample(now, Sample::Took(s(if minute < 10 { 100 } else { 1 })));
            digest.on_sample(now, Sample::Censored(s(0)));
        }
    }
    assert_eq!(digest.quantile(0.999), Some(Quantile::Is(s(1))));
    assert_eq!(digest.taken(), SLICE_SAMPLES * SLICES as u64);
    assert_eq!(digest.longest(), Some(s(1)));
}

#[test]
fn a_slow_trickle_is_not_forgotten() {
    let mut digest = Digest::new();
    for hour in 0..30 {
        digest.on_sample(Moment::START + s(3_600 * hour), Sample::Took(s(60)));
    }
    assert_eq!(digest.taken(), 30);
}

proptest! {
    #[test]
    fn within_a_bucket_of_the_exact_quantile(
        values in proptest::collection::vec(0u64..2_000_000_000, 1..300), q in 0.0f64..0.9999
    ) {
        let mut digest = Digest::new();
        for &micros in &values {
            digest.on_sample(Moment::START, Sample::Took(Duration::from_micros(micros)));
        }
        let mut sorted = values;
        sorted.sort_unstable();
        let rank = ((q * sorted.len() as f64 - 1e-6).ceil() as usize).clamp(1, sorted.len());
        let exact = sorted[rank - 1];
        let Some(Quantile::Is(got)) = digest.quantile(q) else { panic!("all are known") };
        let got = got.as_micros() as u64;
        prop_assert!(got >= exact && got - exact <= exact / 32 + 1, "{got} for {exact}");
        prop_assert!(sorted.contains(&got), "what is reported really occurred");
    }

    /// Cutting calls off can only raise what is reported, compared to taking the cut for the end.
    #[test]
    fn censoring_never_lowers_a_quantile(
        took in proptest::collection::vec(1u64..100_000, 1..100),
        cut in proptest::collection::vec(1u64..100_000, 0..100), q in 0.0f64..0.999
    ) {
        let (mut honest, mut naive) = (Digest::new(), Digest::new());
        for &micros in &took {
            let sample = Sample::Took(Duration::from_micros(micros));
            honest.on_sample(Moment::START, sample);
            naive.on_sample(Moment::START, sample);
        }
        for &micros in &cut {
            let duration = Duration::from_micros(micros);
            honest.on_sample(Moment::START, Sample::Censored(duration));
            naive.on_sample(Moment::START, Sample::Took(duration));
        }
        let (honest, naive) = (honest.quantile(q).unwrap(), naive.quantile(q).unwrap());
        // Both report the longest of a bucket; only the naive one has the cut ones in it.
        let slack = naive.at_least() / 32 + Duration::from_micros(1);
        prop_assert!(honest.at_least() + slack >= naive.at_least());
    }
}
