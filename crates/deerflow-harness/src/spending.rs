//! What a run used of which model, and what that costs.

use crate::middleware::ANSWERED_BY;
use crate::models::ModelCatalogue;
use deerflow_core::{Message, Usage};
use deerflow_models::Cost;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// What a run used of one model. As JSON: `{model, usage, cost, currency}`, the last two where the configuration has prices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spending {
    /// Its configured name.
    pub model: String,
    /// Tokens.
    pub usage: Usage,
    /// Their price, if the configuration has one.
    #[serde(flatten, serialize_with = "write_cost")]
    pub cost: Option<Cost>,
}

fn write_cost<S: Serializer>(cost: &Option<Cost>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Priced<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        currency: Option<&'a str>,
    }
    let (amount, currency) = (cost.as_ref().map(Cost::amount), cost.as_ref().map(Cost::currency));
    Priced { cost: amount, currency }.serialize(serializer)
}

/// Collects, while a run goes on, what other models than its own answered.
#[derive(Debug, Clone, Default)]
pub struct Tally(BTreeMap<String, (String, Usage)>);

impl Tally {
    /// Takes a message of the run; one that comes again counts as it came last.
    pub fn note(&mut self, message: &Message) {
        let Some(model) = message.response_metadata.get(ANSWERED_BY).and_then(|name| name.as_str()) else { return };
        if let Some(usage) = message.as_ai().and_then(|part| part.usage_metadata.clone()) {
            self.0.insert(message.id().to_owned(), (model.to_owned(), usage));
        }
    }

    /// What was used of which model, of `total` in all: the run's `own` model first. Calls beside the conversation count
    /// for that one.
    #[must_use]
    pub fn spending(&self, own: &str, total: &Usage, models: &ModelCatalogue) -> Vec<Spending> {
        let mut others: BTreeMap<&str, Usage> = BTreeMap::new();
        for (model, usage) in self.0.values() {
            others.entry(model).or_default().add(usage);
        }
        let rest = others.values().fold(total.clone(), |rest, used| rest.without(used));
        let own = (!rest.is_zero() || others.is_empty()).then_some((own, rest));
        let all = own.into_iter().chain(others);
        all.map(|(model, usage)| {
            let cost = models.pricing(model).map(|pricing| deerflow_models::cost(&usage, pricing));
            Spending { model: model.to_owned(), usage, cost }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;
    use std::sync::Arc;

    fn reply(id: &str, by: Option<&str>, input: u64) -> Message {
        let mut message = Message::ai("x").with_id(id);
        message.as_ai_mut().unwrap().usage_metadata = Some(Usage::new(input, 10));
        if let Some(by) = by {
            message.response_metadata.insert(ANSWERED_BY.into(), json!(by));
        }
        message
    }

    #[test]
    fn tokens_and_prices_are_those_of_the_model_that_answered() {
        let models = json!([
            {"name": "a", "use": "openai", "model": "x", "pricing": {"input_per_million": 1, "output_per_million": 1}},
            {"name": "b", "use": "openai", "model": "y", "pricing": {"currency": "CNY", "input_per_million": 10}}
        ]);
        let models = ModelCatalogue::new(&serde_json::from_value(models).unwrap(), Arc::new(|_| None));
        let mut tally = Tally::default();
        // The same message again, with what was added to it since.
        for message in
            [reply("1", None, 100), reply("2", Some("b"), 50), reply("2", Some("b"), 200), reply("3", Some("c"), 7)]
        {
            tally.note(&message);
        }
        let total = Usage::new(1_000, 100);
        assert_eq!(
            serde_json::to_value(tally.spending("a", &total, &models)).unwrap(),
            json!([
                {"model": "a", "usage": {"input_tokens": 793, "output_tokens": 80, "total_tokens": 873}, "cost": 0.000_873, "currency": "USD"},
                {"model": "b", "usage": {"input_tokens": 200, "output_tokens": 10, "total_tokens": 210}, "cost": 0.002, "currency": "CNY"},
                {"model": "c", "usage": {"input_tokens": 7, "output_tokens": 10, "total_tokens": 17}}
            ])
        );
        let whole = Tally::default().spending("c", &total, &models);
        assert_eq!((whole.len(), whole[0].model.as_str(), &whole[0].usage), (1, "c", &total));
    }
}
