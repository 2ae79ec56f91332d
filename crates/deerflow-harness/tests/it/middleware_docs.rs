//! `docs/middleware.md` says what the code says: it is made from the order and the documentation of each middleware.
//!
//! `UPDATE_DOCS=1 cargo test -p deerflow-harness --test it` writes it anew.

use deerflow_harness::ORDER;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const HEAD: &str = "\
# The middlewares

This page is made from the code: the order in `crates/deerflow-harness/src/order.rs` and the documentation of each middleware.
`deerflow agent chain` prints the chain that your configuration gives; `deerflow agent chain --json` for programs.

`before_*` and `wrap_*` hooks run from the first row to the last (the first wraps outermost), `after_*` hooks from the last to
the first.
";

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.to_string_lossy().contains("test") {
            found.push(path);
        }
    }
}

/// The module documentation of the file that holds the middleware, and the configuration section it reads.
fn described(name: &str, files: &[(PathBuf, String)]) -> (String, Option<String>) {
    // `Name[place]`: one of several places of a type.
    let name = name.split('[').next().unwrap_or(name);
    // A class name may be the type's with the product in front.
    let implements =
        [name, name.trim_start_matches("DeerFlow")].map(|n| format!("impl middleware for {} {{", n.to_lowercase()));
    let (_, text) = files
        .iter()
        .find(|(_, text)| {
            text.to_lowercase().lines().any(|line| implements.iter().any(|i| line.trim_start().starts_with(i)))
        })
        .unwrap_or_else(|| panic!("no file implements {name}"));
    let doc: Vec<&str> =
        text.lines().map_while(|line| line.strip_prefix("//!")).map(|l| l.strip_prefix(' ').unwrap_or(l)).collect();
    let key = text.split("const KEY: &'static str = \"").nth(1).and_then(|rest| rest.split('"').next());
    // Links to items mean nothing outside of the code's own documentation.
    let doc = doc.join("\n").replace("[`", "`").replace("`]", "`");
    (doc, key.map(str::to_owned))
}

fn page() -> String {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    files.sort();
    let files: Vec<_> = files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect();
    let mut page = HEAD.to_owned();
    for (at, row) in ORDER.iter().enumerate() {
        let (doc, key) = described(row.slot.name(), &files);
        let _ = write!(
            page,
            "\n## {}. {}\n\n{doc}\n\n- **There:** {}\n- **Place:** {}\n",
            at + 1,
            row.slot.name(),
            row.when,
            row.why
        );
        if let Some(key) = key {
            let _ = writeln!(page, "- **Configuration:** section `{key}` of [`config.yaml`](configuration.md)");
        }
    }
    page
}

#[test]
fn the_page_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/middleware.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/middleware.md is out of date; write it anew with UPDATE_DOCS=1");
}
