//! Files that users give to a thread.

mod file;
mod list;
mod receive;

pub use file::File;
pub use list::{Files, Gone, Limits};
pub use receive::Uploaded;
