//! Files of every kind to Markdown, and user files into an uploads folder.
//!
//! * [`convert_bytes`] / [`convert_file`] / [`Converter`]: a document's bytes to [`Converted`] Markdown, with page marks
//!   ([`page_mark`], [`page_at_line`]) and tables.
//! * [`decode_text`]: the one text decoder (byte order marks, UTF-16, legacy encodings; `None` for binary).
//! * [`outline`]: the headings of a Markdown text, for a model that has not read it yet.
//! * [`stage_files`]: user files into an uploads folder, all or nothing, with a Markdown companion beside each document.
//!
//! **Invariant:** input is hostile. No input makes this crate panic, write outside the uploads folder, follow a link,
//! or inflate past [`Limits`]; a document that cannot be converted is an error that says what to do, never empty text.
//! For parsers that can still loop or exhaust memory, [`Converter`] runs them in a child process ([`worker_main`]).

mod archive;
mod convert;
mod csv_table;
mod encoding;
mod epub;
mod error;
mod html;
mod html_table;
mod kind;
mod limits;
mod markdown;
mod marks;
mod office;
mod outline;
mod pdf;
mod staging;
mod worker;

pub use convert::{Converted, convert_bytes};
pub use encoding::{DecodedText, decode_text};
pub use error::{ConvertError, UploadError};
pub use html::html_to_markdown;
pub use kind::DocumentKind;
pub use limits::{Limits, UploadLimits};
pub use marks::{page_at_line, page_mark};
pub use outline::{Outline, OutlineEntry, outline};
pub use staging::{
    Existing, Incoming, StageOptions, Staged, Upload, remove_upload, safe_filename, stage_files, stage_open_files,
    unique_name,
};
pub use worker::{Converter, Worker, convert_file, is_worker_invocation, worker_main};
