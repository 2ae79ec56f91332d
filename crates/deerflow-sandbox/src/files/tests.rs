use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;
use crate::sandbox::Replacement;
use crate::text::{LineEnding, TextEncoding};

struct Rig {
    dir: tempfile::TempDir,
    files: ThreadFiles,
    paths: ThreadPaths,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("base");
        let paths = ThreadPaths::new(&base, "u", "t").unwrap();
        paths.ensure().unwrap();
        let config = SandboxConfig { min_free_mb: 1, ..SandboxConfig::default() };
        Self { files: ThreadFiles::new(&paths, &config, None), paths, dir }
    }

    /// Host path of a name in the workspace.
    fn host(&self, name: &str) -> PathBuf {
        self.paths.workspace().join(name)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.host(name).parent().unwrap()).unwrap();
        std::fs::write(self.host(name), bytes).unwrap();
    }

    fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.host(name)).unwrap()
    }

    fn outside(&self) -> PathBuf {
        let path = self.dir.path().join("secret");
        std::fs::write(&path, "secret").unwrap();
        path
    }

    fn replace(&self, name: &str, edit: &Replacement) -> Result<EditOutcome, SandboxError> {
        self.files.replace_text(&path(name), edit)
    }
}

fn path(name: &str) -> VirtualPath {
    VirtualPath::parse(name).unwrap()
}

#[test]
fn a_write_makes_parents_keeps_the_mode_and_leaves_no_temporary_file() {
    let rig = Rig::new();
    let outcome = rig.files.write_bytes(&path("a/b/c.sh"), b"one", &Expect::Absent).unwrap();
    assert_eq!((outcome.size, outcome.created), (3, true));
    std::fs::set_permissions(rig.host("a/b/c.sh"), std::fs::Permissions::from_mode(0o750)).unwrap();
    let outcome = rig.files.write_bytes(&path("a/b/c.sh"), b"two!", &Expect::Any).unwrap();
    assert!(!outcome.created);
    assert_eq!(rig.get("a/b/c.sh"), b"two!");
    assert_eq!(rig.files.stat(&path("a/b/c.sh")).unwrap().mode, 0o750);
    assert_eq!(std::fs::read_dir(rig.host("a/b")).unwrap().count(), 1);
    assert_eq!(rig.files.sha256(&path("a/b/c.sh")).unwrap(), outcome.sha256);
}

#[test]
fn br_103_a_link_to_outside_is_neither_read_nor_written() {
    let rig = Rig::new();
    let outside = rig.outside();
    symlink(&outside, rig.host("notes.txt")).unwrap();
    symlink(rig.dir.path(), rig.host("dir")).unwrap();
    symlink("../../../../../../../../etc", rig.host("up")).unwrap();
    for name in ["notes.txt", "dir/secret", "up/passwd"] {
        let error = rig.files.read_bytes(&path(name), 100).unwrap_err();
        assert!(matches!(error, SandboxError::OutsideRoot { .. }), "{name}: {error:?}");
        let error = rig.files.write_bytes(&path(name), b"x", &Expect::Any).unwrap_err();
        assert!(matches!(error, SandboxError::OutsideRoot { .. }), "{name}: {error:?}");
        assert!(!error.to_string().contains(rig.dir.path().to_str().unwrap()), "{error}");
        assert!(rig.files.append(&path(name), "x").is_err());
        assert!(rig.replace(name, &Replacement::one("secret", "x")).is_err());
    }
    assert!(rig.files.write_bytes(&path("dir/new"), b"x", &Expect::Any).is_err());
    assert!(!rig.dir.path().join("new").exists());
    assert_eq!(std::fs::read(outside).unwrap(), b"secret");
    let listed = rig.files.list_dir(&path("."), 2).unwrap();
    assert_eq!(listed.entries, []);
    assert!(rig.files.glob(&path("."), "**/*", true, 0).unwrap().paths.is_empty());
    let query = GrepQuery { pattern: "secret".into(), ..GrepQuery::default() };
    assert_eq!(rig.files.grep(&path("."), &query).unwrap().matches, []);
    assert!(rig.files.list_dir(&path("dir"), 1).is_err());
}

