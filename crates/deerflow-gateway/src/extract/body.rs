//! JSON bodies.

use super::invalid::read;
use crate::app::AppState;
use crate::error::ApiError;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A body that has to be there, an object.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

/// A body that may be missing, an object; then it is read as `{}`.
#[derive(Debug)]
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AppState> for Json<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let bytes = collect(request, state).await?;
        if bytes.is_empty() {
            return Err(ApiError::invalid("missing", json!(["body"]), "Field required", Value::Null));
        }
        Ok(Self(object(parse(&bytes)?)?))
    }
}

impl<T: DeserializeOwned> FromRequest<AppState> for OptionalJson<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let bytes = collect(request, state).await?;
        let value = if bytes.is_empty() { json!({}) } else { parse(&bytes)? };
        Ok(Self(object(if value.is_null() { json!({}) } else { value })?))
    }
}

/// A body that is a list.
#[derive(Debug)]
pub(crate) struct JsonList<T>(pub(crate) Vec<T>);

impl<T: DeserializeOwned> FromRequest<AppState> for JsonList<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        Ok(Self(read("body", parse(&collect(request, state).await?)?)?))
    }
}

/// Serde would take a list for a struct.
fn object<T: DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    if !value.is_object() {
        return Err(ApiError::invalid("dict_type", json!(["body"]), "Input should be a valid dictionary", value));
    }
    read("body", value)
}

fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let place = json!(["body", error.column()]);
        ApiError::invalid("json_invalid", place, format!("JSON decode error: {error}"), json!({}))
    })
}

/// The whole body, within the configured size and time.
pub(crate) async fn collect(request: Request, state: &AppState) -> Result<Bytes, ApiError> {
    let server = state.server();
    let limit = server.max_body_bytes;
    let body = Limited::new(request.into_body(), limit).collect();
    let wait = std::time::Duration::from_secs(server.body_timeout_seconds);
    match tokio::time::timeout(wait, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("The body is larger than {limit} bytes")))
        }
        Ok(Err(_)) => Err(ApiError::bad_request("The body could not be read")),
        Err(_) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "The body took too long")),
    }
}
