//! Rewrites a task before it is sent.

use super::ask::{ask, redactor};
use crate::app::AppState;
use crate::caller::Caller;
use crate::config::InputPolishConfig;
use crate::error::ApiError;
use crate::extract::Json;
use crate::routes::threads::not_foreign;
use axum::extract::State;
use axum::http::StatusCode;
use deerflow_core::ThreadId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How much longer a rewritten text may be.
const LONGER: usize = 4;

const SYSTEM: &str = "You rewrite the task that a user is about to give to an assistant so that it is clear and complete. Keep \
                      its language, its meaning, every fact, name, number, path, link and code in it, and its first word when \
                      that begins with a slash. Add nothing that the user did not say. Do not carry the task out and do not \
                      answer it. Answer with the rewritten task only.";

/// A draft.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Draft {
    /// The text.
    #[schema(example = "make report sales q3 chart too")]
    text: String,
    /// Language of the client, `de-CH` say; the text's own language counts.
    #[serde(default)]
    locale: Option<String>,
    /// The thread it is for.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
}

/// What became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Polished {
    rewritten_text: String,
    /// Whether it is another text.
    changed: bool,
}

/// Rewrite a task
///
/// A text with personal data that is kept from models (`pii_redaction`) stays as it is.
#[utoipa::path(post, path = "/input-polish", tag = "assist", request_body = Draft,
    responses((status = 200, body = Polished), (status = 400, description = "It is empty or too long"),
        (status = 404, description = "It is switched off"), (status = 503, description = "No model has rewritten it")))]
pub(super) async fn polish(
    caller: Caller,
    State(app): State<AppState>,
    Json(draft): Json<Draft>,
) -> Result<axum::Json<Polished>, ApiError> {
    let config = app.config.section::<InputPolishConfig>();
    if !config.enabled {
        return Err(ApiError::not_found("Input polish is disabled"));
    }
    if let Some(thread_id) = &draft.thread_id {
        not_foreign(&app, &caller, thread_id).await?;
    }
    let text = draft.text.trim();
    if text.is_empty() {
        return Err(ApiError::bad_request("Input text is empty"));
    }
    if text.chars().count() > config.max_chars {
        return Err(ApiError::bad_request(format!("Input text exceeds {} characters", config.max_chars)));
    }
    let as_it_is = || axum::Json(Polished { rewritten_text: draft.text.clone(), changed: false });
    let thread_id = draft.thread_id.clone().unwrap_or_else(ThreadId::random);
    if redactor(&app, &thread_id).redact(text) != text {
        return Ok(as_it_is());
    }
    let locale = draft.locale.as_deref().filter(|locale| locale.len() <= 35);
    let locale = locale.map(|locale| format!("The user's client is set to {locale}.\n\n")).unwrap_or_default();
    let question = format!("{locale}<task>\n{text}\n</task>");
    let answer = ask(&app, &caller, thread_id, [config.model_name.as_deref(), None], SYSTEM, question).await;
    match answer {
        Ok(answer) => {
            let answer = answer.trim_start_matches("<task>").trim_end_matches("</task>").trim().to_owned();
            // A model that answers the task writes far more than the task.
            let sane = !answer.is_empty() && answer.chars().count() <= LONGER * text.chars().count() + 400;
            if !sane || answer == text {
                return Ok(as_it_is());
            }
            Ok(axum::Json(Polished { rewritten_text: answer, changed: true }))
        }
        Err(error) => {
            tracing::warn!(error, "an input was not polished");
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "The text could not be rewritten now"))
        }
    }
}
