//! Parts of the path, and the query.

use super::invalid::{explain, read};
use crate::error::ApiError;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The named parts of the path.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

/// The query string.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let named = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("value_error", json!(["path"]), "The path is not UTF-8", Value::Null))?;
        let named: Map<String, Value> = named.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        Ok(Self(read("path", Value::Object(named))?))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = serde_html_form::Deserializer::from_bytes(query.as_bytes());
        let value = serde_path_to_error::deserialize(pairs).map_err(|error| {
            let path: Vec<Value> =
                error.path().to_string().split('.').filter(|s| *s != ".").map(|s| json!(s)).collect();
            let given: Vec<(String, String)> = serde_html_form::from_str(query).unwrap_or_default();
            let given = given.into_iter().map(|(name, value)| (name, json!(value))).collect();
            explain("query", path, &error.into_inner().to_string(), &Value::Object(given))
        })?;
        Ok(Self(value))
    }
}
