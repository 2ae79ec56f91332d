//! DeerFlow in this process: the embedded client.

mod builder;
mod error;
mod files;
mod runs;
mod stream;
mod threads;

pub use builder::{BuildError, ClientBuilder};
pub use error::ClientError;
pub use stream::RunStream;

use deerflow_core::{Principal, UserId};
use deerflow_runtime::Caller;
use deerflow_service::{Model, Models, Refusal, Service};
use std::time::Duration;

/// Threads, runs, files, goals and models of an installation, without a server.
///
/// It stands on what the HTTP server stands on: frames and values are the same, one by one, and a server that is started on
/// the same home later shows the same threads. Runs are durable: what a process that died has begun goes on when a client is
/// built on that home again.
///
/// ```
/// use deerflow::client::DeerFlowClient;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let home = tempfile::tempdir()?;
/// let client = DeerFlowClient::builder()
///     .home(home.path())
///     .model("offline") // any model of the configuration; this one needs no network
///     .set("sandbox.use", "host") // see `answer_children` for the isolated one
///     .build()
///     .await?;
///
/// let answer = client.chat("What can you do?").await?;
/// assert!(answer.to_lowercase().contains("offline"));
/// assert_eq!(client.threads(Default::default()).await?.len(), 1);
///
/// client.close(std::time::Duration::from_secs(5)).await;
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// Cheap to clone. It belongs to one user, the local one unless told otherwise, and [`DeerFlowClient::for_user`] gives
/// another's view; no method sees or touches what is somebody else's.
///
/// Skills, memory and MCP servers are not in this version, so there is nothing here to manage them with.
#[derive(Clone)]
pub struct DeerFlowClient {
    service: Service,
    caller: Caller,
    model: Option<String>,
}

impl DeerFlowClient {
    /// Says how it is to be.
    #[must_use]
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The same for another user.
    #[must_use]
    pub fn for_user(&self, user_id: UserId, principal: Principal) -> Self {
        Self { caller: Caller { user_id, principal }, ..self.clone() }
    }

    /// Whose it is.
    #[must_use]
    pub fn user_id(&self) -> &UserId {
        &self.caller.user_id
    }

    /// What it stands on.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// The models there are to choose from.
    #[must_use]
    pub fn models(&self) -> Models {
        self.service.models()
    }

    /// A model by its name.
    ///
    /// # Errors
    /// Not found.
    pub fn model(&self, name: &str) -> Result<Model, Refusal> {
        self.service.model(name)
    }

    /// Ends the runs and closes the database. Runs may finish within `grace`, then they are stopped so that the next client or
    /// server on this home goes on with them. Every clone is of no use afterwards.
    pub async fn close(self, grace: Duration) {
        self.service.runs.shutdown(grace).await;
        self.service.store.close().await;
    }
}
