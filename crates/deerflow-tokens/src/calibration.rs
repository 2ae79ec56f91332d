//! Correcting estimates by what the provider reports.

/// The ratio between reported and estimated tokens, learnt call by call.
///
/// It moves slowly and stays between a half and three, so that one odd report (a provider that counts a cached prompt as
/// zero, say) cannot throw off the next decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    ratio: f64,
}

const LOWEST: f64 = 0.5;
const HIGHEST: f64 = 3.0;
/// Weight of one report.
const STEP: f64 = 0.3;
/// Reports about less are mostly overhead and say little.
const SMALLEST: u64 = 200;

impl Default for Calibration {
    fn default() -> Self {
        Self { ratio: 1.0 }
    }
}

impl Calibration {
    /// Learns from one call: what was estimated (uncorrected) and what the provider reported, in input tokens.
    pub fn observe(&mut self, estimated: u64, reported: u64) {
        if estimated < SMALLEST || reported == 0 {
            return;
        }
        let seen = (reported as f64 / estimated as f64).clamp(LOWEST, HIGHEST);
        self.ratio = (self.ratio + STEP * (seen - self.ratio)).clamp(LOWEST, HIGHEST);
    }
    /// The corrected estimate, in tokens.
    #[must_use]
    pub fn apply(&self, estimated: u64) -> u64 {
        (estimated as f64 * self.ratio).ceil() as u64
    }
    /// Reported tokens per estimated token.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn approaches_what_the_provider_says() {
        let mut calibration = Calibration::default();
        assert_eq!(calibration.apply(1000), 1000);
        for _ in 0..20 {
            calibration.observe(1000, 1500);
        }
        assert!((1490..=1500).contains(&calibration.apply(1000)), "{}", calibration.apply(1000));
    }

    #[test]
    fn tiny_and_empty_reports_teach_nothing() {
        let mut calibration = Calibration::default();
        calibration.observe(10, 1000);
        calibration.observe(10_000, 0);
        assert_eq!(calibration, Calibration::default());
    }

    proptest! {
        #[test]
        fn stays_in_bounds(reports in proptest::collection::vec(any::<(u64, u64)>(), 0..30)) {
            let mut calibration = Calibration::default();
            for (estimated, reported) in reports {
                calibration.observe(estimated, reported);
                prop_assert!((LOWEST..=HIGHEST).contains(&calibration.ratio()));
            }
        }
    }
}
