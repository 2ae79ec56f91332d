//! Which model answers for which: the `fallbacks` of profiles.

use super::ModelProfile;
use crate::nearest::nearest;
use crate::path::KeyPath;
use crate::registry::Problems;
use std::collections::HashSet;

/// The built-in model is there without being configured.
const BUILT_IN: &str = "offline";

/// The models that answer for that of this name when it cannot, in order: its `fallbacks`, each followed by its own. Every
/// model comes once.
pub fn fallbacks_of<'a>(models: &'a [ModelProfile], name: &str) -> Vec<&'a str> {
    let mut order = Vec::new();
    let mut seen = HashSet::from([name]);
    // The next one to visit is last.
    let mut waiting: Vec<&'a str> = of(models, name).rev().collect();
    while let Some(next) = waiting.pop() {
        if seen.insert(next) {
            order.push(next);
            waiting.extend(of(models, next).rev());
        }
    }
    order
}

fn of<'a>(models: &'a [ModelProfile], name: &str) -> impl DoubleEndedIterator<Item = &'a str> + use<'a> {
    let found = models.iter().find(|model| model.name == name);
    found.map(|model| model.fallbacks.as_slice()).unwrap_or_default().iter().map(String::as_str)
}

/// Names of no model, and models that would answer for themselves in the end.
pub(super) fn validate(models: &[ModelProfile], index: usize, problems: &mut Problems) {
    let model = &models[index];
    let entry = KeyPath::root().index(index).key("fallbacks");
    let known = || models.iter().map(|model| model.name.as_str()).filter(|name| !name.is_empty());
    for (at, name) in model.fallbacks.iter().enumerate() {
        if name != BUILT_IN && !known().any(|known| known == name) {
            let help = match nearest(name, known()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("the models are {}", known().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
                }
            };
            problems.error(entry.index(at), format!("there is no model `{name}` to fall back to"), Some(help));
        }
    }
    if let Some(cycle) = cycle(models, &model.name) {
        // Each of the cycle sees it; the first one of the file says so.
        let first = models.iter().find(|model| cycle.contains(&model.name.as_str()));
        if first.is_some_and(|first| first.name == model.name) {
            let way: Vec<_> = cycle.iter().chain(cycle.first()).map(|name| format!("`{name}`")).collect();
            let help = "each model falls back to others, which never lead to itself".to_owned();
            problems.error(entry, format!("the fall-backs go in a circle: {}", way.join(" → ")), Some(help));
        }
    }
}

/// The shortest way from a model to itself, without its return.
fn cycle<'a>(models: &'a [ModelProfile], name: &'a str) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![name]];
    let mut seen = HashSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().copied().unwrap_or(name);
            for next in of(models, last) {
                if next == name {
                    return Some(way);
                }
                if seen.insert(next) {
                    longer.push(way.iter().copied().chain([next]).collect());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn models(pairs: &[(&str, &[&str])]) -> Vec<ModelProfile> {
        let profile = |(name, fallbacks): &(&str, &[&str])| {
            serde_json::from_value(json!({"name": name, "use": "openai", "model": "x", "fallbacks": fallbacks}))
                .unwrap()
        };
        pairs.iter().map(profile).collect()
    }

    #[test]
    fn each_fallback_is_followed_by_its_own_and_comes_once() {
        let models = models(&[("a", &["b", "d"]), ("b", &["c", "d"]), ("c", &[]), ("d", &["offline"])]);
        assert_eq!(fallbacks_of(&models, "a"), ["b", "c", "d", "offline"]);
        assert_eq!(fallbacks_of(&models, "c"), Vec::<&str>::new());
        assert_eq!(fallbacks_of(&models, "nobody"), Vec::<&str>::new());
    }

    #[test]
    fn a_circle_ends_and_is_found_from_each_of_its_models_only() {
        let models = models(&[("x", &["b"]), ("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("self", &["self"])]);
        assert_eq!(fallbacks_of(&models, "a"), ["b", "c"]);
        assert_eq!(cycle(&models, "b"), Some(vec!["b", "c", "a"]));
        assert_eq!(cycle(&models, "self"), Some(vec!["self"]));
        assert_eq!(cycle(&models, "x"), None);
    }
}
