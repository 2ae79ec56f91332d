//! Counts for Prometheus, at `/metrics`.

use crate::app::AppState;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::time::Instant;

/// Upper bounds of the buckets of durations, in seconds.
const SECONDS: [f64; 10] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0];

/// What a request was, with few enough values to count by.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    method: Method,
    /// The pattern of the path, never the path: ids do not belong into labels.
    route: String,
    status: u16,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Route {
    method: Method,
    route: String,
}

#[derive(Debug, Clone, Copy, Hash, PartialEq, Eq, EncodeLabelValue)]
enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
    Other,
}

impl From<&axum::http::Method> for Method {
    fn from(method: &axum::http::Method) -> Self {
        match method.as_str() {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// The counts of one server.
pub(crate) struct Metrics {
    registry: Registry,
    answered: Family<Answered, Counter>,
    seconds: Family<Route, Histogram>,
    streams: Gauge,
    live_runs: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("deerflow");
        let answered = Family::default();
        registry.register("http_requests", "Requests answered", answered.clone());
        let seconds = Family::<Route, Histogram>::new_with_constructor(|| Histogram::new(SECONDS));
        let help = "Time from a request to the head of its answer";
        registry.register_with_unit("http_request", help, Unit::Seconds, seconds.clone());
        let (streams, live_runs) = (Gauge::default(), Gauge::default());
        registry.register("streams_open", "Streams with a reader", streams.clone());
        registry.register("runs_live", "Runs that this process executes", live_runs.clone());
        Self { registry, answered, seconds, streams, live_runs }
    }
}

impl Metrics {
    /// Counts a stream as open until the guard is dropped.
    pub(crate) fn stream(self: &Arc<Self>) -> OpenStream {
        self.streams.inc();
        OpenStream(self.clone())
    }

    /// The text that Prometheus reads. `live_runs` is asked for when it is read.
    pub(crate) fn render(&self, live_runs: usize) -> Response {
        self.live_runs.set(i64::try_from(live_runs).unwrap_or(i64::MAX));
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => {
                ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
            }
            Err(error) => crate::ApiError::internal(&error).into_response(),
        }
    }
}

/// An open stream.
pub(crate) struct OpenStream(Arc<Metrics>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.dec();
    }
}

/// Counts a request.
pub(crate) async fn count(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let method = Method::from(request.method());
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    let metrics = &app.metrics;
    let status = response.status().as_u16();
    metrics.answered.get_or_create(&Answered { method, route: route.clone(), status }).inc();
    metrics.seconds.get_or_create(&Route { method, route }).observe(begin.elapsed().as_secs_f64());
    response
}
