//! A chain of middlewares in the order of [`ORDER`].

use crate::order::{BuiltIn, ORDER, Slot};
use deerflow_agent::Middleware;
use serde::Serialize;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One place of a chain.
#[derive(Serialize, Clone)]
pub struct Place {
    /// Class name of the middleware.
    pub name: &'static str,
    /// Why it stands here.
    pub why: &'static str,
    /// When it is there.
    pub when: &'static str,
    /// Whether it is there now.
    pub active: bool,
    /// The middleware, if it is.
    #[serde(skip)]
    pub middleware: Option<Arc<dyn Middleware>>,
    /// Types that an anchor may name to mean this place.
    #[serde(skip)]
    pub(crate) types: Vec<TypeId>,
}

impl Place {
    /// The place of a middleware that comes from outside.
    pub(crate) fn outside(middleware: Arc<dyn Middleware>) -> Self {
        let (name, types) = (middleware.name(), vec![type_of(&middleware)]);
        Self { name, why: "placed by the caller", when: "given", active: true, middleware: Some(middleware), types }
    }
}

/// The concrete type of a middleware.
pub(crate) fn type_of(middleware: &Arc<dyn Middleware>) -> TypeId {
    (middleware.as_ref() as &dyn Any).type_id()
}

/// Middlewares for some places, in no order yet.
#[derive(Default)]
pub struct Filling {
    filled: BTreeMap<Slot, (TypeId, Arc<dyn Middleware>)>,
}

impl Filling {
    /// Fills the middleware's own place.
    pub fn put<M: BuiltIn>(&mut self, middleware: M) {
        self.put_at(M::SLOT, middleware);
    }
    /// Fills the middleware's own place, if there is one.
    pub fn maybe<M: BuiltIn>(&mut self, middleware: Option<M>) {
        if let Some(middleware) = middleware {
            self.put(middleware);
        }
    }
    /// Fills a certain place; for a middleware that has two.
    pub fn put_at<M: Middleware>(&mut self, slot: Slot, middleware: M) {
        self.filled.insert(slot, (TypeId::of::<M>(), Arc::new(middleware)));
    }
    /// Puts a caller's middleware into the place of a built-in one. Anchors at the built-in type mean it.
    pub fn stand_in<M: BuiltIn>(&mut self, middleware: Arc<dyn Middleware>) {
        self.filled.insert(M::SLOT, (TypeId::of::<M>(), middleware));
    }

    /// The whole order, places that are not filled included as inactive ones.
    #[must_use]
    pub fn in_order(mut self) -> Vec<Place> {
        ORDER
            .iter()
            .map(|row| {
                let (types, middleware) = match self.filled.remove(&row.slot) {
                    Some((built_in, middleware)) => (vec![built_in, type_of(&middleware)], Some(middleware)),
                    None => (Vec::new(), None),
                };
                let active = middleware.is_some();
                Place { name: row.slot.name(), why: row.why, when: row.when, active, middleware, types }
            })
            .collect()
    }

    /// The filled places only.
    #[must_use]
    pub fn active(self) -> Vec<Place> {
        self.in_order().into_iter().filter(|place| place.active).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_place_stands_once_and_the_question_last() {
        let slots: HashSet<Slot> = ORDER.iter().map(|row| row.slot).collect();
        assert_eq!(slots.len(), ORDER.len());
        assert_eq!(ORDER.last().unwrap().slot, Slot::Clarification);
        assert_eq!(ORDER[2].slot, Slot::InputSanitization, "the outermost that wraps the model");
    }
}
