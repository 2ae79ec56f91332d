//! The system call filter: what a program in the sandbox has no business with is refused.
//!
//! A deny list, on top of namespaces without capabilities: it keeps kernel surface away. It is compiled once per launcher.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use crate::protocol::Failure;

/// Refused with EPERM, whatever the arguments.
const DENIED: &[i64] = &[
    // namespaces and mounts
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // other processes
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // message queues: the kernel keeps their memory, which is in no process's account
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    // keys, kernel programs, kernel surface
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_vmsplice,
    // the machine
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
];

/// Refused as well where there are no namespaces. Any address would be the host's: its network, the services that listen on
/// sockets in its file system, its System V objects.
const DENIED_WITHOUT_NAMESPACES: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_semget,
    libc::SYS_mq_open,
    // By name, without opening: landlock knows it since its third version only.
    libc::SYS_truncate,
];

/// What else surrounds the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walls {
    Namespaces,
    None,
}

/// Refused with ENOSYS: programs then take the older way. `clone3` passes its flags in memory, where no filter sees them;
/// memory of `memfd_create` is in no process's account.
const ABSENT: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
];

const PTRACE_ATTACH: u64 = 16;
const PTRACE_SEIZE: u64 = 0x4206;
const NETLINK_ROUTE: u64 = 0;
/// The type of a socket, without its flags.
const SOCKET_TYPE: u64 = 0xf;
/// Most semaphores in a System V set: each takes memory that is in no process's account.
const MAX_SEMAPHORES: u64 = 256;

/// The filter: one short program, because each command pays for its installation. A binary search by number decides all calls
/// but those that depend on arguments; the compiled rules follow it.
pub(super) fn compile(walls: Walls) -> Result<BpfProgram, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new("compiling the system call filter", error);
    let arch: TargetArch =
        std::env::consts::ARCH.try_into().map_err(|error: seccompiler::BackendError| failed(&error))?;
    let rules = by_argument(walls).map_err(|error| failed(&error))?;
    let verdicts = verdicts(&rules, walls);
    let action = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).map_err(|error| failed(&error))?;
    let mut program = BpfProgram::try_from(filter).map_err(|error| failed(&error))?;
    // The compiled program checks the architecture first: what follows must come after that.
    program.splice(ARCH_CHECK..ARCH_CHECK, by_number(&verdicts));
    Ok(program)
}

/// What to do with a call whose number is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Refuse(i32),
    /// The compiled rules look at its arguments.
    Rules,
}

fn verdicts(rules: &BTreeMap<i64, Vec<SeccompRule>>, walls: Walls) -> Vec<(u32, Verdict)> {
    let further = if walls == Walls::None { DENIED_WITHOUT_NAMESPACES } else { &[] };
    let denied = DENIED.iter().chain(further).map(|call| (*call, Verdict::Refuse(libc::EPERM)));
    let absent = ABSENT.iter().map(|call| (*call, Verdict::Refuse(libc::ENOSYS)));
    let ruled = rules.keys().map(|call| (*call, Verdict::Rules));
    let all: BTreeMap<u32, Verdict> = denied
        .chain(absent)
        .chain(ruled)
        .filter_map(|(call, verdict)| Some((u32::try_from(call).ok()?, verdict)))
        .collect();
    all.into_iter().collect()
}

/// Installs the filter on this process; it stays for all its children.
pub(super) fn install(filter: &BpfProgram) -> Result<(), Failure> {
    seccompiler::apply_filter(filter).map_err(|error| Failure::new("installing the system call filter", error))
}

/// Calls that are refused for some arguments only.
fn by_argument(walls: Walls) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let any = |bits: i32| {
        let bits = u64::from(bits.cast_unsigned());
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(bits), bits)
    };
    let is = |arg, value| SeccompCondition::new(arg, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    let not = |arg, value| SeccompCondition::new(arg, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value);
    let family = |family: i32| u64::from(family.cast_unsigned());
    let one = |condition| SeccompRule::new(vec![condition]);

    let namespaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let clone = namespaces.into_iter().map(|flag| one(any(flag)?)).collect::<Result<Vec<_>, _>>()?;
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let socket = vec![
        SeccompRule::new(families.into_iter().map(|allowed| not(0, family(allowed))).collect::<Result<Vec<_>, _>>()?)?,
        SeccompRule::new(vec![is(0, family(libc::AF_NETLINK))?, not(2, NETLINK_ROUTE)?])?,
    ];
    let ioctl = [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD];
    let ioctl = ioctl.into_iter().map(|request| one(is(1, request)?)).collect::<Result<Vec<_>, _>>()?;
    let ptrace =
        [PTRACE_ATTACH, PTRACE_SEIZE].into_iter().map(|request| one(is(0, request)?)).collect::<Result<Vec<_>, _>>()?;
    let too_many = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Gt, MAX_SEMAPHORES)?;
    let mut socketpair = vec![one(not(0, family(libc::AF_UNIX))?)?];
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        [(libc::SYS_clone, clone), (libc::SYS_ioctl, ioctl), (libc::SYS_ptrace, ptrace)].into();
    match walls {
        Walls::Namespaces => {
            rules.insert(libc::SYS_socket, socket);
            rules.insert(libc::SYS_semget, vec![one(too_many)?]);
        }
        Walls::None => {
            // A datagram socket can send to any address, although it has a peer.
            for datagram in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
                let kind = SeccompCmpOp::MaskedEq(SOCKET_TYPE);
                socketpair.push(one(SeccompCondition::new(1, SeccompCmpArgLen::Dword, kind, family(datagram))?)?);
            }
            // Limits of one's own only.
            rules.insert(libc::SYS_prlimit64, vec![one(not(0, 0)?)?]);
        }
    }
    rules.insert(libc::SYS_socketpair, socketpair);
    Ok(rules)
}

