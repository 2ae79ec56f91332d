//! What the kernel tells about processes and the machine.

use anyhow::{Context, Result};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Memory of a process and everything it started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeMemory {
    /// Proportional set size of all of them, KiB.
    pub(crate) pss_kib: u64,
    pub(crate) processes: usize,
}

/// The memory of a process tree now.
///
/// # Errors
/// When one of its processes cannot be looked at, so that the sum would be too small.
pub(crate) fn tree_memory(root: u32) -> Result<TreeMemory> {
    let mut memory = TreeMemory { pss_kib: 0, processes: 0 };
    for pid in tree(root)? {
        let path = format!("/proc/{pid}/smaps_rollup");
        let rollup = fs::read_to_string(&path).with_context(|| format!("reading {path}; run the benchmark as root"))?;
        memory.pss_kib += field(&rollup, "Pss:").with_context(|| format!("no Pss in {path}"))?;
        memory.processes += 1;
    }
    Ok(memory)
}

fn field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A process and its descendants.
fn tree(root: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // One that has gone meanwhile is no part of it.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        if let Some(parent) = parent_of(&stat) {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let children = parents.iter().filter(|(_, parent)| *parent == found[next]).map(|(pid, _)| *pid);
        found.extend(children.collect::<Vec<_>>());
        next += 1;
    }
    Ok(found)
}

/// The parent in a `stat` line, whose second field may hold spaces and brackets.
fn parent_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// CPU time that this process has used so far.
pub(crate) fn own_cpu() -> Result<Duration> {
    Ok(total(&getrusage(UsageWho::RUSAGE_SELF)?))
}

/// CPU time that this thread has used so far.
pub(crate) fn thread_cpu() -> Result<Duration> {
    Ok(total(&getrusage(UsageWho::RUSAGE_THREAD)?))
}

fn total(usage: &Usage) -> Duration {
    let time = |value: nix::sys::time::TimeVal| {
        Duration::from_micros(u64::try_from(value.tv_sec() * 1_000_000 + value.tv_usec()).unwrap_or(0))
    };
    time(usage.user_time()) + time(usage.system_time())
}

/// CPU time of the threads of this process that have this name.
pub(crate) fn named_threads_cpu(name: &str) -> Result<Duration> {
    let mut nanoseconds = 0;
    for entry in fs::read_dir("/proc/self/task")? {
        let task = entry?.path();
        let Ok(comm) = fs::read_to_string(task.join("comm")) else { continue };
        if comm.trim_end() == name {
            let stat = fs::read_to_string(task.join("schedstat")).context("the kernel keeps no schedstat")?;
            let run = stat.split_whitespace().next().and_then(|field| field.parse::<u64>().ok());
            nanoseconds += run.context("schedstat has another form")?;
        }
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// How many cores the rest of the machine keeps busy while it lives.
pub(crate) struct OthersMeter {
    start: Instant,
    busy: Duration,
    ours: Duration,
}

impl OthersMeter {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self { start: Instant::now(), busy: machine_busy()?, ours: with_children()? })
    }

    pub(crate) fn cores(&self) -> Result<f64> {
        let busy = machine_busy()?.saturating_sub(self.busy);
        let ours = with_children()?.saturating_sub(self.ours);
        // The machine counts in ticks of 10 ms, so a little less than nothing is nothing.
        Ok((busy.as_secs_f64() - ours.as_secs_f64()).max(0.0) / self.start.elapsed().as_secs_f64())
    }
}

fn with_children() -> Result<Duration> {
    Ok(own_cpu()? + total(&getrusage(UsageWho::RUSAGE_CHILDREN)?))
}

fn machine_busy() -> Result<Duration> {
    let ticks = busy_ticks(&first_line("/proc/stat")).context("/proc/stat has another form")?;
    Ok(Duration::from_millis(ticks * 10))
}

/// user, nice, system, irq and softirq; not idle, iowait and what a hypervisor took.
fn busy_ticks(line: &str) -> Option<u64> {
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    Some(fields.get(..3)?.iter().sum::<u64>() + fields.get(5..7)?.iter().sum::<u64>())
}

/// The first line of a small file; empty when there is none.
pub(crate) fn first_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// Load average of the last minute.
pub(crate) fn load_average() -> Result<f64> {
    first_line("/proc/loadavg").split(' ').next().and_then(|field| field.parse().ok()).context("no load average")
}

/// The kind of file system a folder is on.
pub(crate) fn file_system(dir: &Path) -> Result<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(kind_of(&mounts, dir).unwrap_or("an unknown file system").to_owned())
}

fn kind_of<'a>(mounts: &'a str, dir: &Path) -> Option<&'a str> {
    let mount = |line: &'a str| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?;
        dir.starts_with(point).then_some((point.len(), right.split(' ').next()?))
    };
    // The last of equals lies on top.
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_parent() {
        assert_eq!(parent_of("42 (a) b)) S 7 42 42 0"), Some(7));
        assert_eq!(parent_of("garbage"), None);
    }

    #[test]
    fn the_longest_mount_point_says_the_file_system() {
        let mounts = "1 0 8:1 / / rw shared:1 - ext4 /dev/x rw\n2 1 0:9 / /tmp rw - tmpfs tmpfs rw\n";
        assert_eq!(kind_of(mounts, Path::new("/tmp/a")), Some("tmpfs"));
        assert_eq!(kind_of(mounts, Path::new("/tmpfoo")), Some("ext4"));
    }

    #[test]
    fn idle_and_stolen_time_is_not_busy() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 500 8 16 900 0 0"), Some(31));
        assert_eq!(busy_ticks("cpu 1"), None);
    }

    #[test]
    fn this_process_has_memory() {
        let memory = tree_memory(std::process::id()).unwrap();
        assert!(memory.pss_kib > 0 && memory.processes >= 1, "{memory:?}");
    }
}
