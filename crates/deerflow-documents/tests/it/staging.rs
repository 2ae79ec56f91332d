//! Staging: all or nothing, nothing followed, nothing overwritten.

use std::fs;
use std::io::{Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use deerflow_documents::{
    Converter, Existing, Incoming, StageOptions, Upload, UploadError, UploadLimits, remove_upload, stage_files,
    stage_open_files,
};
use pretty_assertions::assert_eq;
use tempfile::TempDir;

use crate::fixture_path;

struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("src")).unwrap();
        fs::create_dir(root.path().join("uploads")).unwrap();
        Self { root }
    }

    fn uploads(&self) -> PathBuf {
        self.root.path().join("uploads")
    }

    fn source(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.path().join("src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    async fn stage(&self, sources: &[PathBuf]) -> Result<Vec<Upload>, UploadError> {
        stage_files(sources, &self.uploads(), &options()).await
    }

    /// Names in the uploads folder, sorted.
    fn names(&self) -> Vec<String> {
        listing(&self.uploads())
    }
}

fn options() -> StageOptions {
    let limits = UploadLimits { max_file_size: 100_000, max_total_size: 150_000, ..UploadLimits::default() };
    StageOptions { limits, converter: Some(Converter::default()), ..StageOptions::default() }
}

fn listing(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn names(uploads: &[Upload]) -> Vec<(&str, Option<&str>)> {
    uploads.iter().map(|upload| (upload.filename.as_str(), upload.markdown_file.as_deref())).collect()
}

#[tokio::test]
async fn a_document_gets_its_markdown_beside_it_and_text_is_left_alone() {
    let place = Place::new();
    let sources = [fixture_path("plain.pdf"), place.source("notes.md", "# n\n"), place.source("run.py", "print(1)\n")];
    let uploads = place.stage(&sources).await.unwrap();
    assert_eq!(names(&uploads), [("plain.pdf", Some("plain.md")), ("notes.md", None), ("run.py", None)]);
    assert_eq!(place.names(), ["notes.md", "plain.md", "plain.pdf", "run.py"]);
    assert_eq!(fs::read(place.uploads().join("plain.pdf")).unwrap(), fs::read(&sources[0]).unwrap());
    let markdown = fs::read_to_string(place.uploads().join("plain.md")).unwrap();
    assert!(markdown.starts_with("<!-- page 1 -->\n\nA plain page"), "{markdown}");
    for name in place.names() {
        assert_eq!(fs::metadata(place.uploads().join(name)).unwrap().permissions().mode() & 0o777, 0o644);
    }
}

#[tokio::test]
async fn three_uploads_with_one_stem_do_not_overwrite_each_others_markdown() {
    let place = Place::new();
    let sources = [
        place.source("a.docx", fs::read(fixture_path("report.docx")).unwrap()),
        place.source("a.pdf", fs::read(fixture_path("plain.pdf")).unwrap()),
        place.source("a.md", "# mine\n"),
    ];
    let uploads = place.stage(&sources).await.unwrap();
    assert_eq!(names(&uploads), [("a.docx", Some("a_1.md")), ("a.pdf", Some("a_2.md")), ("a.md", None)]);
    assert_eq!(fs::read_to_string(place.uploads().join("a.md")).unwrap(), "# mine\n");
    assert!(fs::read_to_string(place.uploads().join("a_2.md")).unwrap().contains("4711"));
}

#[tokio::test]
async fn a_failed_conversion_frees_its_name_keeps_the_original_and_says_what_to_do() {
    let place = Place::new();
    let scan = place.source("a.pdf", fs::read(fixture_path("scanned.pdf")).unwrap());
    let locked = place.source("b.docx", fs::read(fixture_path("locked.docx")).unwrap());
    let good = place.source("a.docx", fs::read(fixture_path("report.docx")).unwrap());
    let uploads = place.stage(&[scan, locked, good]).await.unwrap();
    assert_eq!(names(&uploads), [("a.pdf", None), ("b.docx", None), ("a.docx", Some("a.md"))]);
    assert!(uploads[0].warning.as_deref().unwrap().contains("no text layer"), "{uploads:?}");
    assert!(uploads[1].warning.as_deref().unwrap().contains("encrypted"), "{uploads:?}");
    assert_eq!(uploads[2].warning.as_deref(), Some("1 image(s) in the document are not part of the text"));
    assert_eq!(place.names(), ["a.docx", "a.md", "a.pdf", "b.docx"]);
}

#[tokio::test]
async fn decomposed_unicode_names_are_composed_and_the_given_name_is_told() {
    let place = Place::new();
    let uploads = place.stage(&[place.source("Cafe\u{301} 测试.txt", "x")]).await.unwrap();
    assert_eq!(uploads[0].filename, "Caf\u{e9} 测试.txt");
    assert_eq!(uploads[0].original_filename.as_deref(), Some("Cafe\u{301} 测试.txt"));
    assert_eq!(place.names(), ["Caf\u{e9} 测试.txt"]);
}

#[tokio::test]
async fn names_with_brackets_quotes_commas_percent_signs_and_dashes_survive() {
    let place = Place::new();
    let odd = ["photo (1).png", "a \"b\", 'c'.txt", "100%.txt", "-rf.txt", "[x] {y}.txt", "a;b&c$d.txt"];
    let sources: Vec<PathBuf> = odd.iter().map(|name| place.source(name, *name)).collect();
    let uploads = place.stage(&sources).await.unwrap();
    assert_eq!(uploads.iter().map(|upload| upload.filename.as_str()).collect::<Vec<_>>(), odd);
    let mut sorted = odd.map(str::to_owned).to_vec();
    sorted.sort();
    assert_eq!(place.names(), sorted);
}

#[tokio::test]
async fn duplicates_are_numbered_in_one_request_and_reused_or_numbered_across_requests() {
    let place = Place::new();
    let sources = [place.source("1/a.txt", "same"), place.source("2/a.txt", "same"), place.source("3/a.txt", "other")];
    let uploads = place.stage(&sources).await.unwrap();
    assert_eq!(names(&uploads), [("a.txt", None), ("a_1.txt", None), ("a_2.txt", None)]);
    assert_eq!(uploads[1].original_filename.as_deref(), Some("a.txt"));
    // Again: the same bytes are found, new bytes do not replace them.
    let again = place.stage(&sources[..1]).await.unwrap();
    assert_eq!((again[0].filename.as_str(), again[0].original_filename.as_deref()), ("a.txt", None));
    let new = place.stage(&[place.source("4/a.txt", "new")]).await.unwrap();
    assert_eq!(new[0].filename, "a_3.txt");
    assert_eq!(fs::read_to_string(place.uploads().join("a.txt")).unwrap(), "same");
    assert_eq!(place.names(), ["a.txt", "a_1.txt", "a_2.txt", "a_3.txt"]);
}

#[tokio::test]
async fn a_link_at_an_upload_name_or_its_companion_is_not_written_through() {
    let place = Place::new();
    let outside = place.source("outside", "secret");
    symlink(&outside, place.uploads().join("plain.pdf")).unwrap();
    symlink(&outside, place.uploads().join("plain_1.md")).unwrap();
    symlink("dangling", place.uploads().join("plain_1_1.md")).unwrap();
    fs::hard_link(&outside, place.uploads().join("notes.txt")).unwrap();
    let uploads = place.stage(&[fixture_path("plain.pdf"), place.source("notes.txt", "secret")]).await.unwrap();
    assert_eq!(names(&uploads), [("plain_1.pdf", Some("plain_1_2.md")), ("notes_1.txt", None)]);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "secret");
    assert!(!place.uploads().join("dangling").exists());
}

