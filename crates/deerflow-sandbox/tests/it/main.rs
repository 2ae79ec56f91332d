//! The sandbox against the real kernel.

mod support;

mod basic;
