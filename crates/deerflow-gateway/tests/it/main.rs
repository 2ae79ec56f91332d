//! The server over a real store, a real socket and a scripted model.

mod auth;
mod basics;
mod browser;
mod support;
mod threads;
