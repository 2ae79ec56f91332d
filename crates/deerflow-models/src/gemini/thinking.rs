//! How much the model should think.

use super::version::{Thinking, thinking};
use crate::settings::object;
use deerflow_core::JsonMap;
use serde_json::{Value, json};

/// The `thinkingConfig` for a profile that can think and says nothing of how.
pub(super) fn config(model: &str, on: bool, effort: Option<&str>) -> JsonMap {
    object(match (thinking(model), on) {
        (Thinking::Never, _) => json!({}),
        (Thinking::Level, true) => match effort {
            Some(effort) => json!({"includeThoughts": true, "thinkingLevel": level(effort)}),
            None => json!({"includeThoughts": true}),
        },
        // The lowest level that every model has; `minimal` is refused by some.
        (Thinking::Level, false) => json!({"thinkingLevel": "LOW"}),
        (Thinking::Budget { .. }, true) => match effort.and_then(budget) {
            Some(budget) => json!({"includeThoughts": true, "thinkingBudget": budget}),
            None => json!({"includeThoughts": true}),
        },
        (Thinking::Budget { least }, false) => json!({"thinkingBudget": least}),
    })
}

/// Fits a profile's own `thinkingConfig` to the model: a level and a budget together are refused, and each model takes but
/// one of them.
pub(super) fn fit(model: &str, config: &mut JsonMap) {
    let level = config.get("thinkingLevel").and_then(Value::as_str).map(str::to_owned);
    let budget = config.get("thinkingBudget").and_then(Value::as_i64);
    match thinking(model) {
        // The profile knows better what this is.
        Thinking::Never => {}
        Thinking::Level if level.is_some() => drop(config.remove("thinkingBudget")),
        Thinking::Level => {
            if let Some(budget) = budget {
                config.remove("thinkingBudget");
                // -1 leaves it to the model, which is what no level means.
                if budget >= 0 {
                    let level = if budget < 4_096 { "LOW" } else { "HIGH" };
                    config.insert("thinkingLevel".to_owned(), json!(level));
                }
            }
        }
        Thinking::Budget { least } => {
            config.remove("thinkingLevel");
            match (budget, level.as_deref().and_then(self::budget)) {
                (Some(budget), _) if budget >= 0 => {
                    config.insert("thinkingBudget".to_owned(), json!(budget.max(i64::from(least))));
                }
                (None, Some(budget)) => drop(config.insert("thinkingBudget".to_owned(), json!(budget))),
                _ => {}
            }
        }
    }
}

fn level(effort: &str) -> &'static str {
    match effort {
        "none" | "minimal" | "low" => "LOW",
        "medium" => "MEDIUM",
        _ => "HIGH",
    }
}

/// Tokens for an effort; within what every model of 2.5 takes.
fn budget(effort: &str) -> Option<u32> {
    match effort.to_ascii_lowercase().as_str() {
        "none" | "minimal" | "low" => Some(1_024),
        "medium" => Some(8_192),
        "high" | "xhigh" | "max" => Some(24_576),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn each_generation_gets_the_setting_that_it_takes() {
        let of = |model: &str, on: bool, effort: Option<&str>| Value::Object(config(model, on, effort));
        assert_eq!(of("gemini-3.5-flash", true, None), json!({"includeThoughts": true}));
        assert_eq!(
            of("gemini-3.5-flash", true, Some("xhigh")),
            json!({"includeThoughts": true, "thinkingLevel": "HIGH"})
        );
        assert_eq!(of("gemini-3.5-flash", false, None), json!({"thinkingLevel": "LOW"}));
        assert_eq!(of("gemini-2.5-flash", true, Some("low")), json!({"includeThoughts": true, "thinkingBudget": 1024}));
        assert_eq!(of("gemini-2.5-flash", false, None), json!({"thinkingBudget": 0}));
        assert_eq!(of("gemini-2.5-pro", false, None), json!({"thinkingBudget": 128}));
        assert_eq!(of("gemini-2.0-flash", true, Some("high")), json!({}));
    }

    #[test]
    fn settings_for_another_generation_are_translated() {
        let fitted = |model: &str, own: Value| {
            let mut own = object(own);
            fit(model, &mut own);
            Value::Object(own)
        };
        assert_eq!(fitted("gemini-3-pro", json!({"thinkingBudget": 24576})), json!({"thinkingLevel": "HIGH"}));
        assert_eq!(fitted("gemini-3-pro", json!({"thinkingBudget": 0})), json!({"thinkingLevel": "LOW"}));
        assert_eq!(fitted("gemini-3-pro", json!({"thinkingBudget": -1})), json!({}));
        let both = json!({"thinkingBudget": 1, "thinkingLevel": "MEDIUM"});
        assert_eq!(fitted("gemini-3-pro", both.clone()), json!({"thinkingLevel": "MEDIUM"}));
        assert_eq!(fitted("gemini-2.5-pro", both), json!({"thinkingBudget": 128}));
        assert_eq!(fitted("gemini-2.5-flash", json!({"thinkingLevel": "high"})), json!({"thinkingBudget": 24576}));
        assert_eq!(fitted("gemini-2.5-flash", json!({"thinkingBudget": -1})), json!({"thinkingBudget": -1}));
    }
}
