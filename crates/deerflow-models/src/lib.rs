//! Provider adapters, history legalising, record and replay.
