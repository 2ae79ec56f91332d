use proptest::prelude::*;

use super::*;

#[test]
fn roots_and_relative_paths_parse() {
    for (input, text, root) in [
        ("/mnt/user-data/workspace", "/mnt/user-data/workspace", VirtualRoot::Workspace),
        ("a/b.txt", "/mnt/user-data/workspace/a/b.txt", VirtualRoot::Workspace),
        (".", "/mnt/user-data/workspace", VirtualRoot::Workspace),
        ("/mnt//user-data/./outputs/x/", "/mnt/user-data/outputs/x", VirtualRoot::Outputs),
        ("/mnt/user-data/", "/mnt/user-data", VirtualRoot::UserData),
        ("/mnt/skills/public/a/SKILL.md", "/mnt/skills/public/a/SKILL.md", VirtualRoot::Skills),
        ("/mnt/acp-workspace/x", "/mnt/acp-workspace/x", VirtualRoot::AcpWorkspace),
        ("..hidden/...", "/mnt/user-data/workspace/..hidden/...", VirtualRoot::Workspace),
    ] {
        let path = VirtualPath::parse(input).unwrap();
        assert_eq!((path.as_str(), path.root()), (text, root), "{input}");
    }
}

#[test]
fn br_101_a_sibling_whose_name_starts_with_the_root_is_outside() {
    for input in [
        "/mnt/user-data-backup/x",
        "/mnt/user-data/workspace-backup/x",
        "/mnt/user-data/other",
        "/mnt/skills-extra/x",
        "/mnt/acp-workspaces",
        "/mnt",
        "/",
        "/etc/passwd",
        "/tmp/x",
    ] {
        assert!(VirtualPath::parse(input).is_err(), "{input}");
    }
    let root = VirtualPath::parse("a").unwrap();
    assert!(!VirtualPath::parse("ab").unwrap().is_within(&root));
    assert!(VirtualPath::parse("a/b").unwrap().is_within(&root));
    assert!(root.is_within(&root));
}

#[test]
fn tricks_are_refused() {
    for input in [
        "",
        "../x",
        "a/../../b",
        "/mnt/user-data/workspace/..",
        "a\\..\\b",
        "a\0b",
        "/mnt/user-data/workspace/../../../etc",
    ] {
        assert!(VirtualPath::parse(input).is_err(), "{input:?}");
    }
    assert!(VirtualPath::parse(&"a/".repeat(3000)).is_err());
    assert!(VirtualPath::parse(&"a".repeat(256)).is_err());
}

#[test]
fn custom_roots_extend_the_tree() {
    let roots = ["/mnt/data".to_owned()];
    assert_eq!(VirtualPath::parse_with("/mnt/data/x", &roots).unwrap().root(), VirtualRoot::Custom);
    assert!(VirtualPath::parse_with("/mnt/data2/x", &roots).is_err());
    assert!(VirtualPath::parse("/mnt/data/x").is_err());
}

#[test]
fn join_stays_beneath() {
    let base = VirtualPath::parse("/mnt/user-data/outputs").unwrap();
    assert_eq!(base.join("a/b").unwrap().as_str(), "/mnt/user-data/outputs/a/b");
    assert!(base.join("/etc").is_err());
    assert!(base.join("../uploads").is_err());
}

proptest! {
    #[test]
    fn parsing_never_panics_and_what_parses_is_clean(input in "[a-z./\\\\\u{0}界-]{0,40}") {
        for text in [input.clone(), format!("/mnt/user-data/workspace/{input}")] {
            if let Ok(path) = VirtualPath::parse(&text) {
                prop_assert!(path.as_str().starts_with("/mnt/"));
                prop_assert!(path.as_str().split('/').skip(1).all(|name| !name.is_empty() && name != "." && name != ".."));
                prop_assert_eq!(VirtualPath::parse(path.as_str()).unwrap(), path);
            }
        }
    }
}
