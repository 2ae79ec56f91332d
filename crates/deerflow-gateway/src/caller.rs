//! Who asks.

use crate::error::ApiError;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use deerflow_core::{Principal, UserId};

/// Who asks, as the authentication of this request found out. Its absence is a 401.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Whose things are seen and touched.
    pub user_id: UserId,
    /// What policies may know.
    pub principal: Principal,
}

impl Caller {
    /// The user of an installation without login, who may do everything.
    #[must_use]
    pub fn local() -> Self {
        let principal = Principal { user_role: Some("admin".into()), ..Principal::default() };
        Self { user_id: UserId::local(), principal }
    }

    /// The same for the runtime.
    pub(crate) fn asking(&self) -> deerflow_runtime::Caller {
        deerflow_runtime::Caller { user_id: self.user_id.clone(), principal: self.principal.clone() }
    }

    /// Whether this user administers the installation.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.principal.user_role.as_deref() == Some("admin")
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(ApiError::not_authenticated)
    }
}
