//! The one constructor of HTTP clients.

use crate::ProxyRules;
use std::sync::Once;
use std::time::Duration;

/// How a client behaves. `Default` suits calls of language models.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Time to get a connection, TLS included.
    pub connect_timeout: Duration,
    /// Time for the whole exchange; `None` for streams, which are watched piece by piece instead.
    pub total_timeout: Option<Duration>,
    /// How many redirects are followed. 0: a redirect is the reply, so that a key never travels to another host.
    pub redirects: usize,
    /// Whether to ask for gzip. Off for streams: intermediaries that compress also hold data back.
    pub gzip: bool,
    /// `User-Agent`.
    pub user_agent: String,
    /// Whether `https` addresses will be asked. If not, no certificates are loaded, which takes tens of milliseconds.
    pub tls: bool,
    /// Which requests go through a proxy; loopback never does.
    pub proxy: ProxyRules,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(15),
            total_timeout: None,
            redirects: 0,
            gzip: false,
            user_agent: concat!("deerflow/", env!("CARGO_PKG_VERSION")).to_owned(),
            tls: true,
            proxy: ProxyRules::from_env(),
        }
    }
}

/// A client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A proxy variable holds something that is not a URL.
    #[error("{variable} is not a usable proxy address: {reason}")]
    Proxy {
        /// The environment variable.
        variable: String,
        /// Why; the address itself may hold a password and is left out.
        reason: String,
    },
    /// TLS or the platform refused.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
}

/// Makes a client. It owns a connection pool: make one per purpose and clone it. Reads the system's certificates, so on a
/// reactor it belongs into `spawn_blocking` unless [`HttpOptions::tls`] is off.
///
/// # Errors
/// [`ClientError`] when the proxy variables or the TLS set-up are unusable.
pub fn http_client(options: &HttpOptions) -> Result<reqwest::Client, ClientError> {
    match client_builder(options)?.build() {
        Ok(client) => Ok(client),
        // A bare container has no CA bundle. Talking to a local model must work there, and the web too.
        Err(error) => {
            tracing::debug!(%error, "no system certificates; using the built-in root certificates");
            let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS
                .iter()
                .filter_map(|der| reqwest::Certificate::from_der(der).ok());
            let builder = client_builder(options)?.tls_certs_only(roots);
            builder.build().map_err(|error| ClientError::Setup(error.to_string()))
        }
    }
}

/// The builder behind [`http_client`], for a caller that adds to it (a checking DNS resolver, say).
///
/// # Errors
/// [`ClientError::Proxy`].
pub fn client_builder(options: &HttpOptions) -> Result<reqwest::ClientBuilder, ClientError> {
    install_tls();
    let redirects = match options.redirects {
        0 => reqwest::redirect::Policy::none(),
        max => reqwest::redirect::Policy::limited(max),
    };
    let mut builder = reqwest::Client::builder()
        .connect_timeout(options.connect_timeout)
        .redirect(redirects)
        .gzip(options.gzip)
        .user_agent(options.user_agent.clone())
        .tcp_nodelay(true);
    if let Some(total) = options.total_timeout {
        builder = builder.timeout(total);
    }
    if !options.tls {
        builder = builder.tls_certs_only([]);
    }
    options.proxy.apply(builder)
}

/// Installs the TLS implementation. reqwest panics without one.
fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that somebody installed one already; any will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
