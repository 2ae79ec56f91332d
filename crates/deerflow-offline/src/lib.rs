//! The built-in rule-based model.
