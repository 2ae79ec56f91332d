//! Ways out that must be closed. Each test tries one.

use std::net::TcpListener;
use std::os::unix::fs::symlink;

use deerflow_sandbox::{Expect, SandboxError, VirtualPath};

use crate::support::Rig;

/// Python that calls the system directly: `call(number, *arguments)` gives 0 or the error's name.
const CALL: &str = "import ctypes, errno, os\n\
    libc = ctypes.CDLL(None, use_errno=True)\n\
    def call(number, *arguments):\n\
    \x20   result = libc.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])\n\
    \x20   return 0 if result >= 0 else errno.errorcode[ctypes.get_errno()]\n";

#[tokio::test]
async fn the_host_is_not_in_the_file_system() {
    let rig = Rig::new().await;
    let seen = rig.ok("ls -A /").await;
    for name in seen.split_whitespace() {
        let known = [
            "bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "mnt", "proc", "run", "sbin", "tmp", "usr",
            "var",
        ];
        assert!(known.contains(&name), "{name}");
    }
    assert_eq!(
        rig.ok("ls -A /mnt /home /run /var").await,
        "/home:\nagent\n\n/mnt:\nacp-workspace\nskills\nuser-data\n\n/run:\n\n/var:\ntmp\n"
    );
    assert!(!rig.run(&format!("ls {}", rig.dir.path().display())).await.success());
}

#[tokio::test]
async fn host_paths_are_not_visible_in_the_mount_table_beyond_their_device() {
    let rig = Rig::new().await;
    let mounts = rig.ok("cat /proc/self/mounts").await;
    assert!(!mounts.contains("private/data") && !mounts.contains(rig.dir.path().to_str().unwrap()), "{mounts}");
}

#[tokio::test]
async fn shadow_and_other_secrets_of_etc_are_not_there() {
    let rig = Rig::new().await;
    for file in [
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/sudoers",
        "/etc/ssh",
        "/etc/ssl/private",
        "/etc/machine-id",
        "/etc/fstab",
        "/root",
        "/sys/kernel",
        "/boot",
    ] {
        assert!(!rig.run(&format!("test -e {file}")).await.success(), "{file}");
    }
    assert!(!rig.ok("cat /etc/passwd").await.contains("daemon"));
}

#[tokio::test]
async fn br_100_dots_and_links_do_not_lead_out() {
    let rig = Rig::new().await;
    let output = rig.run("cd ../../../../../.. && pwd && cat etc/hostname").await;
    assert_eq!(output.stdout, "/\nsandbox\n");
    symlink(rig.dir.path(), rig.user_data().join("workspace/host")).unwrap();
    assert!(!rig.run("ls host/").await.success());
    // A link made inside is not followed by the server either.
    rig.ok("ln -s /etc/passwd pw; ln -s /proc/self/root/etc rootlink; ln -s /proc/1/environ env").await;
    for name in ["pw", "rootlink/hostname", "env", "host/private"] {
        let path = VirtualPath::parse(name).unwrap();
        let error = rig.sandbox.read_bytes(&path, 1000).await.unwrap_err();
        assert!(matches!(error, SandboxError::OutsideRoot { .. }), "{name}: {error:?}");
        assert!(rig.sandbox.write_text(&path, "x", Expect::Any).await.is_err());
    }
}

#[tokio::test]
async fn hard_links_to_other_mounts_cannot_be_made() {
    let rig = Rig::new().await;
    for file in ["/etc/passwd", "/usr/bin/env", "/proc/self/status", "/mnt/skills"] {
        assert!(!rig.run(&format!("ln {file} hard")).await.success(), "{file}");
    }
    // Not even between directories of the same disk that are mounted apart.
    assert!(!rig.run("echo x > /tmp/f && ln /tmp/f hard").await.success());
}

