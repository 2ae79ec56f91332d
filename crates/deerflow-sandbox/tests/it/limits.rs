//! What a command may use.

use deerflow_sandbox::{Expect, LimitHit, SandboxConfig, SandboxError, VirtualPath};

use crate::support::{Rig, config};

#[tokio::test]
async fn a_fork_bomb_stays_in_its_box() {
    let rig = Rig::with(SandboxConfig { processes: 40, ..config() }).await;
    let program = "import os, time\n\
        made = 0\n\
        try:\n\
        \x20   while made < 500:\n\
        \x20       if os.fork() == 0: time.sleep(100); os._exit(0)\n\
        \x20       made += 1\n\
        except BlockingIOError: print('stopped', made <= 40)\n";
    assert_eq!(rig.python(program).await, "stopped True\n");
    // The classic one ends with its command, and the next command works.
    let request = deerflow_sandbox::ExecRequest {
        timeout: Some(std::time::Duration::from_secs(2)),
        ..deerflow_sandbox::ExecRequest::new(":(){ :|:& };: ; sleep 100")
    };
    let _ = rig.sandbox.execute(request, tokio_util::sync::CancellationToken::new()).await.unwrap();
    assert_eq!(rig.ok("echo fine").await, "fine\n");
}

#[tokio::test]
async fn one_process_cannot_take_more_than_the_memory_limit() {
    let rig = Rig::with(SandboxConfig { memory_mb: 200, ..config() }).await;
    assert_eq!(rig.python("x = bytearray(100 << 20); print(len(x) >> 20)").await, "100\n");
    let program = "try: x = bytearray(300 << 20); print('got it')\nexcept MemoryError: print('refused')\n";
    assert_eq!(rig.python(program).await, "refused\n");
}

#[tokio::test]
async fn many_processes_together_cannot_take_more_than_the_memory_limit() {
    let rig = Rig::with(SandboxConfig { memory_mb: 200, ..config() }).await;
    let program = "import os, time\n\
        for i in range(6):\n\
        \x20   if os.fork() == 0:\n\
        \x20       x = bytearray(os.urandom(1) * (80 << 20)); time.sleep(100)\n\
        time.sleep(100)\n";
    std::fs::write(rig.user_data().join("workspace/hog.py"), program).unwrap();
    let output = rig.run("echo begun; python3 hog.py").await;
    assert_eq!((output.limit_hit, output.stdout.as_str()), (Some(LimitHit::Memory), "begun\n"), "{output:?}");
    assert_eq!(rig.ok("echo fine").await, "fine\n");
}

#[tokio::test]
async fn memory_that_forked_processes_share_is_counted_once() {
    let rig = Rig::with(SandboxConfig { memory_mb: 200, ..config() }).await;
    let program = "import os, time\n\
        x = bytearray(os.urandom(1) * (80 << 20))\n\
        children = [os.fork() for _ in range(1)]\n\
        if 0 not in children:\n\
        \x20   for _ in range(4):\n\
        \x20       p = os.fork()\n\
        \x20       if p == 0: time.sleep(0.6); os._exit(0)\n\
        \x20   time.sleep(0.8); print('done')\n\
        else: time.sleep(0.6)\n";
    assert_eq!(rig.python(program).await, "done\n");
}

#[tokio::test]
async fn a_file_cannot_grow_beyond_the_limit() {
    let rig = Rig::with(SandboxConfig { file_size_mb: 2, ..config() }).await;
    let output = rig.run("head -c 5000000 /dev/zero > big").await;
    assert!(!output.success());
    assert_eq!(output.limit_hit, Some(LimitHit::FileSize), "{output:?}");
    assert_eq!(std::fs::metadata(rig.user_data().join("workspace/big")).unwrap().len(), 2 << 20);
}

#[tokio::test]
async fn a_command_that_fills_the_disk_is_killed_and_said_so() {
    let rig = Rig::with(SandboxConfig { disk_mb: 20, ..config() }).await;
    let fill = "i=0; while true; do head -c 1000000 /dev/urandom > f$i; i=$((i+1)); sleep 0.01; done";
    let output = rig.run(fill).await;
    assert_eq!(output.limit_hit, Some(LimitHit::Disk), "{output:?}");
    // What makes room may run; what takes more may not.
    assert!(rig.run("sleep 0.5; rm -f f*; sleep 0.5; echo ok").await.success());
    let output = rig.run(&fill.replace(" > f", " > /tmp/g")).await;
    assert_eq!(output.limit_hit, Some(LimitHit::Disk), "{output:?}");
}

#[tokio::test]
async fn the_reserve_of_free_space_stops_commands_and_writes() {
    let rig = Rig::with(SandboxConfig { min_free_mb: 1 << 40, ..config() }).await;
    let output = rig.run("sleep 100").await;
    assert_eq!(output.limit_hit, Some(LimitHit::FreeSpace), "{output:?}");
    let error = rig.sandbox.write_text(&VirtualPath::parse("a").unwrap(), "x", Expect::Any).await.unwrap_err();
    assert!(matches!(error, SandboxError::DiskFull { .. }), "{error:?}");
}

