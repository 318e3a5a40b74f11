//! Randomness as an argument: a seed in, the same numbers out.
//!
//! Invariant: equal seeds give equal sequences. Not for secrets. (`SplitMix64`: Steele, Lea and
//! Flood, "Fast splittable pseudorandom number generators", 2014.)

/// A sequence of numbers in 0–1 that follows from its seed.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Jitter {
        Jitter(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number in 0–1 (1 excluded).
    pub fn ratio(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_in_range() {
        let (mut a, mut b) = (Jitter::new(7), Jitter::new(7));
        for _ in 0..1_000 {
            let r = a.ratio();
            assert!((0.0..1.0).contains(&r));
            assert_eq!(r.to_bits(), b.ratio().to_bits());
        }
    }
}
