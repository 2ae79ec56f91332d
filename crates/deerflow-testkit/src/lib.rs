//! Scripted model server and fixtures for tests.
