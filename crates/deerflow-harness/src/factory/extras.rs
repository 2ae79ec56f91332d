//! Middlewares of the caller, placed by what they must stand beside.
//!
//! An anchor names a middleware type, never an index, so that a chain whose built-in parts change keeps its meaning. Several
//! extras may form a chain of anchors. What cannot be placed unambiguously is an error at build time.

use super::FactoryError;
use crate::chain::{Place, type_of};
use deerflow_agent::Middleware;
use std::any::TypeId;
use std::sync::Arc;

/// A middleware with its anchor. A type can carry one anchor only, so that "both sides at once" cannot be said.
#[derive(Clone)]
pub struct Extra {
    middleware: Arc<dyn Middleware>,
    anchor: Option<Anchor>,
}

#[derive(Clone, Copy)]
struct Anchor {
    side: Side,
    at: TypeId,
    name: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Next,
    Prev,
}

impl Extra {
    /// Right before the clarification middleware, after other extras of this kind.
    #[must_use]
    pub fn new(middleware: impl Middleware) -> Self {
        Self { middleware: Arc::new(middleware), anchor: None }
    }
    /// Directly after (inside) `A`: upstream's `@Next(A)`.
    #[must_use]
    pub fn next<A: Middleware>(middleware: impl Middleware) -> Self {
        Self::anchored::<A>(middleware, Side::Next)
    }
    /// Directly before (outside) `A`: upstream's `@Prev(A)`.
    #[must_use]
    pub fn prev<A: Middleware>(middleware: impl Middleware) -> Self {
        Self::anchored::<A>(middleware, Side::Prev)
    }

    fn anchored<A: Middleware>(middleware: impl Middleware, side: Side) -> Self {
        let path = std::any::type_name::<A>();
        let name = path.rsplit("::").next().unwrap_or(path);
        let anchor = Anchor { side, at: TypeId::of::<A>(), name };
        Self { middleware: Arc::new(middleware), anchor: Some(anchor) }
    }
    fn type_id(&self) -> TypeId {
        type_of(&self.middleware)
    }
}

impl<M: Middleware> From<M> for Extra {
    fn from(middleware: M) -> Self {
        Self::new(middleware)
    }
}

/// Puts the extras into a chain whose last place asks the user.
pub(super) fn insert(chain: &mut Vec<Place>, extras: Vec<Extra>) -> Result<(), FactoryError> {
    refuse_conflicts(&extras)?;
    let last_built_in = chain.last().map(|place| place.types.clone()).unwrap_or_default();
    let (anchored, free): (Vec<Extra>, Vec<Extra>) = extras.into_iter().partition(|e| e.anchor.is_some());
    let tail = chain.len().saturating_sub(1);
    chain.splice(tail..tail, free.into_iter().map(|extra| Place::outside(extra.middleware)));
    place_anchored(chain, anchored)?;
    // An extra after the last place is one before it: nothing stands between that and the question to the user.
    if let Some(at) = chain.iter().position(|place| !last_built_in.is_empty() && place.types == last_built_in) {
        let last = chain.remove(at);
        chain.push(last);
    }
    Ok(())
}

/// Two extras that claim the same gap, or both sides of one anchor, have no order between them.
fn refuse_conflicts(extras: &[Extra]) -> Result<(), FactoryError> {
    for (i, one) in extras.iter().enumerate() {
        let Some(a) = one.anchor else { continue };
        for other in &extras[i + 1..] {
            if other.anchor.is_some_and(|b| b.at == a.at) {
                let (first, second) = (one.middleware.name(), other.middleware.name());
                return Err(FactoryError::AnchorConflict { first, second, anchor: a.name });
            }
        }
    }
    Ok(())
}

/// Places extras round by round: an anchor may be an extra of an earlier round.
fn place_anchored(chain: &mut Vec<Place>, mut waiting: Vec<Extra>) -> Result<(), FactoryError> {
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut still = Vec::new();
        for extra in waiting {
            let Some(anchor) = extra.anchor else { continue };
            match chain.iter().position(|place| place.types.contains(&anchor.at)) {
                Some(at) => {
                    let at = if anchor.side == Side::Next { at + 1 } else { at };
                    chain.insert(at, Place::outside(extra.middleware));
                }
                None => still.push(extra),
            }
        }
        waiting = still;
        if waiting.len() == before {
            return Err(unplaceable(&waiting));
        }
    }
    Ok(())
}

fn unplaceable(waiting: &[Extra]) -> FactoryError {
    let pairs = waiting.iter().filter_map(|e| e.anchor.map(|a| format!("{} at {}", e.middleware.name(), a.name)));
    let pairs = pairs.collect::<Vec<_>>().join(", ");
    let circular = waiting.iter().any(|e| e.anchor.is_some_and(|a| waiting.iter().any(|o| o.type_id() == a.at)));
    if circular { FactoryError::AnchorsCircular(pairs) } else { FactoryError::AnchorsMissing(pairs) }
}
