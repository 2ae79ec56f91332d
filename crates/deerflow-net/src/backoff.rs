//! How long to wait between attempts when the provider does not say.

use std::time::Duration;

/// Decorrelated jitter: each delay is drawn from `[base, min(cap, max(base, 3 × previous))]`.
///
/// Clients that failed together do not come back together, and the delay grows with the number of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Shortest delay.
    pub base: Duration,
    /// Longest delay; wins over a larger `base`.
    pub cap: Duration,
}

impl Backoff {
    /// The next delay after `previous` (`None` before the first retry).
    #[must_use]
    pub fn delay(&self, previous: Option<Duration>) -> Duration {
        self.delay_at(previous, rand::random::<f64>())
    }

    /// The same with the random number, in `[0, 1)`, given.
    #[must_use]
    pub fn delay_at(&self, previous: Option<Duration>, random: f64) -> Duration {
        if self.base >= self.cap {
            return self.cap;
        }
        let upper = previous.unwrap_or(self.base).saturating_mul(3).max(self.base).min(self.cap);
        let share = if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.0 };
        (self.base + (upper - self.base).mul_f64(share)).min(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_bounds_are_those_of_the_formula() {
        let backoff = Backoff { base: SECOND, cap: 8 * SECOND };
        assert_eq!(backoff.delay_at(None, 0.0), SECOND);
        assert_eq!(backoff.delay_at(None, 1.0), 3 * SECOND);
        assert_eq!(backoff.delay_at(Some(2 * SECOND), 0.5), Duration::from_millis(3500));
        assert_eq!(backoff.delay_at(Some(5 * SECOND), 1.0), 8 * SECOND);
        assert_eq!(Backoff { base: 9 * SECOND, cap: SECOND }.delay_at(None, 0.7), SECOND);
    }

    proptest! {
        #[test]
        fn never_outside_base_and_cap(base in 0u64..100_000, cap in 0u64..100_000, previous in proptest::option::of(0..u64::MAX), random in any::<f64>()) {
            let backoff = Backoff { base: Duration::from_millis(base), cap: Duration::from_millis(cap) };
            let delay = backoff.delay_at(previous.map(Duration::from_millis), random);
            prop_assert!(delay <= backoff.cap);
            prop_assert!(delay >= backoff.base.min(backoff.cap));
        }
    }
}
