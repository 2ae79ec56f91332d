//! Built-in tools: what an agent can do with its thread's computer, its user and its plan.
//!
//! **Invariant:** what a model reads from these tools never names a host path; what it writes reaches the host only through
//! `deerflow-sandbox`. A failure that the model can act on is an error that says what to do.
//!
//! * [`BuiltinTools`], [`builtin_tools`]: the tools, one file each, in a fixed order.
//! * [`clarification`]: a question to the user as text and payload, for the middleware that takes the call.
//! * [`neutralise`]: makes text from outside unable to speak for the harness.

mod args;
mod ask_clarification;
mod bash;
pub mod clarification;
mod cut;
mod documents;
mod glob;
mod grep;
mod limits;
mod list_uploaded_files;
mod locks;
mod ls;
pub mod neutralise;
mod present_files;
mod read_file;
mod registry;
mod schema;
mod str_replace;
#[cfg(test)]
mod testing;
mod view_image;
mod workbench;
mod write_file;
mod write_todos;

pub use args::parse as parse_args;
pub use bash::FULL_OUTPUT;
pub use limits::ToolLimits;
pub use locks::KeyedLocks;
pub use registry::{BuiltinTools, ToolSelection, ask_clarification, builtin_tools, write_todos};
pub use schema::spec as tool_spec;
