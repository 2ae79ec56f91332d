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

/// The filters, in the order of installation.
pub(super) fn compile() -> Result<Vec<BpfProgram>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new("compiling the system call filter", error);
    let arch: TargetArch =
        std::env::consts::ARCH.try_into().map_err(|error: seccompiler::BackendError| failed(&error))?;
    let build = |rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32| -> Result<BpfProgram, Failure> {
        let action = SeccompAction::Errno(errno.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).map_err(|error| failed(&error))?;
        BpfProgram::try_from(filter).map_err(|error| failed(&error))
    };
    let mut denied: BTreeMap<i64, Vec<SeccompRule>> = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    denied.extend(by_argument().map_err(|error| failed(&error))?);
    let mut denied = build(denied, libc::EPERM)?;
    if cfg!(target_arch = "x86_64") {
        denied.splice(0..0, refuse_x32());
    }
    let absent = build(ABSENT.iter().map(|call| (*call, Vec::new())).collect(), libc::ENOSYS)?;
    Ok(vec![denied, absent])
}

/// Installs the filters on this process; they stay for all its children.
pub(super) fn install(filters: &[BpfProgram]) -> Result<(), Failure> {
    filters.iter().try_for_each(|filter| {
        seccompiler::apply_filter(filter).map_err(|error| Failure::new("installing the system call filter", error))
    })
}

/// Calls that are refused for some arguments only.
fn by_argument() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
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
    let socketpair = vec![one(not(0, family(libc::AF_UNIX))?)?];
    Ok([
        (libc::SYS_clone, clone),
        (libc::SYS_socket, socket),
        (libc::SYS_socketpair, socketpair),
        (libc::SYS_ioctl, ioctl),
        (libc::SYS_ptrace, ptrace),
    ]
    .into())
}

/// The x32 calls have numbers of their own, which the list above does not know: all of them are absent.
fn refuse_x32() -> [sock_filter; 3] {
    const X32_BIT: u32 = 0x4000_0000;
    let load_number = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let if_at_least = sock_filter { code: 0x35, jt: 0, jf: 1, k: X32_BIT };
    let return_enosys = sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::ENOSYS.cast_unsigned() };
    [load_number, if_at_least, return_enosys]
}