#[test]
fn links_inside_the_virtual_tree_work_as_the_agent_sees_them() {
    let rig = Rig::new();
    std::fs::write(rig.paths.outputs().join("report.md"), "done").unwrap();
    symlink("/mnt/user-data/outputs/report.md", rig.host("absolute")).unwrap();
    symlink("../outputs/report.md", rig.host("relative")).unwrap();
    symlink("/mnt/user-data/outputs", rig.host("out")).unwrap();
    symlink("../../acp-workspace", rig.host("acp")).unwrap();
    std::fs::write(rig.paths.acp_workspace().join("f"), "acp").unwrap();
    for name in ["absolute", "relative", "out/report.md"] {
        assert_eq!(rig.files.read_bytes(&path(name), 100).unwrap(), b"done", "{name}");
    }
    assert_eq!(rig.files.read_bytes(&path("acp/f"), 100).unwrap(), b"acp");
    // Writing through a link changes its target; the link stays; a read-only place stays read-only.
    rig.files.write_bytes(&path("absolute"), b"new", &Expect::Any).unwrap();
    assert_eq!(std::fs::read(rig.paths.outputs().join("report.md")).unwrap(), b"new");
    assert!(std::fs::symlink_metadata(rig.host("absolute")).unwrap().is_symlink());
    let error = rig.files.write_bytes(&path("acp/f"), b"x", &Expect::Any).unwrap_err();
    assert!(matches!(error, SandboxError::ReadOnly { .. }), "{error:?}");
}

#[test]
fn br_141_link_loops_and_vanished_files_do_not_abort_a_search() {
    let rig = Rig::new();
    symlink("loop", rig.host("loop")).unwrap();
    symlink(".", rig.host("self")).unwrap();
    symlink("gone", rig.host("dangling")).unwrap();
    rig.put("a.txt", "needle");
    assert!(matches!(rig.files.read_bytes(&path("loop"), 10), Err(SandboxError::LinkLoop { .. })));
    assert_eq!(rig.files.glob(&path("."), "*.txt", false, 0).unwrap().paths, ["/mnt/user-data/workspace/a.txt"]);
    let query = GrepQuery { pattern: "needle".into(), ..GrepQuery::default() };
    assert_eq!(rig.files.grep(&path("."), &query).unwrap().matches.len(), 1);
}

