//! From configuration to provider.

use std::path::Path;
use std::sync::Arc;

use crate::{HostProvider, IsolatedProvider, Launcher, ProviderKind, SandboxConfig, SandboxError, SandboxProvider};

/// The provider that the configuration names, over the data directory `base`.
///
/// # Errors
/// [`SandboxError::Config`]; failure to make the data directory. A kernel that refuses isolation is no error: see
/// [`SandboxProvider::capability`].
pub async fn create_provider(
    base: &Path,
    config: SandboxConfig,
    launcher: Launcher,
) -> Result<Arc<dyn SandboxProvider>, SandboxError> {
    Ok(match config.provider_kind()? {
        ProviderKind::Isolated => Arc::new(IsolatedProvider::start(base, config, launcher).await?),
        ProviderKind::Host => Arc::new(HostProvider::new(base, config)?),
    })
}
