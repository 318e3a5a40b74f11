//! The name that was probably meant.
//!
//! Invariant: guessing is for people, who read a hundred lines at most; so it costs no more for a file
//! of megabytes than for one that a person wrote.

use std::cell::Cell;

/// Comparisons of one reading: those of some hundred unknown names.
const MOST: usize = 100_000;
/// A name that is longer was not mistyped: the longest there is has half as many.
const LONGEST: usize = 100;

/// The guesses of one reading of a configuration.
#[derive(Debug)]
pub(crate) struct Guesses {
    left: Cell<usize>,
}

impl Default for Guesses {
    fn default() -> Guesses {
        Guesses { left: Cell::new(MOST) }
    }
}

impl Guesses {
    /// Whether anything may still be compared with so many names; then that is counted.
    pub(crate) fn may_compare(&self, names: usize) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(names));
        left > 0
    }

    /// The name that was probably meant, if one is close enough to be worth saying.
    pub(crate) fn closest<'a>(
        &self,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Option<&'a str> {
        self.best(name, known, |known| {
            let near = strsim::jaro_winkler(name, known);
            (near > 0.8).then_some(near)
        })
    }

    /// The name that two wrong letters, at most, make of this one.
    pub(crate) fn slip_of<'a>(
        &self,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Option<&'a str> {
        self.best(name, known, |known| {
            let wrong = strsim::levenshtein(name, known);
            (wrong <= 2).then(|| -(wrong as f64))
        })
    }

    fn best<'a>(
        &self,
        name: &str,
        known: impl Iterator<Item = &'a str>,
        near: impl Fn(&str) -> Option<f64>,
    ) -> Option<&'a str> {
        if name.len() > LONGEST {
            return None;
        }
        let known = known.filter(|known| known.len() <= LONGEST);
        let compared = known.take_while(|_| self.may_compare(1));
        let near = compared.filter_map(|known| Some((near(known)?, known)));
        near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|best| best.1)
    }

    /// How much was compared.
    #[cfg(test)]
    pub(crate) fn compared(&self) -> usize {
        MOST - self.left.get()
    }
}

/// The name that was probably meant, for a single one.
pub(crate) fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    Guesses::default().closest(name, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_probably_meant_is_found() {
        let known = || ["read_timeout_ms", "pool_size", "pool_seize"].into_iter();
        assert_eq!(closest("read_timeout", known()), Some("read_timeout_ms"));
        assert_eq!(closest("pool_siz", known()), Some("pool_size"));
        assert_eq!(closest("something", known()), None);
        let guesses = Guesses::default();
        assert_eq!(guesses.slip_of("pool_sise", known()), Some("pool_size"));
        assert_eq!(guesses.slip_of("pol_sise_", known()), None);
        assert_eq!(guesses.compared(), 6);
    }

    #[test]
    fn of_very_many_names_only_the_first_are_compared() {
        let (guesses, known) = (Guesses::default(), ["alpha", "beta", "gamma"]);
        let found =
            (0..1_000_000).filter(|_| guesses.closest("alphq", known.into_iter()).is_some());
        assert_eq!(found.count(), MOST.div_ceil(3));
        assert_eq!(guesses.compared(), MOST);
        assert_eq!(guesses.closest("alpha", known.into_iter()), None);
        assert!(!guesses.may_compare(1));
    }

    #[test]
    fn names_that_nobody_types_are_not_compared() {
        let (guesses, long) = (Guesses::default(), "x".repeat(1 << 20));
        assert_eq!(guesses.closest(&long, ["x"].into_iter()), None);
        assert_eq!(guesses.closest("x", [&*long].into_iter()), None);
        assert_eq!(guesses.compared(), 0);
    }

    #[test]
    fn every_known_key_may_be_guessed() {
        for (path, ..) in crate::config::keys::settable() {
            assert!(path.len() <= LONGEST / 2, "{path}");
        }
    }
}