#[test]
fn a_fifo_does_not_hang_a_read_or_a_write() {
    let rig = Rig::new();
    nix::unistd::mkfifo(&rig.host("pipe"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    assert!(matches!(rig.files.read_bytes(&path("pipe"), 10), Err(SandboxError::NotRegular { kind: "fifo", .. })));
    assert!(matches!(rig.files.append(&path("pipe"), "x"), Err(SandboxError::NotRegular { .. })));
    assert!(matches!(rig.files.write_bytes(&path("pipe"), b"x", &Expect::Any), Err(SandboxError::NotRegular { .. })));
    let query = GrepQuery { pattern: "x".into(), ..GrepQuery::default() };
    assert_eq!(rig.files.grep(&path("."), &query).unwrap().matches, []);
}

#[test]
fn tools_may_not_write_beside_the_three_directories_or_to_skills() {
    let rig = Rig::new();
    for name in ["/mnt/skills/public/x", "/mnt/acp-workspace/x", "/mnt/skills"] {
        let error = rig.files.write_bytes(&path(name), b"x", &Expect::Any).unwrap_err();
        assert!(matches!(error, SandboxError::ReadOnly { .. } | SandboxError::IsDirectory { .. }), "{name}: {error:?}");
    }
    for name in ["/mnt/user-data", "/mnt/user-data/workspace", "."] {
        let error = rig.files.write_bytes(&path(name), b"x", &Expect::Any).unwrap_err();
        assert!(matches!(error, SandboxError::IsDirectory { .. }), "{name}: {error:?}");
    }
    // Out of the three by a link that stays in user-data.
    symlink("/mnt/user-data/other", rig.host("other")).unwrap();
    assert!(rig.files.write_bytes(&path("other"), b"x", &Expect::Any).is_err());
}

#[test]
fn br_137_a_file_changed_since_it_was_read_is_not_overwritten() {
    let rig = Rig::new();
    rig.put("a", "one");
    let read = rig.files.read_text(&path("a")).unwrap();
    rig.put("a", "two");
    let expect = Expect::Sha256(read.sha256);
    let error = rig.files.write_bytes(&path("a"), b"three", &expect).unwrap_err();
    assert!(matches!(error, SandboxError::Changed { .. }), "{error:?}");
    let edit = Replacement { expect, ..Replacement::one("two", "x") };
    assert!(matches!(rig.replace("a", &edit), Err(SandboxError::Changed { .. })));
    assert!(matches!(rig.files.write_bytes(&path("a"), b"x", &Expect::Absent), Err(SandboxError::Changed { .. })));
    assert_eq!(rig.get("a"), b"two");
}

#[test]
fn reading_tells_encoding_line_ends_and_binaries() {
    let rig = Rig::new();
    rig.put("crlf", "\u{feff}a\r\nb\r\n");
    let read = rig.files.read_text(&path("crlf")).unwrap();
    assert_eq!(
        (read.text.as_str(), read.bom, read.line_ending, read.final_newline),
        ("a\r\nb\r\n", true, LineEnding::CrLf, true)
    );
    assert_eq!(read.encoding, TextEncoding::Utf8);
    rig.put("pic", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let error = rig.files.read_text(&path("pic")).unwrap_err();
    assert!(matches!(&error, SandboxError::Binary { kind, .. } if kind == "image/png"), "{error:?}");
    assert!(matches!(rig.files.read_text(&path("none")), Err(SandboxError::NotFound { .. })));
    assert!(matches!(rig.files.read_text(&path(".")), Err(SandboxError::IsDirectory { .. })));
    assert!(matches!(rig.files.read_bytes(&path("crlf"), 3), Err(SandboxError::TooLarge { .. })));
}

#[test]
fn br_130_an_empty_old_text_changes_nothing() {
    let rig = Rig::new();
    rig.put("a", "abc");
    assert!(matches!(rig.replace("a", &Replacement::one("", "x")), Err(SandboxError::InvalidEdit { .. })));
    assert_eq!(rig.get("a"), b"abc");
}

#[test]
fn br_131_replacing_in_an_empty_file_is_not_found() {
    let rig = Rig::new();
    rig.put("a", "");
    assert!(matches!(rig.replace("a", &Replacement::one("x", "y")), Err(SandboxError::NoMatch { .. })));
}

#[test]
fn br_132_a_multi_line_match_works_on_crlf_and_the_line_ends_stay() {
    let rig = Rig::new();
    rig.put("a", "a\r\n\tb\r\nc");
    let outcome = rig.replace("a", &Replacement::one("a\n\tb", "x\ny\nz")).unwrap();
    assert_eq!(rig.get("a"), b"x\r\ny\r\nz\r\nc");
    assert_eq!((outcome.replacements, outcome.added, outcome.removed), (1, 3, 2));
    rig.put("m", "a\r\nb\nc\r\nd\n");
    rig.replace("m", &Replacement::one("b\nc", "B\nC")).unwrap();
    assert_eq!(rig.get("m"), b"a\r\nB\nC\r\nd\n");
    rig.put("e", "x\r\n\r\ny\r\n");
    rig.replace("e", &Replacement::one("\n\ny\n", "\ny\n")).unwrap();
    assert_eq!(rig.get("e"), b"x\r\ny\r\n");
}

#[test]
fn an_edit_keeps_encoding_mark_mode_and_the_missing_final_newline() {
    let rig = Rig::new();
    let utf16: Vec<u8> =
        [0xFF, 0xFE].into_iter().chain("héllo\r\nwörld".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    rig.put("u16", &utf16);
    rig.replace("u16", &Replacement::one("wörld", "界")).unwrap();
    let after = rig.files.read_text(&path("u16")).unwrap();
    assert_eq!((after.text.as_str(), after.encoding, after.bom), ("héllo\r\n界", TextEncoding::Utf16Le, true));
    rig.put("latin", b"caf\xe9 cr\xe8me br\xfbl\xe9e d\xe9j\xe0 vu\n");
    std::fs::set_permissions(rig.host("latin"), std::fs::Permissions::from_mode(0o755)).unwrap();
    rig.replace("latin", &Replacement::one("crème", "thé")).unwrap();
    assert_eq!(rig.get("latin"), b"caf\xe9 th\xe9 br\xfbl\xe9e d\xe9j\xe0 vu\n");
    assert_eq!(rig.files.stat(&path("latin")).unwrap().mode, 0o755);
    let error = rig.replace("latin", &Replacement::one("thé", "界")).unwrap_err();
    assert!(matches!(error, SandboxError::Encoding { .. }), "{error:?}");
}

#[test]
fn several_matches_need_replace_all_and_are_listed() {
    let rig = Rig::new();
    rig.put("a", "x = 1\ny = 2\nx = 1\n");
    let error = rig.replace("a", &Replacement::one("x = 1", "x = 3")).unwrap_err();
    let SandboxError::AmbiguousMatch { count, matches, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*count, matches.clone()), (2, vec![(1, "x = 1".to_owned()), (3, "x = 1".to_owned())]));
    assert!(error.to_string().contains("line 3"), "{error}");
    let dry = rig.replace("a", &Replacement { dry_run: true, ..Replacement::all("x = 1", "x = 3") }).unwrap();
    assert_eq!(rig.get("a"), b"x = 1\ny = 2\nx = 1\n");
    let done = rig.replace("a", &Replacement::all("x = 1", "x = 3")).unwrap();
    assert_eq!((done.replacements, &done.sha256_after), (2, &dry.sha256_after));
    assert!(done.diff.contains("-x = 1") && done.diff.contains("+x = 3"), "{}", done.diff);
    assert_eq!(rig.files.sha256(&path("a")).unwrap(), done.sha256_after);
}

#[test]
fn append_follows_the_byte_order_mark() {
    let rig = Rig::new();
    rig.put("u16", [0xFE, 0xFF, 0, b'a']);
    rig.files.append(&path("u16"), "b").unwrap();
    assert_eq!(rig.get("u16"), [0xFE, 0xFF, 0, b'a', 0, b'b']);
    let outcome = rig.files.append(&path("new/file"), "x").unwrap();
    assert!(outcome.created);
    let outcome = rig.files.append(&path("new/file"), "y").unwrap();
    assert_eq!((outcome.size, rig.get("new/file")), (2, b"xy".to_vec()));
    assert_eq!(outcome.sha256, rig.files.sha256(&path("new/file")).unwrap());
}

#[test]
fn br_140_globs_mean_the_same_everywhere() {
    let rig = Rig::new();
    for name in ["a.py", "src/b.py", "src/x/c.py", "src/x/y/d.py", "src/x/e.txt", "node_modules/m.py", "lib/src/f.py"] {
        rig.put(name, "x");
    }
    let glob = |pattern: &str| -> Vec<String> {
        let found = rig.files.glob(&path("."), pattern, false, 0).unwrap().paths;
        found.into_iter().map(|path| path.strip_prefix("/mnt/user-data/workspace/").unwrap().to_owned()).collect()
    };
    let all = ["a.py", "lib/src/f.py", "src/b.py", "src/x/c.py", "src/x/y/d.py"];
    assert_eq!(glob("*.py"), all);
    assert_eq!(glob("**/*.py"), all);
    assert_eq!(glob("src/**/*.py"), ["src/b.py", "src/x/c.py", "src/x/y/d.py"]);
    assert_eq!(glob("/src/*.py"), ["src/b.py"]);
    assert_eq!(glob("./src/*.{py,txt}"), ["src/b.py"]);
    assert_eq!(glob("/mnt/user-data/workspace/src/*.py"), ["src/b.py"]);
    let dirs = rig.files.glob(&path("src"), "*", true, 0).unwrap().paths;
    assert!(dirs.contains(&"/mnt/user-data/workspace/src/x/y".to_owned()), "{dirs:?}");
    assert!(matches!(rig.files.glob(&path("."), "[", false, 0), Err(SandboxError::InvalidPattern { .. })));
    assert!(matches!(rig.files.glob(&path("a.py"), "*", false, 0), Err(SandboxError::NotDirectory { .. })));
    assert!(rig.files.glob(&path("."), "../*", false, 0).is_err());
}

#[test]
fn truncated_is_true_only_when_more_exists() {
    let rig = Rig::new();
    for number in 0..3 {
        rig.put(&format!("f{number}.txt"), "hit\n");
    }
    for (max, truncated) in [(2, true), (3, false), (4, false)] {
        let found = rig.files.glob(&path("."), "*.txt", false, max).unwrap();
        assert_eq!((found.paths.len(), found.truncated), (max.min(3), truncated), "{max}");
        let query = GrepQuery { pattern: "hit".into(), max_results: max, ..GrepQuery::default() };
        let found = rig.files.grep(&path("."), &query).unwrap();
        assert_eq!((found.matches.len(), found.truncated), (max.min(3), truncated), "{max}");
    }
}

#[test]
fn br_140_grep_on_one_file_and_br_116_in_every_encoding() {
    let rig = Rig::new();
    rig.put("a.txt", "one\nTwo needle\r\nthree\n");
    rig.put("bom.txt", "\u{feff}needle at the start\n");
    let utf16: Vec<u8> =
        [0xFF, 0xFE].into_iter().chain("x\nneedle\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    rig.put("u16.txt", utf16);
    rig.put("bin", b"\x7fELF\0\0needle");
    let grep = |at: &str, pattern: &str| {
        let query = GrepQuery { pattern: pattern.into(), ..GrepQuery::default() };
        rig.files.grep(&path(at), &query).unwrap().matches
    };
    let found: Vec<_> = grep(".", "^NEEDLE|two").into_iter().map(|hit| (hit.path, hit.line_number, hit.line)).collect();
    let at = |name: &str| format!("/mnt/user-data/workspace/{name}");
    assert_eq!(
        found,
        [
            (at("a.txt"), 2, "Two needle".to_owned()),
            (at("bom.txt"), 1, "needle at the start".to_owned()),
            (at("u16.txt"), 2, "needle".to_owned()),
        ]
    );
    assert_eq!(grep("a.txt", "needle").len(), 1);
    assert_eq!(grep("a.txt", "needle$").len(), 1);
    let query = GrepQuery { pattern: "a.t(".into(), literal: true, ..GrepQuery::default() };
    assert_eq!(rig.files.grep(&path("."), &query).unwrap().matches, []);
    let query = GrepQuery { literal: false, ..query };
    assert!(matches!(rig.files.grep(&path("."), &query), Err(SandboxError::InvalidPattern { .. })));
    let query = GrepQuery {
        pattern: "needle".into(),
        glob: Some("u*.txt".into()),
        case_sensitive: true,
        ..GrepQuery::default()
    };
    assert_eq!(rig.files.grep(&path("."), &query).unwrap().matches.len(), 1);
    rig.put("long", format!("{}needle{}", "界".repeat(3000), "é".repeat(3000)));
    let line = &grep("long", "needle")[0].line;
    assert!(line.contains("needle") && line.chars().count() <= 206, "{line}");
}

#[test]
fn listing_is_sorted_two_levels_and_leaves_out_ignored_names() {
    let rig = Rig::new();
    for name in ["b.txt", "a/x.txt", "a/deep/y.txt", ".git/config", "a/run.log"] {
        rig.put(name, "12");
    }
    symlink("a", rig.host("link")).unwrap();
    let listing = rig.files.list_dir(&path("."), 2).unwrap();
    let shown: Vec<_> = listing
        .entries
        .iter()
        .map(|entry| {
            format!(
                "{}{}",
                entry.path.strip_prefix("/mnt/user-data/workspace/").unwrap(),
                if entry.is_dir { "/" } else { "" }
            )
        })
        .collect();
    assert_eq!(shown, ["a/", "a/deep/", "a/x.txt", "b.txt", "link/"]);
    assert!(matches!(rig.files.list_dir(&path("b.txt"), 2), Err(SandboxError::NotDirectory { .. })));
    let top = rig.files.list_dir(&path("/mnt/user-data"), 1).unwrap();
    let names: Vec<_> = top.entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["/mnt/user-data/outputs", "/mnt/user-data/uploads", "/mnt/user-data/workspace"]);
}

#[test]
fn skills_are_listed_and_read_through_their_virtual_parent() {
    let rig = Rig::new();
    let skill = rig.paths.base().join("skills_view/public/pdf");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "how to").unwrap();
    let listing = rig.files.list_dir(&path("/mnt/skills"), 3).unwrap();
    let names: Vec<_> = listing.entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["/mnt/skills/public", "/mnt/skills/public/pdf", "/mnt/skills/public/pdf/SKILL.md"]);
    let found = rig.files.glob(&path("/mnt/skills"), "**/SKILL.md", false, 0).unwrap();
    assert_eq!(found.paths, ["/mnt/skills/public/pdf/SKILL.md"]);
    assert_eq!(rig.files.read_text(&path("/mnt/skills/public/pdf/SKILL.md")).unwrap().text, "how to");
    assert_eq!(rig.files.stat(&path("/mnt/skills")).unwrap().kind, FileKind::Directory);
}

#[test]
fn uploads_are_streamed_and_limited() {
    let rig = Rig::new();
    let target = path("/mnt/user-data/uploads/big");
    let error = rig.files.write_stream(&target, &mut [7u8; 100].as_slice(), 99).unwrap_err();
    assert!(matches!(error, SandboxError::TooLarge { .. }), "{error:?}");
    assert!(matches!(rig.files.stat(&target), Err(SandboxError::NotFound { .. })));
    assert_eq!(rig.files.write_stream(&target, &mut [7u8; 100].as_slice(), 100).unwrap(), 100);
    assert_eq!(rig.files.stat(&target).unwrap().size, 100);
}

#[test]
fn the_reserve_of_free_space_is_kept() {
    let rig = Rig::new();
    let config = SandboxConfig { min_free_mb: u64::MAX >> 21, ..SandboxConfig::default() };
    let files = ThreadFiles::new(&rig.paths, &config, None);
    let error = files.write_bytes(&path("a"), b"x", &Expect::Any).unwrap_err();
    assert!(matches!(error, SandboxError::DiskFull { .. }), "{error:?}");
}

#[test]
fn a_link_swapped_in_while_writing_never_leads_out() {
    let rig = Rig::new();
    let outside = rig.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let (dir, spare) = (rig.host("d"), rig.host("spare"));
    std::fs::create_dir(&dir).unwrap();
    symlink(&outside, &spare).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // One system call swaps the directory and the link.
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &dir, rustix::fs::CWD, &spare, flags).unwrap();
            }
        });
        for number in 0..3000 {
            let _ = rig.files.write_bytes(&path(&format!("d/f{}", number % 7)), b"x", &Expect::Any);
            let _ = rig.files.append(&path("d/g"), "x");
            let _ = rig.files.list_dir(&path("d"), 2);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}
