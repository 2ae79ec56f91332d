//! What running a command takes, whatever runs it.

pub(crate) mod capture;
pub(crate) mod disk;
pub(crate) mod env;
pub(crate) mod group;
