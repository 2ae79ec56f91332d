//! Everything once more as an ordinary user, when this is root.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{LAUNCHER_VARIABLE, is_root};

const NOBODY: &str = "65533";

#[test]
fn every_test_also_holds_for_an_ordinary_user() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let copy = |from: &std::path::Path, name: &str| {
        let to = dir.path().join(name);
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(&to, PermissionsExt::from_mode(0o755)).unwrap();
        to
    };
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let tests = copy(&std::env::current_exe().unwrap(), "tests");
    let launcher = copy(env!("CARGO_BIN_EXE_deerflow-sandbox-launch").as_ref(), "launcher");
    let tmp = dir.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    std::fs::set_permissions(&tmp, PermissionsExt::from_mode(0o777)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"])
        .arg(&tests)
        .args(["--test-threads", "4"])
        .env(LAUNCHER_VARIABLE, &launcher)
        .env("TMPDIR", &tmp)
        .env("HOME", &tmp)
        // There all tests share one process, and with it the number of its open files.
        .env_remove("NEXTEST")
        .current_dir(&tmp)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains(" 0 failed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
