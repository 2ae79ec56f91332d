//! Token estimates that need no network.
