//! Whole conversations with the offline model.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod driver;
mod honesty;
mod limits;
mod questions;
mod reports;
