//! Samples and what is said about them.

use serde_json::{Value, json};
use std::time::Duration;

/// Measured values of one quantity, in one unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    unit: &'static str,
    /// In ascending order, never empty.
    values: Vec<f64>,
}

impl Sample {
    /// Times in milliseconds.
    pub(crate) fn of(times: impl IntoIterator<Item = Duration>) -> anyhow::Result<Self> {
        Self::in_unit("ms", times.into_iter().map(|time| time.as_secs_f64() * 1e3))
    }

    /// Values in a unit; none at all is an error.
    pub(crate) fn in_unit(unit: &'static str, values: impl IntoIterator<Item = f64>) -> anyhow::Result<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        anyhow::ensure!(!values.is_empty(), "nothing was measured");
        values.sort_by(f64::total_cmp);
        Ok(Self { unit, values })
    }

    /// One value.
    pub(crate) fn one(unit: &'static str, value: f64) -> Self {
        Self { unit, values: vec![value] }
    }

    /// The value that this share of the sample does not exceed (nearest rank).
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let count = self.values.len();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "small counts"
        )]
        let rank = (share * count as f64).ceil() as usize;
        self.values[rank.clamp(1, count) - 1]
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn p95(&self) -> f64 {
        self.quantile(0.95)
    }

    pub(crate) fn unit(&self) -> &'static str {
        self.unit
    }

    /// For the table.
    pub(crate) fn text(&self) -> String {
        match self.values.len() {
            1 => with_unit(self.values[0], self.unit),
            count => {
                format!("p50 {}, p95 {} (n={count})", number(self.median()), with_unit(self.p95(), self.unit))
            }
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({"unit": self.unit, "n": self.values.len(), "p50": self.median(), "p95": self.p95(),
               "min": self.quantile(0.0), "max": self.quantile(1.0)})
    }
}

/// A number with about three digits that matter.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The number and its unit; a ratio's sits close.
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "×" => format!("{}×", number(value)),
        unit => format!("{} {unit}", number(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_sample() {
        let sample = Sample::in_unit("ms", (1..=20).rev().map(f64::from)).unwrap();
        assert_eq!(
            (sample.quantile(0.0), sample.median(), sample.p95(), sample.quantile(1.0)),
            (1.0, 10.0, 19.0, 20.0)
        );
        assert_eq!(Sample::one("ms", 3.0).p95(), 3.0);
    }

    #[test]
    fn an_empty_sample_is_an_error() {
        assert!(Sample::of([]).is_err());
    }

    #[test]
    fn text_says_how_many() {
        let sample = Sample::in_unit("ms", [0.5, 12.25, 1234.0]).unwrap();
        assert_eq!(sample.text(), "p50 12.2, p95 1234 ms (n=3)");
        assert_eq!(Sample::one("MiB", 5.5).text(), "5.50 MiB");
    }
}
