//! What a client is told when something is wrong: the bodies that its SDK reads.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use deerflow_core::StoreError;
use deerflow_service::Refusal;
use serde_json::{Value, json};

/// A refusal, as status and `{"detail": …}`.
///
/// Details of the server's own faults stay in its log: a client gets the text of [`ApiError::internal`].
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// Status.
    pub status: StatusCode,
    /// The `detail` of the body: a text, or what the route documents.
    pub detail: Value,
}

impl ApiError {
    /// A refusal with a text.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: Value::String(detail.into()) }
    }
    /// 400.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }
    /// 403.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }
    /// 404.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }
    /// 404 in the words that also hide other users' threads.
    pub fn no_thread(id: &impl std::fmt::Display) -> Self {
        Self::not_found(format!("Thread {id} not found"))
    }
    /// 409.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }
    /// 422 with one entry: `type`, where it is, what is wrong with it, and what was given.
    pub fn invalid(kind: &str, place: Value, message: impl Into<String>, input: Value) -> Self {
        let entry = json!({"type": kind, "loc": place, "msg": message.into(), "input": input});
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, detail: json!([entry]) }
    }
    /// A refusal with a code that clients know.
    pub fn coded(status: StatusCode, code: &str, message: &str) -> Self {
        Self { status, detail: json!({"code": code, "message": message}) }
    }
    /// 401 with a code that clients know.
    pub fn unauthorized(code: &str, message: &str) -> Self {
        Self::coded(StatusCode::UNAUTHORIZED, code, message)
    }
    /// 401: nobody is logged in.
    pub fn not_authenticated() -> Self {
        Self::unauthorized("not_authenticated", "Authentication required")
    }
    /// 500. What happened goes to the log.
    pub fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let status = StatusCode::from_u16(refusal.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, detail: refusal.detail }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Refusal::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"detail": self.detail}))).into_response()
    }
}