#[tokio::test]
async fn the_system_is_read_only() {
    let rig = Rig::new().await;
    for target in [
        "/x",
        "/usr/x",
        "/etc/x",
        "/etc/passwd",
        "/bin/x",
        "/dev/x",
        "/mnt/x",
        "/mnt/skills/x",
        "/home/x",
        "/run/x",
        "/var/x",
    ] {
        assert!(!rig.run(&format!("echo x >> {target}")).await.success(), "{target}");
    }
    assert!(!rig.run("mknod /tmp/dev c 1 1").await.success());
    assert!(!rig.run("mknod dev b 254 0").await.success());
}

#[tokio::test]
async fn core_pattern_and_the_rest_of_proc_sys_cannot_be_written() {
    let rig = Rig::new().await;
    let before = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    for target in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/kernel/randomize_va_space",
        "/proc/sysrq-trigger",
        "/proc/irq/default_smp_affinity",
    ] {
        let output = rig.run(&format!("echo '|/tmp/x' > {target}")).await;
        assert!(!output.success(), "{target}: {output:?}");
    }
    assert!(!rig.run("mount -o remount,rw /proc/sys").await.success());
    assert!(!rig.run("umount /proc/sys").await.success());
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap(), before);
}

#[tokio::test]
async fn kernel_memory_keys_and_timers_are_masked() {
    let rig = Rig::new().await;
    for file in ["kcore", "keys", "timer_list", "kmsg"] {
        let output = rig.run(&format!("test -e /proc/{file} || exit 0; head -c 1 /proc/{file} | wc -c")).await;
        assert!(!output.stdout.contains('1'), "{file}: {output:?}");
    }
}

#[tokio::test]
async fn processes_of_the_host_cannot_be_seen_signalled_or_read() {
    let rig = Rig::new().await;
    let pids = rig.ok("ls /proc | grep -c '^[0-9]'").await;
    assert!(pids.trim().parse::<u32>().unwrap() < 8, "{pids}");
    let own = std::process::id();
    assert!(!rig.run(&format!("test -e /proc/{own}/environ")).await.success() || own < 10);
    // Pid 1 is ours: it has the same user, but gives nothing away and does not die.
    for command in [
        "cat /proc/1/environ",
        "cat /proc/1/mem",
        "ls /proc/1/fd",
        "readlink /proc/1/root",
        "cat /proc/1/maps | grep .",
    ] {
        assert!(!rig.run(command).await.success(), "{command}");
    }
    assert_eq!(rig.ok("kill -9 1; kill -STOP 1; kill -TERM 1; sleep 0.1; echo alive").await, "alive\n");
}

#[tokio::test]
async fn br_115_no_variable_of_the_server_reaches_a_command() {
    // This process has Cargo's variables, as a server has its secrets.
    let rig = Rig::new().await;
    let seen = rig.ok("env; cat /proc/self/environ | tr '\\0' '\\n'").await;
    assert!(seen.contains("HOME=/home/agent"), "{seen}");
    for name in ["CARGO", "RUST", "NEXTEST", "MYSQL_PWD", "SECRET"] {
        assert!(!seen.contains(name), "{name}: {seen}");
    }
}

#[tokio::test]
async fn the_network_is_off_but_loopback_inside_works() {
    let rig = Rig::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let program = format!(
        "import socket\n\
        def reach(host, port):\n\
        \x20   try: socket.create_connection((host, port), 2); return 'reached'\n\
        \x20   except OSError as e: return 'refused'\n\
        print(reach('127.0.0.1', {port}), reach('1.1.1.1', 53), reach('169.254.169.254', 80))\n\
        s = socket.create_server(('127.0.0.1', 0)); print(reach('127.0.0.1', s.getsockname()[1]))\n\
        s = socket.create_server(('::1', 0), family=socket.AF_INET6); print(reach('::1', s.getsockname()[1]))\n\
        print([n for _, n in socket.if_nameindex()])\n"
    );
    let output = rig.python(&program).await;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(&lines[..3], ["refused refused refused", "reached", "reached"], "{output}");
    assert!(lines[3].starts_with("['lo'"), "{output}");
}

