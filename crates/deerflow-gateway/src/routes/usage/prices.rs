//! Tokens as money.

use crate::app::AppState;
use deerflow_core::Usage;
use deerflow_core::ports::ModelUsage;
use deerflow_models::{Cost, cost};
use std::collections::BTreeMap;

/// What one model's tokens cost; `None` where the configuration names no price.
pub(super) fn of_model(app: &AppState, model: &str, used: &ModelUsage) -> Option<Cost> {
    let pricing = app.harness.models().pricing(model)?;
    let mut usage = Usage {
        input_tokens: used.input_tokens,
        output_tokens: used.output_tokens,
        total_tokens: used.total_tokens,
        ..Usage::default()
    };
    usage.input_token_details.insert("cache_read".to_owned(), used.cache_read_tokens);
    Some(cost(&usage, pricing))
}

/// What several models' tokens cost together: nothing is said when one that was used has no price, or when they are in
/// several currencies.
pub(super) fn of_all(app: &AppState, used: &BTreeMap<String, ModelUsage>) -> Option<Cost> {
    let mut total: Option<Cost> = None;
    for (model, used) in used.iter().filter(|(_, used)| used.total_tokens > 0) {
        let cost = of_model(app, model, used)?;
        match &mut total {
            None => total = Some(cost),
            Some(sum) => {
                if !sum.add(&cost) {
                    return None;
                }
            }
        }
    }
    total
}
