//! Requests as types. What does not fit is a 422 in the shape that FastAPI gives: a list of `{type, loc, msg, input}`.

mod body;
mod bounded;
mod flag;
mod form;
mod invalid;
mod params;

pub(crate) use body::{Json, JsonList, OptionalJson};
pub(crate) use bounded::Bounded;
pub(crate) use flag::Flag;
pub(crate) use form::Form;
pub(crate) use params::{Path, Query};
