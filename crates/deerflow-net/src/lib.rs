//! The one HTTP client and server-sent event decoding.
