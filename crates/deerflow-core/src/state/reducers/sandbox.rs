//! `merge_sandbox`: a thread holds one sandbox; a second one is a life-cycle fault.

use crate::StateError;
use crate::state::SandboxState;

/// The sandbox after a write.
///
/// # Errors
/// [`StateError::SandboxConflict`] when the ids differ; a missing id differs from any other.
pub fn merge_sandbox(
    old: Option<&SandboxState>,
    new: Option<&SandboxState>,
) -> Result<Option<SandboxState>, StateError> {
    match (old, new) {
        (old, None) => Ok(old.cloned()),
        (None, Some(new)) => Ok(Some(new.clone())),
        (Some(old), Some(new)) if old.sandbox_id == new.sandbox_id => Ok(Some(old.clone())),
        (Some(old), Some(new)) => {
            Err(StateError::SandboxConflict { held: old.sandbox_id.clone(), incoming: new.sandbox_id.clone() })
        }
    }
}