#[tokio::test]
async fn abstract_sockets_of_the_host_cannot_be_reached() {
    use std::os::linux::net::SocketAddrExt;
    let rig = Rig::new().await;
    let name = format!("deerflow-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let program = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ntry: s.connect('\\0{name}'); print('reached')\nexcept OSError: print('refused')\n"
    );
    assert_eq!(rig.python(&program).await, "refused\n");
}

#[tokio::test]
async fn raw_packet_vsock_and_foreign_netlink_sockets_are_denied() {
    let rig = Rig::new().await;
    let program = "import socket\n\
        def make(*a):\n\
        \x20   try: socket.socket(*a).close(); return 'made'\n\
        \x20   except OSError: return 'denied'\n\
        R, D, S = socket.SOCK_RAW, socket.SOCK_DGRAM, socket.SOCK_STREAM\n\
        print(make(socket.AF_PACKET, R), make(40, S), make(socket.AF_INET, R, 1), make(16, R, 9), make(38, 5), make(2, S), make(1, S), make(16, R, 0))\n";
    assert_eq!(rig.python(program).await, "denied denied denied denied denied made made made\n");
}

#[tokio::test]
async fn namespaces_mounts_tracing_keys_and_kernel_programs_are_denied() {
    let rig = Rig::new().await;
    let calls = "for name, number, *a in [\n\
        ('unshare user', 272, 0x10000000), ('unshare net', 272, 0x40000000), ('setns', 308, 0, 0),\n\
        ('mount', 165, b'none', b'/tmp', b'tmpfs', 0, 0), ('umount', 166, b'/proc/sys', 2), ('pivot_root', 155, b'/tmp', b'/tmp'),\n\
        ('chroot', 161, b'/tmp'), ('open_tree', 428, -100, b'/', 1), ('fsopen', 430, b'tmpfs', 0), ('move_mount', 429, 0, b'', 0, b'', 0),\n\
        ('ptrace attach', 101, 16, 1, 0, 0), ('ptrace seize', 101, 0x4206, 1, 0, 0), ('process_vm_readv', 310, 1, 0, 0, 0, 0, 0),\n\
        ('keyctl', 250, 0, -3), ('add_key', 248, b'user', b'x', b'y', 1, -2), ('request_key', 249, b'user', b'x', 0, -2),\n\
        ('bpf', 321, 0, 0, 0), ('perf', 298, 0, 0, -1, -1, 0), ('userfaultfd', 323, 0), ('io_uring', 425, 1, 0),\n\
        ('open_by_handle_at', 304, -100, 0, 0), ('name_to_handle_at', 303, -100, b'/', 0, 0, 0), ('kexec', 246, 0, 0, 0, 0),\n\
        ('init_module', 175, 0, 0, b''), ('reboot', 169, 0, 0, 0, 0), ('swapon', 167, b'/x', 0), ('syslog', 103, 2, 0, 0),\n\
        ('clone newuser', 56, 0x10000011, 0, 0, 0, 0), ('clone newns', 56, 0x00020011, 0, 0, 0, 0), ('clone3', 435, 0, 88),\n\
        ('sethostname', 170, b'x', 1), ('memfd_create', 319, b'x', 0), ('x32 unshare', 0x40000000 + 272, 0x10000000),\n\
        ('tiocsti', 16, 0, 0x5412, b'x'), ('setuid 0', 105, 0), ('setgroups', 116, 0, 0)]:\n\
        \x20   print(name, call(number, *a))\n";
    let output = rig.python(&format!("{CALL}{calls}")).await;
    assert_eq!(output.lines().count(), 36, "{output}");
    for line in output.lines() {
        let (name, result) = line.rsplit_once(' ').unwrap();
        assert!(["EPERM", "ENOSYS", "EINVAL"].contains(&result), "{line}");
        assert!(result != "EINVAL" || name == "setuid 0", "{line}");
    }
}