#[tokio::test]
async fn an_uploads_folder_that_is_a_link_is_refused() {
    let place = Place::new();
    let link = place.root.path().join("link");
    symlink(place.uploads(), &link).unwrap();
    let error = stage_files(&[place.source("a.txt", "x")], &link, &options()).await.unwrap_err();
    assert!(matches!(error, UploadError::BadFolder { .. }), "{error:?}");
    assert_eq!(place.names(), Vec::<String>::new());
}

#[tokio::test]
async fn one_bad_file_means_nothing_is_copied_and_the_message_names_it() {
    let place = Place::new();
    let good = place.source("good.txt", "good");
    let fifo = place.root.path().join("src/pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let big = place.source("big.bin", vec![0; 100_001]);
    let half = place.source("half.bin", vec![1; 80_000]);
    let many = vec![good.clone(); 11];
    let missing = place.root.path().join("src/none.txt");
    let cases: [(Vec<PathBuf>, &str); 7] = [
        (vec![good.clone(), place.root.path().join("src")], "is a directory"),
        (vec![good.clone(), missing], "does not exist"),
        (vec![good.clone(), fifo], "is not a regular file"),
        (vec![good.clone(), big], "big.bin` is 97.7 KiB and the limit for one file is 97.7 KiB"),
        (vec![half.clone(), half], "156.2 KiB together and the limit is 146.5 KiB"),
        (many, "11 files were given and the limit is 10"),
        (vec![good, PathBuf::from("/")], "is a directory"),
    ];
    for (sources, message) in cases {
        let error = place.stage(&sources).await.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert_eq!(place.names(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn an_oversize_replacement_leaves_the_previous_file_and_no_part_file() {
    let place = Place::new();
    place.stage(&[place.source("1/r.txt", "good")]).await.unwrap();
    assert!(place.stage(&[place.source("2/r.txt", vec![b'x'; 100_001])]).await.is_err());
    assert_eq!(fs::read_to_string(place.uploads().join("r.txt")).unwrap(), "good");
    assert_eq!(place.names(), ["r.txt"]);
}

/// Found while copying, after earlier files were already in place: they go again.
#[tokio::test]
async fn a_file_that_grows_while_it_is_copied_undoes_the_request() {
    let place = Place::new();
    // A file of the kernel's says 0 bytes and yields more.
    let growing = PathBuf::from("/proc/self/status");
    let limits = UploadLimits { max_file_size: 16, ..UploadLimits::default() };
    let options = StageOptions { limits, ..StageOptions::default() };
    let error = stage_files(&[place.source("a.txt", "x"), growing], &place.uploads(), &options).await.unwrap_err();
    assert!(matches!(error, UploadError::FileTooLarge { size: 17, .. }), "{error:?}");
    assert_eq!(place.names(), Vec::<String>::new());
}

#[tokio::test]
async fn the_folder_is_made_and_files_belong_to_the_sandbox_user() {
    let place = Place::new();
    let folder = place.root.path().join("new/uploads");
    let root = rustix::process::geteuid().is_root();
    let owner =
        if root { (12_345, 12_346) } else { (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()) };
    let options = StageOptions { owner: Some(owner), ..options() };
    stage_files(&[fixture_path("plain.pdf")], &folder, &options).await.unwrap();
    assert_eq!(listing(&folder), ["plain.md", "plain.pdf"]);
    for name in listing(&folder) {
        let metadata = fs::metadata(folder.join(name)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), owner);
    }
}

fn incoming(name: &str, bytes: &[u8]) -> Incoming {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    Incoming { name: name.into(), file }
}

#[tokio::test]
async fn open_files_take_the_place_of_plain_files_and_of_nothing_else() {
    let place = Place::new();
    let outside = place.source("outside.txt", "outside");
    fs::write(place.uploads().join("a.txt"), "old").unwrap();
    symlink(&outside, place.uploads().join("link.txt")).unwrap();
    fs::hard_link(&outside, place.uploads().join("second.txt")).unwrap();
    fs::create_dir(place.uploads().join("folder")).unwrap();
    let files = vec![
        incoming("a.txt", b"new"),
        incoming("dir/a.txt", b"newer"),
        incoming("link.txt", b"x"),
        incoming("second.txt", b"x"),
        incoming("folder", b"x"),
        incoming("..", b"x"),
    ];
    let options = StageOptions { existing: Existing::Replace, ..options() };
    let staged = stage_open_files(files, &place.uploads(), &options).await.unwrap();
    assert_eq!(names(&staged.uploads), [("a.txt", None), ("a_1.txt", None)]);
    assert_eq!(staged.skipped, ["link.txt", "second.txt", "folder"]);
    assert_eq!(fs::read_to_string(place.uploads().join("a.txt")).unwrap(), "new");
    assert_eq!(fs::read_to_string(place.uploads().join("a_1.txt")).unwrap(), "newer");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "outside");
    assert_eq!(place.names(), ["a.txt", "a_1.txt", "folder", "link.txt", "second.txt"]);

    let over = vec![incoming("a.txt", b"again"), incoming("b.txt", &[b'x'; 100_001])];
    let error = stage_open_files(over, &place.uploads(), &options).await.unwrap_err();
    assert!(matches!(error, UploadError::FileTooLarge { .. }), "{error}");
    assert_eq!(fs::read_to_string(place.uploads().join("a.txt")).unwrap(), "new");
    assert_eq!(place.names().len(), 5);
}

#[test]
fn an_upload_is_removed_by_its_name_only() {
    let place = Place::new();
    let outside = place.source("outside.txt", "outside");
    symlink(&outside, place.uploads().join("link.txt")).unwrap();
    fs::create_dir(place.uploads().join("folder")).unwrap();
    for name in ["../src/outside.txt", "..", "", "none.txt", "folder", "a\\b"] {
        assert!(!remove_upload(&place.uploads(), name).unwrap(), "{name}");
    }
    assert!(remove_upload(&place.uploads(), "link.txt").unwrap());
    assert!(outside.exists() && place.names() == ["folder"]);
}
