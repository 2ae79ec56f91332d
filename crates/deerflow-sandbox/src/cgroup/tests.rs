//! The logic over a directory that looks like a cgroup, and the real thing where this machine has one.

use std::process::{Command, Stdio};

use super::*;

/// A directory with the files that the kernel would show.
fn fake(controllers: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("cgroup.controllers"), controllers).unwrap();
    fs::write(dir.path().join("cgroup.subtree_control"), "").unwrap();
    dir
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn without_the_memory_controller_there_are_none_and_it_is_said_why() {
    let reason = Cgroups::beneath(fake("cpu pids").path(), &CONTROLLERS).unwrap_err();
    assert!(reason.contains("memory controller is not available"), "{reason}");
    let empty = tempfile::tempdir().unwrap();
    assert!(Cgroups::beneath(empty.path(), &CONTROLLERS).is_err());
    for (kind, words) in [(ErrorKind::ReadOnlyFilesystem, "read-only"), (ErrorKind::PermissionDenied, "not delegated")]
    {
        assert!(refused(&kind.into()).contains(words));
    }
}

#[test]
fn each_sandbox_gets_its_limits() {
    let base = fake("cpu memory pids");
    let cgroups = Arc::new(Cgroups::beneath(base.path(), &CONTROLLERS).unwrap());
    assert_eq!(text(base.path().join("cgroup.subtree_control")), "+memory +pids");
    assert_eq!(text(cgroups.dir.join("cgroup.subtree_control")), "+memory +pids");
    let cell = cgroups.make(5 << 20, 40).unwrap();
    let value = |name: &str| text(cell.path.join(name));
    assert_eq!(
        (value("memory.max"), value("memory.swap.max"), value("memory.oom.group"), value("pids.max")),
        ("5242880".to_owned(), "0".to_owned(), "1".to_owned(), "41".to_owned())
    );
    assert!(!cell.ran_out_of_memory());
    let open = cgroups.make(0, 0).unwrap();
    assert_ne!(open.path, cell.path);
    assert_eq!((text(open.path.join("memory.max")), text(open.path.join("pids.max"))), ("max".into(), "max".into()));
    assert!(!open.path.join("memory.swap.max").exists());
}

#[test]
fn a_server_that_moved_itself_works_beside_its_place() {
    let base = fake("memory pids");
    fs::create_dir(base.path().join(SERVER)).unwrap();
    let cgroups = Cgroups::beneath(&base.path().join(SERVER), &CONTROLLERS).unwrap();
    assert_eq!(cgroups.dir.parent(), Some(base.path()));
}

#[test]
fn only_what_dead_servers_of_ours_left_is_removed() {
    let base = fake("memory pids");
    let own = owner(std::process::id()).unwrap();
    let (pid, start) = own.split_once('.').unwrap();
    let kept = [format!("{PREFIX}{own}"), "other.scope".to_owned(), format!("{PREFIX}x"), SERVER.to_owned()];
    // No process has the number 0; and this one has not started then.
    let removed = [format!("{PREFIX}0.1"), format!("{PREFIX}{pid}.{start}1")];
    for name in kept.iter().chain(&removed) {
        fs::create_dir_all(base.path().join(name).join("7")).unwrap();
    }
    remove_leftovers(base.path());
    for name in &kept {
        assert!(base.path().join(name).join("7").exists(), "{name}");
    }
    for name in &removed {
        assert!(!base.path().join(name).exists(), "{name}");
    }
}

#[test]
fn an_end_for_want_of_memory_is_recognised() {
    assert!(!out_of_memory("low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\noom_group_kill 0\n"));
    assert!(out_of_memory("low 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n"));
    assert!(!out_of_memory(""));
}

/// A cgroup of this machine to work in, and the controllers it has of those wanted.
fn real() -> Option<(PathBuf, Vec<&'static str>)> {
    let skip = |why: &str| {
        eprintln!("SKIPPED: no cgroup to work in: {why}");
        None
    };
    let own = match place::own() {
        Ok(own) => own,
        Err(why) => return skip(&why),
    };
    let available = fs::read_to_string(own.join("cgroup.controllers")).unwrap_or_default();
    let controllers = CONTROLLERS.into_iter().filter(|name| lists(&available, name)).collect();
    let base = own.join(format!("deerflow-test-{}", std::process::id()));
    match fs::create_dir(&base) {
        Ok(()) => Some((base, controllers)),
        Err(error) => skip(&refused(&error)),
    }
}

#[test]
fn what_is_in_a_sandboxs_cgroup_dies_with_it_and_nothing_is_left() {
    let Some((base, controllers)) = real() else { return };
    if controllers.is_empty() {
        eprintln!("the memory and pids controllers are with cgroup version 1 here: limits are not tried");
    }
    let cgroups = match Cgroups::beneath(&base, &controllers) {
        Ok(cgroups) => Arc::new(cgroups),
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            remove(&base);
            return;
        }
    };
    let path = cgroups.dir.join("0");
    fs::create_dir(&path).unwrap();
    let cell = Cell { cgroups: Arc::clone(&cgroups), path };
    let mut entry = File::from(cell.entry().unwrap());
    let mut child = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut entry, child.id().to_string().as_bytes()).unwrap();
    assert_eq!(text(cell.path.join("cgroup.procs")).trim(), child.id().to_string());
    let dir = cgroups.dir.clone();
    drop(cell);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    drop(cgroups);
    assert!(!dir.exists());
    // A dead server's, with a process in it.
    let left = base.join(format!("{PREFIX}0.1"));
    fs::create_dir_all(left.join("3")).unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    fs::write(left.join("3/cgroup.procs"), child.id().to_string()).unwrap();
    // Its number stays with the cgroup until it is collected.
    let waiting = std::thread::spawn(move || child.wait().unwrap().signal());
    remove_leftovers(&base);
    assert_eq!(waiting.join().unwrap(), Some(libc::SIGKILL));
    assert!(!left.exists());
    remove(&base);
}