#[tokio::test]
async fn no_descriptor_of_the_launcher_is_inherited() {
    let rig = Rig::new().await;
    let program = "import os\nfor f in range(64):\n p = f'/proc/{os.getpid()}/fd/{f}'\n if os.path.lexists(p): print(f, os.readlink(p))\n";
    let seen = rig.python(program).await;
    let numbers: Vec<&str> = seen.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(numbers, ["0", "1", "2"], "{seen}");
}

#[tokio::test]
async fn setuid_programs_are_powerless() {
    let rig = Rig::new().await;
    let status = rig.ok("cat /proc/self/status").await;
    for line in [
        "NoNewPrivs:\t1",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "Seccomp:\t2",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    for program in ["su -c id", "sudo -n id", "mount -t tmpfs none /tmp", "passwd -d root", "newuidmap $$ 0 0 1"] {
        assert!(!rig.run(program).await.success(), "{program}");
    }
    // A setuid file of one's own gives nothing either.
    assert_eq!(rig.ok("cp /usr/bin/id . && chmod u+s,g+s id && ./id -u").await, "1000\n");
    let flags = rig.ok("grep ' /mnt/user-data ' /proc/self/mounts").await;
    assert!(flags.contains("nosuid") && flags.contains("nodev"), "{flags}");
}

#[tokio::test]
async fn no_id_of_the_host_but_one_is_mapped_and_never_root() {
    let rig = Rig::new().await;
    assert_eq!(rig.ok("cat /proc/self/uid_map | tr -s ' '").await.trim(), "1000 1000 1");
    assert!(!rig.run("chown 0 . ").await.success());
    assert_eq!(rig.ok("cat /proc/self/setgroups").await, "deny\n");
    let file = std::fs::metadata(rig.user_data().join("workspace")).unwrap();
    rig.ok("echo x > owned").await;
    let made = std::fs::metadata(rig.user_data().join("workspace/owned")).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_ne!(made.uid(), 0);
    assert_eq!(made.uid(), file.uid());
}

#[tokio::test]
async fn a_swap_of_directory_and_link_during_server_writes_leads_nowhere() {
    let rig = Rig::new().await;
    let target = tempfile::tempdir().unwrap();
    std::fs::set_permissions(target.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    // The link's target means nothing inside; the server would reach it.
    let swap = format!(
        "mkdir d; ln -s {} spare; touch ready; while test ! -e stop; do mv -T d t; mv -T spare d; mv -T d spare; mv -T t d; done",
        target.path().display()
    );
    let server = async {
        rig.wait_for("ready").await;
        for number in 0..400 {
            let path = VirtualPath::parse(&format!("d/escape-{}", number % 5)).unwrap();
            let _ = rig.sandbox.write_text(&path, "x", Expect::Any).await;
            let _ = rig.sandbox.append(&VirtualPath::parse("d/log").unwrap(), "x").await;
        }
        rig.sandbox.write_text(&VirtualPath::parse("stop").unwrap(), "", Expect::Any).await.unwrap();
    };
    tokio::join!(rig.run(&swap), server);
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_command_cannot_replace_the_directories_the_server_opens() {
    let rig = Rig::new().await;
    rig.run("cd /; rm -rf /mnt/user-data/outputs; ln -s /etc /mnt/user-data/outputs; mv /mnt/user-data/uploads /tmp/; ln -s / /mnt/user-data/uploads").await;
    let path = VirtualPath::parse("/mnt/user-data/outputs/hostname").unwrap();
    assert!(rig.sandbox.read_bytes(&path, 100).await.is_err());
    rig.ok("true").await;
    let meta = std::fs::symlink_metadata(rig.user_data().join("outputs")).unwrap();
    assert!(meta.is_dir(), "a link must not stay where the server writes");
}
