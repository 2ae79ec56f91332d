//! The server over a real store, a real socket and a scripted model.

mod basics;
mod support;
mod thread_goal;
mod thread_life;
mod thread_state;
mod threads;
