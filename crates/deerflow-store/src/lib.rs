//! SQLite implementation of the storage ports.
