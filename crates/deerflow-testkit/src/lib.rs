//! What the tests of the other crates stand on: a scripted OpenAI-compatible model server on loopback, checks of what
//! was sent to it, waiting with a deadline, and a throw-away home.
//!
//! ```ignore
//! let model = ScriptedModel::start().await;
//! model.push(Turn::calls([call("write_file", json!({"path": "/mnt/user-data/outputs/a.md", "content": "hi"}))]));
//! model.push(Turn::text("done").usage(10, 5));
//! // … run something against `model.base_url()` …
//! model.assert_legal();
//! ```
//!
//! **Invariant:** a dev-dependency only. It listens on loopback, takes a free port, and stops when it is dropped.

#![expect(clippy::expect_used, reason = "a fixture that cannot be set up has to fail its test")]

mod file;
mod gate;
mod home;
mod legality;
mod marker;
mod request;
mod server;
mod turn;
mod wait;
mod wire;

pub use file::{ScriptFile, ScriptFileError};
pub use gate::Gate;
pub use home::{TempHome, temp_home};
pub use legality::{Violation, violations};
pub use marker::{Marker, marked_turn, words};
pub use request::Request;
pub use server::{AUXILIARY_TEXT, ScriptedModel};
pub use turn::{Call, Turn, call, raw_call};
pub use wait::{DEADLINE, eventually, within};
