//! `deerflow config`.

use super::{say, say_json};
use crate::app;
use crate::cli::ConfigCommand;
use crate::failure::{Failure, USAGE};
use std::io::IsTerminal;
use std::path::PathBuf;

pub(crate) fn config(file: Option<PathBuf>, command: ConfigCommand) -> Result<(), Failure> {
    if matches!(command, ConfigCommand::Schema) {
        return say_json(&app::registry().schema());
    }
    let checked = app::loader(file)?.check();
    if !checked.diagnostics.is_empty() {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        say(deerflow_config::render(&checked.diagnostics, colour, 110).trim_end());
    }
    let source = match &checked.source {
        Some(path) => path.display().to_string(),
        None => "no configuration file (built-in defaults)".to_owned(),
    };
    if checked.has_errors() {
        return Err(Failure { message: format!("{source} has errors"), code: USAGE });
    }
    say(&format!("ok: {source}"));
    Ok(())
}