#[tokio::test]
async fn shared_memory_and_core_files_are_limited() {
    let rig = Rig::new().await;
    assert!(!rig.run("head -c 200000000 /dev/zero > /dev/shm/x").await.success());
    assert_eq!(rig.ok("ulimit -c").await, "0\n");
}

#[tokio::test]
async fn children_that_die_all_the_time_do_not_hide_what_the_others_take() {
    let rig = Rig::with(SandboxConfig { memory_mb: 300, ..config() }).await;
    let program = "import os, time\n\
        for i in range(2):\n\
        \x20   if os.fork() == 0:\n\
        \x20       while True:\n\
        \x20           p = os.fork()\n\
        \x20           if p == 0:\n\
        \x20               os.fork(); os._exit(0)\n\
        \x20           os.waitpid(p, 0)\n\
        for i in range(6):\n\
        \x20   if os.fork() == 0:\n\
        \x20       x = bytearray(os.urandom(1) * (150 << 20)); time.sleep(100)\n\
        time.sleep(100)\n";
    std::fs::write(rig.user_data().join("workspace/hog.py"), program).unwrap();
    let output = rig.run("echo begun; python3 hog.py").await;
    assert_eq!((output.limit_hit, output.stdout.as_str()), (Some(LimitHit::Memory), "begun\n"), "{output:?}");
}

#[tokio::test]
async fn a_command_ends_although_what_it_left_behind_dies_all_the_time() {
    let rig = Rig::new().await;
    let storm =
        "(while true; do (true &) ; done) >/dev/null 2>&1 & (while true; do (true &) ; done) >/dev/null 2>&1 & echo ok";
    assert_eq!(rig.ok(storm).await, "ok\n");
}

#[tokio::test]
async fn kernel_memory_that_no_process_is_charged_for_is_not_to_be_had() {
    let rig = Rig::new().await;
    let program = "import ctypes, errno\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        def call(name, *args):\n\
        \x20   return errno.errorcode[ctypes.get_errno()] if getattr(libc, name)(*args) < 0 else 'done'\n\
        print(call('msgget', 0, 0o1600), call('msgsnd', 0, b'x' * 64, 8, 0))\n\
        print(call('semget', 0, 30000, 0o1600), call('semget', 0, 8, 0o1600))\n";
    assert_eq!(rig.python(program).await, "EPERM EPERM\nEPERM done\n");
    assert_eq!(rig.ok("ulimit -Hn; ulimit -Sn").await, "1024\n1024\n");
}

#[tokio::test]
async fn commands_too_short_to_be_watched_do_not_evade_the_disk_limit() {
    let rig = Rig::with(SandboxConfig { disk_mb: 20, ..config() }).await;
    let output = rig.run("head -c 30000000 /dev/zero > f; echo done").await;
    assert_eq!(output.limit_hit, Some(LimitHit::Disk), "{output:?}");
    // No file grows any more, in whatever small steps.
    let output = rig.run("head -c 5000000 /dev/zero > g").await;
    assert_eq!((output.limit_hit, output.success()), (Some(LimitHit::Disk), false), "{output:?}");
    assert!(std::fs::metadata(rig.user_data().join("workspace/g")).unwrap().len() <= 1024);
    let output = rig.run("rm f; echo made room").await;
    assert_eq!((output.limit_hit, output.stdout.as_str()), (None, "made room\n"), "{output:?}");
    rig.ok("head -c 5000000 /dev/zero > g").await;
}

#[tokio::test]
async fn neither_deep_nor_closed_directories_evade_the_disk_limit() {
    let rig = Rig::with(SandboxConfig { disk_mb: 20, ..config() }).await;
    let closed = rig.run("mkdir c; cd c; head -c 30000000 /dev/zero > f; chmod 300 .").await;
    assert_eq!(closed.limit_hit, Some(LimitHit::Disk), "{closed:?}");
    let deep = "chmod 700 c; rm -rf c; i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done";
    let output = rig.run(deep).await;
    assert_eq!(output.limit_hit, Some(LimitHit::DiskUnknown), "{output:?}");
    let output = rig.run("rm -rf d; sleep 0.5; echo made room").await;
    assert_eq!((output.limit_hit, output.stdout.as_str()), (None, "made room\n"), "{output:?}");
}

#[tokio::test]
async fn what_a_command_nests_and_closes_can_be_deleted_with_its_thread() {
    let rig = Rig::with(SandboxConfig { disk_mb: 0, ..config() }).await;
    let program = "import os\n\
        for _ in range(3000):\n\
        \x20   os.mkdir('d'); os.chdir('d')\n\
        os.mkdir('x'); os.mkdir('x/y'); os.chmod('x', 0)\n";
    rig.python(program).await;
    rig.ok("mkdir -p a/b; echo > a/b/f; ln -s /etc a/l; chmod 0 a/b a; chmod 0 /tmp .").await;
    let base = rig.dir.path().join("private/data");
    let paths = deerflow_sandbox::ThreadPaths::new(&base, "alice", "t1").unwrap();
    paths.remove_all().unwrap();
    assert!(!rig.thread_dir().exists());
    paths.remove_all().unwrap();
}
