//! The end of a run as one JSON value.

use super::follow::locate;
use crate::app::AppState;
use crate::error::ApiError;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use deerflow_core::ports::RunRow;
use futures::{Stream, stream};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

/// Silence after which a blank is sent, so that nobody on the way takes the connection for dead. JSON may begin with blanks.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The response that waits for the end of a run. Its head comes at once, with the place to go on at when it breaks off.
pub(super) fn response(app: &AppState, row: &RunRow, cancels: bool) -> Result<Response, ApiError> {
    let (service, row_of) = (app.service.clone(), row.clone());
    let stop = app.stop.clone();
    let settled = async move {
        service.outcome(&row_of, cancels).await.unwrap_or_else(|error| {
            tracing::error!(run_id = %row_of.run_id, %error, "the end of a run cannot be told");
            json!({"status": "error", "error": "Internal Server Error"})
        })
    };
    let body = blanks_until(Box::pin(settled));
    let body = futures::StreamExt::take_until(body, stop.cancelled_owned());
    let mut response = Body::from_stream(futures::StreamExt::map(body, Ok::<_, Infallible>)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    locate(&mut response, row, "join")?;
    Ok(response)
}

fn blanks_until(value: Pin<Box<dyn Future<Output = Value> + Send>>) -> impl Stream<Item = Bytes> + Send {
    stream::unfold(Some(value), |value| async move {
        let mut value = value?;
        match tokio::time::timeout(HEARTBEAT, &mut value).await {
            Ok(done) => Some((Bytes::from(done.to_string()), None)),
            Err(_) => Some((Bytes::from_static(b"\n"), Some(value))),
        }
    })
}
