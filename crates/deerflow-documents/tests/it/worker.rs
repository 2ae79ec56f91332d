//! Conversion in a child process.

use std::path::PathBuf;
use std::time::Duration;

use deerflow_documents::{ConvertError, Converter, Limits, Worker, convert_file};
use pretty_assertions::assert_eq;

use crate::{converted, fixture_path};

fn converter(limits: Limits) -> Converter {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_deerflow-document-worker"));
    Converter { limits, worker: Some(Worker { program }) }
}

#[tokio::test]
async fn a_child_answers_what_this_process_would() {
    let here = convert_file(&fixture_path("report.docx"), &Limits::default()).await.unwrap();
    assert_eq!(here, converted("report.docx"));
    let child = converter(Limits::default());
    assert_eq!(child.convert_file(&fixture_path("report.docx")).await.unwrap(), here);
    assert_eq!(child.convert_file(&fixture_path("grid.pdf")).await.unwrap(), converted("grid.pdf"));
    assert_eq!(child.convert_file(&fixture_path("encrypted.pdf")).await, Err(ConvertError::Encrypted));
}

#[tokio::test]
async fn a_child_that_runs_out_of_memory_takes_nobody_with_it() {
    let limits = Limits { max_memory_bytes: 48 << 20, ..Limits::default() };
    let bytes = "word ".repeat(6 << 20).into_bytes();
    let error = converter(limits).convert("a.html", bytes).await.unwrap_err();
    assert_eq!(error, ConvertError::Damaged { reason: "its reader crashed or needed too much memory".to_owned() });
}

#[tokio::test]
async fn a_program_that_is_no_worker_is_an_error_not_a_hang() {
    let silent = Converter { worker: Some(Worker { program: "/bin/true".into() }), ..Converter::default() };
    let error = silent.convert("a.txt", b"x".to_vec()).await.unwrap_err();
    assert!(matches!(error, ConvertError::Damaged { .. }), "{error:?}");
    let missing = Converter { worker: Some(Worker { program: "/does/not/exist".into() }), ..Converter::default() };
    assert!(matches!(missing.convert("a.txt", b"x".to_vec()).await, Err(ConvertError::Io { .. })));
}

#[tokio::test]
async fn directories_missing_and_oversize_files_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { max_input_bytes: 4, timeout: Duration::from_secs(5), ..Limits::default() };
    assert!(matches!(convert_file(folder.path(), &limits).await, Err(ConvertError::NotAFile { .. })));
    assert!(matches!(convert_file(&folder.path().join("no"), &limits).await, Err(ConvertError::Io { .. })));
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "12345").unwrap();
    assert_eq!(convert_file(&path, &limits).await, Err(ConvertError::TooLarge { size: 5, limit: 4 }));
}
