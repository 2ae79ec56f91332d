//! Whole conversations with the offline model.

mod driver;
mod honesty;
mod limits;
mod reports;