/// Instructions of the compiled program that kill a call of a foreign architecture: load, compare, kill.
const ARCH_CHECK: usize = 3;

const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

fn refuse(errno: i32) -> sock_filter {
    instruction(RETURN, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned(), 0, 0)
}

/// Decides by number: refused, allowed, or (at the end) left to the rules. All x32 calls are absent: they have numbers of their
/// own, which no list here knows.
fn by_number(verdicts: &[(u32, Verdict)]) -> Vec<sock_filter> {
    const X32_BIT: u32 = 0x4000_0000;
    let mut program = vec![instruction(LOAD_WORD, 0, 0, 0)];
    if cfg!(target_arch = "x86_64") {
        program.extend([instruction(JUMP_AT_LEAST, X32_BIT, 0, 1), refuse(libc::ENOSYS)]);
    }
    search(verdicts, &mut program);
    // The jumps out of the search go to its end.
    let end = program.len();
    for (at, step) in program.iter_mut().enumerate() {
        if step.code == JUMP {
            step.k = u32::try_from(end - at - 1).unwrap_or(0);
        }
    }
    program
}

fn search(verdicts: &[(u32, Verdict)], program: &mut Vec<sock_filter>) {
    match verdicts {
        [] => {}
        [(call, verdict)] => program.extend([
            instruction(JUMP_EQUAL, *call, 0, 1),
            match verdict {
                Verdict::Refuse(errno) => refuse(*errno),
                Verdict::Rules => instruction(JUMP, 0, 0, 0),
            },
            instruction(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
        ]),
        _ => {
            let (low, high) = verdicts.split_at(verdicts.len() / 2);
            let at = program.len();
            program.push(instruction(JUMP_AT_LEAST, high[0].0, 0, 0));
            search(high, program);
            // A tree of a hundred calls has less than 256 instructions on either side; a test counts.
            program[at].jf = u8::try_from(program.len() - at - 1).unwrap_or(0);
            search(low, program);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_filters_start_with_the_architecture_check_and_fit() {
        for walls in [Walls::Namespaces, Walls::None] {
            let program = compile(walls).unwrap();
            // Load the architecture, skip the kill if it is ours, kill.
            assert_eq!((program[0].code, program[0].k), (0x20, 4));
            assert_eq!((program[1].code, program[1].jt, program[1].jf), (0x15, 1, 0));
            assert_eq!((program[2].code, program[2].k), (0x06, libc::SECCOMP_RET_KILL_PROCESS));
            assert!(program.len() < 500, "{}", program.len());
        }
    }

    /// Runs the instructions of [`by_number`] for one call; `None`: it goes on to the rules.
    fn decide(program: &[sock_filter], call: u32) -> Option<u32> {
        let mut at = 0;
        while let Some(step) = program.get(at) {
            let jump = |taken: bool| usize::from(if taken { step.jt } else { step.jf });
            at += 1 + match step.code {
                LOAD_WORD => 0,
                JUMP => step.k as usize,
                JUMP_EQUAL => jump(call == step.k),
                JUMP_AT_LEAST => jump(call >= step.k),
                _ => return Some(step.k),
            };
        }
        None
    }

    #[test]
    fn each_number_gets_its_verdict() {
        for walls in [Walls::Namespaces, Walls::None] {
            let rules = by_argument(walls).unwrap();
            let verdicts = verdicts(&rules, walls);
            let further = if walls == Walls::None { DENIED_WITHOUT_NAMESPACES.len() } else { 0 };
            assert_eq!(verdicts.len(), DENIED.len() + further + ABSENT.len() + rules.len());
            let program = by_number(&verdicts);
            let refused = |errno: i32| Some(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned());
            for call in 0..1000 {
                let verdict = verdicts.iter().find(|(known, _)| *known == call).map(|(_, verdict)| *verdict);
                let expected = match verdict {
                    None => Some(libc::SECCOMP_RET_ALLOW),
                    Some(Verdict::Refuse(errno)) => refused(errno),
                    Some(Verdict::Rules) => None,
                };
                assert_eq!(decide(&program, call), expected, "{call}");
            }
            if cfg!(target_arch = "x86_64") {
                assert_eq!(decide(&program, 0x4000_0000 + 39), refused(libc::ENOSYS));
            }
        }
    }
}
