//! Where this process is in the unified hierarchy.

use std::path::{Path, PathBuf};

/// The directory of this process's cgroup.
///
/// # Errors
/// Why there is none, for the operator.
pub(super) fn own() -> Result<PathBuf, String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"));
    locate(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
}

fn locate(mounts: &str, own: &str) -> Result<PathBuf, String> {
    let mounted = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let fields: Vec<&str> = mount.split(' ').collect();
        (kind.split(' ').next() == Some("cgroup2")).then_some((*fields.get(3)?, *fields.get(4)?))
    });
    let (root, point) = mounted.ok_or("cgroup version 2 is not mounted")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).ok_or("cgroup version 2 is not in use")?;
    // What is mounted may be a part of the hierarchy only.
    let inside = if root == "/" { Some(path) } else { path.strip_prefix(root) };
    match inside.filter(|inside| inside.is_empty() || inside.starts_with('/')) {
        Some(inside) if !inside.split('/').any(|part| part == "..") => {
            Ok(Path::new(point).join(inside.trim_start_matches('/')))
        }
        _ => Err("the server's cgroup is outside of what is mounted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "24 1 0:22 / / rw - ext4 /dev/sda rw\n30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_place_is_found_in_a_service_a_hybrid_machine_and_a_container() {
        let service = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/deerflow.service\n";
        assert_eq!(
            locate(UNIFIED, service).unwrap(),
            Path::new("/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/deerflow.service")
        );
        assert_eq!(locate(UNIFIED, "0::/\n").unwrap(), Path::new("/sys/fs/cgroup"));
        let hybrid = "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(locate(hybrid, "4:memory:/a\n0::/b\n").unwrap(), Path::new("/sys/fs/cgroup/unified/b"));
        let part = "30 24 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(locate(part, "0::/docker/1/x\n").unwrap(), Path::new("/sys/fs/cgroup/x"));
        assert!(locate(part, "0::/docker/12\n").is_err());
        assert!(locate(UNIFIED, "0::/../other\n").unwrap_err().contains("outside"));
        assert!(locate("24 1 0:22 / / rw - ext4 /dev/sda rw\n", "4:memory:/\n").unwrap_err().contains("not mounted"));
    }
}
