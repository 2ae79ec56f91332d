//! The runtime over a real store, a real harness and a scripted model.

mod streams;
