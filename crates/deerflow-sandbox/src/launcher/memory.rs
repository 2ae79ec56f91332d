//! The memory of a job's process tree, and what is left of the machine's.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const CHECK: Duration = Duration::from_millis(100);
/// Largest reserve of the machine's memory.
const MAX_RESERVE: u64 = 512 << 20;
/// What the machine must have lost since the command began before the command is blamed for a machine without memory.
const BLAME: u64 = 64 << 20;

/// Looks at the memory at intervals.
pub(super) struct MemoryWatch {
    limit: u64,
    next: Instant,
    /// Available on the machine when the command began.
    at_start: Option<u64>,
}

impl MemoryWatch {
    /// A watch over a process tree that may use `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        let at_start = Machine::now().map(|machine| machine.available);
        Self { limit, next: Instant::now() + CHECK, at_start }
    }

    /// Time until the next look.
    pub(super) fn left(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// True if it is time to look and there is too much.
    pub(super) fn exceeded(&mut self) -> bool {
        if !self.left().is_zero() {
            return false;
        }
        let exceeded = memory_in_use(self.limit) > self.limit || self.machine_exhausted();
        self.next = Instant::now() + CHECK;
        exceeded
    }

    /// Memory that the kernel holds for the command (socket buffers and the like) is in no process's account.
    fn machine_exhausted(&self) -> bool {
        match (self.at_start, Machine::now()) {
            (Some(at_start), Some(machine)) => machine.exhausted_since(at_start),
            _ => false,
        }
    }
}

/// Memory of the machine, in bytes.
struct Machine {
    total: u64,
    available: u64,
}

impl Machine {
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/meminfo").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
        };
        Some(Self { total: field("MemTotal")?, available: field("MemAvailable")? })
    }

    fn exhausted_since(&self, at_start: u64) -> bool {
        self.available < MAX_RESERVE.min(self.total / 20) && at_start.saturating_sub(self.available) > BLAME
    }
}

/// Bytes that the processes of this sandbox use. Pages they share are counted once, but only when the quick sum is too much.
fn memory_in_use(limit: u64) -> u64 {
    let pids: Vec<OsString> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.to_str().is_some_and(|name| name != "1" && name.bytes().all(|b| b.is_ascii_digit())))
        .collect();
    let quick: u64 = pids.iter().map(resident).sum::<u64>() + segments();
    if quick <= limit {
        return quick;
    }
    pids.iter().map(|pid| proportional(pid).unwrap_or_else(|| resident(pid))).sum::<u64>() + segments()
}

fn resident(pid: &OsString) -> u64 {
    let text = fs::read_to_string(Path::new("/proc").join(pid).join("statm")).unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|size| u64::try_from(size).ok());
    pages * page.unwrap_or(4096)
}

fn proportional(pid: &OsString) -> Option<u64> {
    let text = fs::read_to_string(Path::new("/proc").join(pid).join("smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// System V segments keep their memory while nobody has them attached.
fn segments() -> u64 {
    let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let mut lines = text.lines();
    let Some(column) = lines.next().and_then(|head| head.split_whitespace().position(|name| name == "rss")) else {
        return 0;
    };
    lines.filter_map(|line| line.split_whitespace().nth(column)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_memory_is_blamed_on_a_command_that_took_it() {
        let machine =
            Machine::parse("MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:     500000 kB\n").unwrap();
        assert_eq!((machine.total, machine.available), (16_000_000 << 10, 500_000 << 10));
        assert!(machine.exhausted_since(1 << 30));
        assert!(!machine.exhausted_since(520_000 << 10), "it was so before");
        assert!(!Machine { total: 4 << 30, available: 500 << 20 }.exhausted_since(3 << 30), "5 % are 205 MiB");
        assert!(Machine::parse("MemTotal: x").is_none());
    }
}
