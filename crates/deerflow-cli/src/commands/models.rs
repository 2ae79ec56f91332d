//! `deerflow models`.

use super::{say, say_json};
use crate::app;
use crate::failure::Failure;
use std::path::PathBuf;

pub(crate) fn models(config: Option<PathBuf>, json: bool) -> Result<(), Failure> {
    let config = app::load_config(config)?;
    let entries = deerflow::assembly::models(&config).entries();
    if json {
        return say_json(&entries);
    }
    let width = entries.iter().map(|e| e.name.chars().count()).max().unwrap_or(0);
    for entry in &entries {
        let mark = if entry.default { "*" } else { " " };
        let mut facts = vec![entry.model.clone(), entry.source.to_owned()];
        facts.extend(entry.supports_vision.then(|| "vision".to_owned()));
        facts.extend(entry.supports_thinking.then(|| "thinking".to_owned()));
        facts.extend(entry.description.clone());
        if let Some(reason) = &entry.unusable {
            facts.push(format!("cannot be used: {reason}"));
        }
        say(&format!("{mark} {:width$}  {:10}  {}", entry.name, entry.provider, facts.join(" · ")));
    }
    if entries.iter().any(|e| e.default && e.source == "built in") {
        say(
            "\nOnly the offline model is there. Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or write `models:` in config.yaml, for a language model.",
        );
    }
    Ok(())
}
