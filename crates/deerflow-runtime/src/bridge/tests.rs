//! The bridge under every order of publishing, reading, cutting and restarting.

mod order;
mod script;
mod windows;
