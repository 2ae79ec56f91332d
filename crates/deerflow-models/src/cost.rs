//! What a model call costs.

use deerflow_config::Pricing;
use deerflow_core::Usage;
use std::fmt;

/// An exact amount of money: sums of many small calls do not drift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    currency: String,
    /// In units of 10⁻¹⁵ of the currency.
    femto: u128,
}

/// Steps of a price: a price per million tokens counts in 10⁻⁹ of the currency.
const NANO: f64 = 1e9;
const FEMTO: u128 = 1_000_000_000_000_000;

impl Cost {
    /// Nothing, in this currency.
    #[must_use]
    pub fn zero(currency: impl Into<String>) -> Self {
        Self { currency: currency.into(), femto: 0 }
    }

    /// The currency, as the configuration names it.
    #[must_use]
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// The amount, in units of the currency, as near as a floating-point number comes. For JSON.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an amount to show")]
    pub fn amount(&self) -> f64 {
        let whole = (self.femto / FEMTO) as f64;
        whole + (self.femto % FEMTO) as f64 / FEMTO as f64
    }

    /// Adds `other`. Returns false and adds nothing when it is in another currency, which nobody here can convert.
    #[must_use]
    pub fn add(&mut self, other: &Self) -> bool {
        if self.currency != other.currency {
            return false;
        }
        self.femto = self.femto.saturating_add(other.femto);
        true
    }
}

/// The exact amount and the currency: `0.0043125 USD`.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:015}", self.femto % FEMTO);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        write!(f, "{}{point}{fraction} {}", self.femto / FEMTO, self.currency)
    }
}

/// What `usage` costs at `pricing`.
///
/// Tokens that were read from a cache, written to one, or spent on reasoning have their own rate where the pricing gives
/// one, else that of their side. Counts of parts beyond the whole are cut to it: some servers count cached tokens apart.
#[must_use]
pub fn cost(usage: &Usage, pricing: &Pricing) -> Cost {
    let detail = |key: &str| usage.input_token_details.get(key).copied().unwrap_or(0);
    let cached = detail("cache_read").min(usage.input_tokens);
    let written = detail("cache_creation").min(usage.input_tokens - cached);
    let reasoning = usage.reasoning().min(usage.output_tokens);
    let (input, output) = (pricing.input_per_million, pricing.output_per_million);
    let parts = [
        (usage.input_tokens - cached - written, input),
        (cached, pricing.input_cache_hit_per_million.unwrap_or(input)),
        (written, pricing.input_cache_write_per_million.unwrap_or(input)),
        (usage.output_tokens - reasoning, output),
        (reasoning, pricing.output_reasoning_per_million.unwrap_or(output)),
    ];
    let femto = parts.iter().map(|(tokens, price)| u128::from(*tokens).saturating_mul(nano(*price)));
    Cost { currency: pricing.currency.clone(), femto: femto.fold(0, u128::saturating_add) }
}

/// A price per million tokens in 10⁻⁹ of the currency, which is the price of one token in 10⁻¹⁵.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and not negative")]
fn nano(price: f64) -> u128 {
    if price.is_finite() && price > 0.0 { (price * NANO).round() as u128 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    fn pricing(extra: serde_json::Value) -> Pricing {
        let mut all = json!({"currency": "USD", "input_per_million": 1.25, "output_per_million": 10});
        for (key, value) in extra.as_object().unwrap() {
            all[key] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }
    fn usage(input: u64, output: u64, cached: u64, written: u64, reasoning: u64) -> Usage {
        let mut usage = Usage::new(input, output);
        usage.input_token_details = [("cache_read".into(), cached), ("cache_creation".into(), written)].into();
        usage.output_token_details = [("reasoning".into(), reasoning)].into();
        usage
    }

    #[test]
    fn each_kind_of_token_has_its_own_rate_where_one_is_given() {
        let all = usage(1_000_000, 200_000, 400_000, 100_000, 50_000);
        assert_eq!(cost(&all, &pricing(json!({}))).to_string(), "3.25 USD");
        let own = pricing(json!({
            "input_cache_hit_per_million": 0.125, "input_cache_write_per_million": 1.5625, "output_reasoning_per_million": 20
        }));
        // 500 000 × 1.25 + 400 000 × 0.125 + 100 000 × 1.5625 + 150 000 × 10 + 50 000 × 20, in millionths
        assert_eq!(cost(&all, &own).to_string(), "3.33125 USD");
        assert_eq!(cost(&Usage::default(), &own), Cost::zero("USD"));
    }

    #[test]
    fn small_amounts_are_exact_and_sums_do_not_drift() {
        let cheap = pricing(json!({"currency": "CNY", "input_per_million": 0.1, "output_per_million": 0.2}));
        let one = cost(&usage(1, 1, 0, 0, 0), &cheap);
        assert_eq!(one.to_string(), "0.0000003 CNY");
        let mut sum = Cost::zero("CNY");
        for _ in 0..1_000 {
            assert!(sum.add(&one));
        }
        assert_eq!((sum.to_string(), sum.amount()), ("0.0003 CNY".into(), 0.0003));
        assert!(!sum.add(&Cost::zero("USD")));
        assert_eq!(cost(&usage(3_000_000, 0, 0, 0, 0), &pricing(json!({"input_per_million": 2}))).to_string(), "6 USD");
    }

    #[test]
    fn counts_that_contradict_each_other_never_cost_more_than_the_whole() {
        let cheap = pricing(json!({"input_cache_hit_per_million": 0.125}));
        assert_eq!(cost(&usage(10, 0, 50, 0, 0), &cheap), cost(&usage(10, 0, 10, 0, 0), &cheap));
        assert_eq!(
            cost(&usage(10, 5, 0, 90, 90), &pricing(json!({}))),
            cost(&usage(10, 5, 0, 0, 0), &pricing(json!({})))
        );
        assert_eq!(
            cost(&usage(1, 1, 0, 0, 0), &pricing(json!({"input_per_million": -1, "output_per_million": 0}))).femto,
            0
        );
    }

    proptest! {
        #[test]
        fn any_counts_and_prices_are_survived(
            input: u64, output: u64, cached: u64, written: u64, reasoning: u64, price in any::<f64>(), other in 0.0..1e6_f64
        ) {
            let mut pricing = pricing(json!({}));
            pricing.input_per_million = price;
            pricing.output_per_million = other;
            let found = cost(&usage(input, output, cached, written, reasoning), &pricing);
            prop_assert!(found.amount() >= 0.0);
        }
    }
}
