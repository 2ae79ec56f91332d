//! What runs cost, where the configuration has prices. Without a price or a token count there is no cost: 0 would be one.

use deerflow_core::Usage;
use deerflow_core::ports::RunRow;
use deerflow_harness::{ModelCatalogue, Spending};
use deerflow_models::{Cost, cost};
use deerflow_runtime::answering_model;
use serde_json::{Value, json};

/// The cost of a run's tokens at the price of the model that answers it.
pub(crate) fn of_run(models: &ModelCatalogue, model: &str, usage: &Usage) -> Option<Cost> {
    let pricing = models.pricing(model).filter(|_| !usage.is_zero())?;
    Some(cost(usage, pricing))
}

/// The sum of what several models cost; `None` when one of them has no price, or when they are in several currencies.
pub(crate) fn total(spent: &[Spending]) -> Option<Cost> {
    let mut total: Option<Cost> = None;
    for cost in spent.iter().filter(|spent| !spent.usage.is_zero()).map(|spent| spent.cost.as_ref()) {
        match &mut total {
            None => total = Some(cost?.clone()),
            Some(sum) => {
                if !sum.add(cost?) {
                    return None;
                }
            }
        }
    }
    total
}

/// An amount for programs.
pub(crate) fn as_json(cost: &Cost) -> Value {
    json!({"amount": cost.amount(), "currency": cost.currency()})
}

/// What the runs of a thread used.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    pub(crate) usage: Usage,
    /// One for each currency.
    pub(crate) costs: Vec<Cost>,
    /// Runs that used tokens and have no price.
    pub(crate) unpriced: usize,
}

impl Spent {
    /// Adds up runs.
    pub(crate) fn of(models: &ModelCatalogue, runs: &[RunRow]) -> Self {
        let mut spent = Self::default();
        for run in runs.iter().filter(|run| !run.usage.is_zero()) {
            spent.usage.add(&run.usage);
            match answering_model(&run.options).and_then(|model| of_run(models, &model, &run.usage)) {
                Some(cost) if spent.costs.iter_mut().any(|sum| sum.add(&cost)) => {}
                Some(cost) => spent.costs.push(cost),
                None => spent.unpriced += 1,
            }
        }
        spent
    }

    /// The amounts in words; `None` when no run has a price.
    pub(crate) fn in_words(&self) -> Option<String> {
        if self.costs.is_empty() {
            return None;
        }
        let amounts = self.costs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ");
        Some(match self.unpriced {
            0 => amounts,
            1 => format!("{amounts} without 1 run that has no price"),
            n => format!("{amounts} without {n} runs that have no price"),
        })
    }
}
