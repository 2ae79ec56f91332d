//! `deerflow agent`.

use super::{say, say_json};
use crate::app;
use crate::cli::AgentCommand;
use crate::failure::Failure;
use deerflow_harness::LeadOptions;
use std::path::PathBuf;

pub(crate) async fn agent(config: Option<PathBuf>, command: AgentCommand) -> Result<(), Failure> {
    let AgentCommand::Chain { plan, json } = command;
    let config = app::load_config(config)?;
    let store = app::open_store(&config).await?;
    let harness = deerflow::assembly::harness(config, &store).await.map_err(Failure::usage)?;
    let places = harness
        .places(&LeadOptions { plan_mode: plan, interactive: true, ..LeadOptions::default() })
        .map_err(Failure::usage)?;
    if json {
        return say_json(&places);
    }
    let width = places.iter().map(|p| p.name.len()).max().unwrap_or(0);
    for (at, place) in places.iter().enumerate() {
        let off = if place.active { "" } else { "  (off)" };
        say(&format!("{:2}  {:width$}  {}: {}{off}", at + 1, place.name, place.when, place.why));
    }
    Ok(())
}
