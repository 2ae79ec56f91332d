//! Who a run acts for, as far as policies care.

use crate::JsonMap;
use serde::{Deserialize, Serialize};

/// Facts about the person or system behind a run. Filled in from trusted sources only, never from a client's body.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Principal {
    /// Role in this installation, `admin` or `user` say; `None` means the configured default role.
    pub user_role: Option<String>,
    /// Identity provider the user logged in with.
    pub oauth_provider: Option<String>,
    /// The user's id at that provider.
    pub oauth_id: Option<String>,
    /// The user's id in the chat channel the request came through.
    pub channel_user_id: Option<String>,
    /// Whether one of our own processes asks (a scheduler, a channel).
    pub is_internal: bool,
    /// Further attributes for authorisation providers.
    pub authz_attributes: JsonMap,
}
