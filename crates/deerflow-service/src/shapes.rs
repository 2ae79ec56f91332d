//! What is read and answered, as LangGraph's clients know it.

mod checkpoint_choice;
mod extract;
mod message;
mod names;
mod run;
mod select;
mod state;
mod state_update;
mod thread;
mod time;

pub use checkpoint_choice::CheckpointChoice;
pub use extract::ExtractPath;
pub use names::encoded;
pub use run::Run;
pub use select::Select;
pub(crate) use state::metadata as checkpoint_metadata;
pub use state::{CheckpointRef, Question, State, Task};
pub use state_update::state_update;
pub use thread::{PINNED, Thread};
pub use time::iso;
