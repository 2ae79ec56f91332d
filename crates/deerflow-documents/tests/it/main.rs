//! Conversion and staging, end to end on real files.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test code: a failed step is a failed test")]

mod convert;
mod hostile;
mod pdf_files;
mod random;
mod staging;
mod worker;

use std::path::PathBuf;

use deerflow_documents::{ConvertError, Converted, Limits, convert_bytes};

fn fixture_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(fixture_path(name)).expect("fixtures are committed")
}

fn converted(name: &str) -> Converted {
    convert_bytes(name, &fixture(name), &Limits::default()).expect("converts")
}

fn failure(name: &str, bytes: &[u8], limits: &Limits) -> ConvertError {
    convert_bytes(name, bytes, limits).expect_err("is refused")
}

/// A zip archive of the given entries.
fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    use std::io::Write;
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).expect("fits");
        writer.write_all(bytes).expect("fits");
    }
    writer.finish().expect("fits").into_inner()
}

/// The smallest Word file around a body.
fn docx(body: &str) -> Vec<u8> {
    let xml = format!("<w:document xmlns:w=\"w\"><w:body>{body}</w:body></w:document>");
    zip(&[("word/document.xml", xml.as_bytes())])
}
