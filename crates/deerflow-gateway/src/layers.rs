//! What is around every route.

mod cors;
mod headers;
mod trace;

pub(crate) use cors::cors;
pub(crate) use headers::security_headers;
pub(crate) use trace::trace;
