//! Form bodies.

use super::body::collect;
use super::invalid::explain;
use crate::app::AppState;
use crate::error::ApiError;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A body of `application/x-www-form-urlencoded`.
#[derive(Debug)]
pub(crate) struct Form<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AppState> for Form<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let bytes = collect(request, app).await?;
        serde_path_to_error::deserialize(serde_html_form::Deserializer::from_bytes(&bytes)).map(Self).map_err(|error| {
            let path = error.path().to_string();
            let path = path.split('.').filter(|step| *step != ".").map(|step| json!(step)).collect();
            // What was given stays out of the answer: it may be a password.
            explain("body", path, &error.into_inner().to_string(), &Value::Null)
        })
    }
}
