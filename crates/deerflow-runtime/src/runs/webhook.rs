//! The call that tells a client's server that a run has ended.
//!
//! The address comes from a client. So it is resolved here and only public addresses are connected to, no redirect is
//! followed, and no proxy is used, which would resolve it again.

use super::request::RunFacts;
use super::{CreateError, Inner};
use crate::RuntimeStore;
use deerflow_core::ports::RunRow;
use deerflow_core::{Lineage, RunId};
use deerflow_net::reqwest::dns::{Addrs, Name, Resolve, Resolving};
use deerflow_net::reqwest::{Client, Url};
use deerflow_net::{HttpOptions, ProxyRules, client_builder};
use deerflow_sandbox::is_public_address;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Pauses before the second and the third attempt.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(3)];
/// Longest address.
const URL_BYTES: usize = 2048;

impl<S: RuntimeStore> Inner<S> {
    /// Tells the run's webhook, if it has one. A few attempts; failing them harms nobody.
    pub(super) async fn call_webhook(&self, run_id: &RunId) {
        let row = match self.manager.store.run(run_id).await {
            Ok(Some(row)) => row,
            Ok(None) => return,
            Err(error) => return tracing::warn!(%run_id, %error, "the run's webhook was not called"),
        };
        let Some(facts) = RunFacts::of(&row.options) else { return };
        let Some(url) = facts.webhook.clone() else { return };
        let body = self.body(&row, &facts).await;
        let private = self.config.webhook_private_addresses;
        let timeout = Duration::from_secs(self.config.webhook_timeout_seconds.max(1));
        let client = self.webhooks.get_or_try_init(|| async {
            // Certificates are read from disk.
            tokio::task::spawn_blocking(move || client(private, timeout)).await.unwrap_or_else(|e| Err(e.to_string()))
        });
        let client = match client.await {
            Ok(client) => client,
            Err(error) => return tracing::warn!(%run_id, error, "the run's webhook was not called"),
        };
        for attempt in 0..=PAUSES.len() {
            let problem = match client.post(&url).json(&body).send().await {
                Ok(response) if response.status().is_success() => return,
                Ok(response) if response.status().is_client_error() && response.status() != 429 => {
                    let status = response.status();
                    return tracing::warn!(%run_id, %status, "the run's webhook refused the call");
                }
                Ok(response) => response.status().to_string(),
                // Without the address: it may hold a secret.
                Err(error) => error.without_url().to_string(),
            };
            tracing::warn!(%run_id, attempt, problem, "the run's webhook was not reached");
            let Some(pause) = PAUSES.get(attempt) else { return };
            tokio::select! {
                () = tokio::time::sleep(*pause) => {}
                () = self.closing.cancelled() => return,
            }
        }
    }

    /// The run as its routes show it, with what the conversation holds.
    async fn body(&self, row: &RunRow, facts: &RunFacts) -> Value {
        let head = self.manager.store.load(&Lineage::root(row.thread_id.clone()), None).await.ok().flatten();
        let values = head.map(|head| {
            json!({"messages": head.state.messages, "title": head.state.title, "artifacts": head.state.artifacts})
        });
        let time = |micros| jiff::Timestamp::from_microsecond(micros).map(|time| time.to_string()).ok();
        json!({
            "run_id": row.run_id,
            "thread_id": row.thread_id,
            "assistant_id": facts.assistant_id,
            "status": row.status.wire(),
            "error": row.error,
            "stop_reason": row.stop_reason,
            "metadata": facts.metadata,
            "multitask_strategy": facts.multitask_strategy,
            "created_at": time(row.created_at),
            "updated_at": time(row.updated_at),
            "values": values,
        })
    }
}

fn client(private: bool, timeout: Duration) -> Result<Client, String> {
    let options = HttpOptions {
        total_timeout: Some(timeout),
        connect_timeout: timeout,
        proxy: ProxyRules::default(),
        ..HttpOptions::default()
    };
    let builder = client_builder(&options).map_err(|error| error.to_string())?.no_proxy();
    let builder = if private { builder } else { builder.dns_resolver(Arc::new(PublicOnly)) };
    builder.build().map_err(|error| error.to_string())
}

/// Checks an address at admission: what can be told without asking a name server.
///
/// # Errors
/// [`CreateError::BadOption`].
pub(super) fn check(url: &str, private: bool) -> Result<(), CreateError> {
    let bad = |reason: &str| Err(CreateError::BadOption { field: "webhook", reason: reason.to_owned() });
    if url.len() > URL_BYTES {
        return bad("the address is too long");
    }
    let Ok(parsed) = Url::parse(url) else { return bad("must be an absolute http or https URL") };
    if !matches!(parsed.scheme(), "http" | "https") {
        return bad("must be an absolute http or https URL");
    }
    let host = parsed.host_str().unwrap_or_default();
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if !private && literal.is_ok_and(|address| !is_public_address(address)) {
        return bad("must not lead to this machine or a private network (`runs.webhook_private_addresses`)");
    }
    Ok(())
}

/// Resolves names to public addresses only.
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| is_public_address(address.ip())).collect();
            if public.is_empty() {
                return Err("the name has no public address".into());
            }
            let addresses: Addrs = Box::new(public.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_side_are_refused_by_admission() {
        for url in [
            "http://127.0.0.1/x",
            "http://[::1]:80/",
            "http://169.254.169.254/latest",
            "http://10.1.2.3",
            "http://2130706433/",
            "http://[::ffff:10.0.0.1]/",
            "/relative",
            "ftp://example.com/",
            "not a url",
        ] {
            assert!(check(url, false).is_err(), "{url}");
        }
        assert!(check("https://example.com/hook?x=1", false).is_ok());
        assert!(check("http://127.0.0.1:1/x", true).is_ok());
    }

    #[tokio::test]
    async fn names_of_this_side_are_not_connected_to() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = client(false, Duration::from_secs(5)).unwrap();
        let error = client.post(format!("http://localhost:{port}/")).send().await.unwrap_err();
        assert!(error.is_connect(), "{error:?}");
        let nobody = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(nobody.is_err());
    }
}
