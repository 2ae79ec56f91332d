//! The server over a real store, a real socket and a scripted model.

mod basics;
mod runs;
mod support;
mod threads;
