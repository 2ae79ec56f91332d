//! Accepts connections and hands them to the application.

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// Wait before accepting again when the process has no file descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// The server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}; hint: choose another --port, or stop what uses this one")]
    Listen {
        /// Host and port.
        address: String,
        /// Why.
        source: io::Error,
    },
}

/// Serves until `stop` is cancelled, then lets open requests finish for at most `grace`.
///
/// A client must send the head of a request within `header_timeout`. Streams should watch `stop` themselves: they are cut
/// when the grace is over.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    header_timeout: Duration,
    grace: Duration,
    stop: CancellationToken,
) {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => (stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
            Some(_) = connections.join_next() => continue,
        };
        let (stream, peer) = stream;
        prepare(&stream);
        let app = app.clone().map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(axum::extract::ConnectInfo(peer));
            request.map(axum::body::Body::new)
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::info!("cutting the connections that are still open");
    }
    connections.shutdown().await;
}

fn prepare(stream: &TcpStream) {
    // Without it the last frame of a stream waits for the peer's delayed acknowledgement, some 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
}
