//! The allow-list of the network, from inside: what it opens, and every way around it that we know of.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use deerflow_sandbox::{
    ExecRequest, IsolatedProvider, Launcher, NetworkAccess, NetworkConfig, SandboxConfig, SandboxProvider, Tier,
};
use tokio_util::sync::CancellationToken;

use crate::support::{Rig, config, is_root, launcher};

/// A web server on the host's loopback, as long as the test runs. It answers every request with `text` and its path.
fn web(text: &'static str) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default();
                let body = format!("{text} {path}\n");
                let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            });
        }
    });
    port
}

fn allow(patterns: &[String]) -> SandboxConfig {
    SandboxConfig { network: NetworkConfig::Allow(patterns.to_vec()), ..config() }
}

/// Python that asks for `CONNECT` and then for a page through the tunnel: `tunnel(host, port)` gives the first line of the
/// proxy's answer and what came through.
const TUNNEL: &str = "import os, socket\n\
    proxy = os.environ['https_proxy'].removeprefix('http://').split(':')\n\
    def tunnel(host, port):\n\
    \x20   s = socket.create_connection((proxy[0], int(proxy[1])), 5)\n\
    \x20   s.sendall(f'CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\n'.encode())\n\
    \x20   s.settimeout(10)\n\
    \x20   line = s.makefile('rb').readline().decode().strip()\n\
    \x20   return s, line\n";

#[tokio::test]
async fn an_allowed_address_is_reached_by_what_programs_do_of_themselves() {
    let (mine, other) = (web("mine"), web("other"));
    let rig = Rig::with(allow(&[format!("127.0.0.1:{mine}")])).await;
    assert_eq!(
        rig.provider.network(),
        NetworkAccess::AllowList { patterns: vec![format!("127.0.0.1:{mine}")], loopback: true }
    );
    // Python goes by the environment; only that loopback is not asked for by proxy has to be lifted.
    let program = format!(
        "import os, urllib.request, urllib.error\n\
        os.environ['no_proxy'] = ''\n\
        def get(port):\n\
        \x20   try: return urllib.request.urlopen(f'http://127.0.0.1:{{port}}/a?b', timeout=10).read().decode().strip()\n\
        \x20   except urllib.error.HTTPError as e: return f'{{e.code}} {{e.reason}} | ' + e.read().decode().strip()\n\
        print(get({mine}))\nprint(get({other}))\n"
    );
    let refused = format!("127.0.0.1:{other}: sandbox.network.allow has this host for port {mine} only");
    assert_eq!(
        rig.python(&program).await,
        format!(
            "mine /a?b\n403 {refused} | {refused}; to allow it, add \"127.0.0.1:{other}\" to that list in the configuration\n"
        )
    );
    // The shell by itself, and curl where there is one.
    let shell = format!(
        "exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; printf 'GET http://127.0.0.1:{mine}/x HTTP/1.1\\r\\n\\r\\n' >&3; tail -n 1 <&3"
    );
    assert_eq!(rig.ok(&shell).await, "mine /x\n");
    if rig.run("command -v curl").await.success() {
        let curl = |flags: &str, port: u16| format!("curl -sS --noproxy '' {flags} http://127.0.0.1:{port}/c");
        assert_eq!(rig.ok(&curl("", mine)).await, "mine /c\n");
        assert_eq!(rig.ok(&curl("-p", mine)).await, "mine /c\n");
        assert!(rig.ok(&curl("", other)).await.starts_with(&refused));
        let tunnel = rig.run(&curl("-v -p", other)).await;
        assert!(!tunnel.success() && tunnel.stderr.contains(&refused), "{tunnel:?}");
    }
}

#[tokio::test]
async fn the_result_says_what_was_refused_and_counts_what_was_not() {
    let mine = web("mine");
    let rig = Rig::with(allow(&[format!("127.0.0.1:{mine}"), "allowed.invalid".to_owned()])).await;
    let program = format!(
        "{TUNNEL}for to in [('evil.example', 443), ('evil.example', 443), ('127.0.0.1', {mine}), ('localhost', {mine})]: print(tunnel(*to)[1])\n"
    );
    std::fs::write(rig.user_data().join("workspace/program.py"), program).unwrap();
    let output = rig.run("python3 program.py").await;
    let reason = "it is not in sandbox.network.allow";
    assert_eq!(
        output.stdout,
        format!(
            "HTTP/1.1 403 evil.example:443: {reason}\nHTTP/1.1 403 evil.example:443: {reason}\n\
             HTTP/1.1 200 Connection established\nHTTP/1.1 403 localhost:{mine}: {reason}\n"
        )
    );
    let network = output.network.unwrap();
    let told: Vec<String> = network.trouble.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            format!("evil.example:443 was refused: {reason} (2 times)"),
            format!("localhost:{mine} was refused: {reason}")
        ]
    );
    assert_eq!((network.connections, network.more_trouble), (1, 0));
    assert_eq!(rig.run("true").await.network, Some(deerflow_sandbox::NetworkUse::default()));
}

#[tokio::test]
async fn there_is_no_way_past_the_proxy() {
    let mine = web("mine");
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let udp_port = udp.local_addr().unwrap().port();
    let rig = Rig::with(allow(&[format!("127.0.0.1:{mine}"), "*".to_owned()])).await;
    let program = format!(
        "import socket\n\
        def tcp(host, port):\n\
        \x20   try: socket.create_connection((host, port), 2); return 'reached'\n\
        \x20   except OSError: return 'refused'\n\
        def udp(host, port):\n\
        \x20   s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)\n\
        \x20   try: s.sendto(b'\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x07example\\x03com\\x00\\x00\\x01\\x00\\x01', (host, port)); s.recv(9); return 'answered'\n\
        \x20   except OSError: return 'nothing'\n\
        def name(host):\n\
        \x20   try: socket.getaddrinfo(host, 80); return 'resolved'\n\
        \x20   except OSError: return 'unknown'\n\
        print(tcp('127.0.0.1', {mine}), tcp('1.1.1.1', 443), tcp('169.254.169.254', 80))\n\
        print(udp('127.0.0.1', {udp_port}), udp('1.1.1.1', 53), udp('8.8.8.8', 53), name('example.com'))\n\
        print(sorted(n for _, n in socket.if_nameindex())[:1])\n"
    );
    assert_eq!(rig.python(&program).await, "refused refused refused\nnothing nothing nothing unknown\n['lo']\n");
    assert!(udp.recv(&mut [0; 64]).is_err());
    if !rig.run("command -v curl").await.success() {
        return;
    }
    let direct = rig
        .run(&format!(
            "curl -sS -m 5 --noproxy '*' http://127.0.0.1:{mine}/; curl -sS -m 5 --noproxy '*' http://1.1.1.1/"
        ))
        .await;
    assert_eq!((direct.success(), direct.stdout.as_str()), (false, ""), "{direct:?}");
}

#[tokio::test]
async fn the_proxy_reaches_no_other_service_of_the_host() {
    let (mine, other) = (web("mine"), web("other"));
    // `*` is every public host, and the host's loopback is none, however it is written.
    let rig = Rig::with(allow(&[format!("127.0.0.1:{mine}"), "*".to_owned()])).await;
    let program = format!(
        "{TUNNEL}for host in ['127.0.0.1', '127.1', '2130706433', '0x7f.1', 'localhost', '[::1]', '[::ffff:127.0.0.1]', '0.0.0.0', '[::]', \
         'sandbox', '127.0.0.2', '169.254.169.254', '[64:ff9b::7f00:1]', '[2002:7f00:1::]']:\n\
        \x20   for port in [{other}, 80, 443, int(proxy[1])]: print(tunnel(host, port)[1].split(' ')[1])\n"
    );
    let lines = rig.python(&program).await;
    assert_eq!(lines.lines().count(), 14 * 4);
    assert!(lines.lines().all(|status| ["403", "502"].contains(&status)), "{lines}");
    // A port of 403 that the rules never had a say on would be 502: only the sandbox's own host name does not resolve.
    assert!(lines.lines().filter(|status| *status == "502").count() <= 4, "{lines}");
}

#[tokio::test]
async fn two_commands_at_once_have_each_their_own_proxy() {
    let mine = web("mine");
    let rig = Rig::with(allow(&[format!("127.0.0.1:{mine}")])).await;
    let other = rig.provider.acquire("bob", "t1").await.unwrap();
    let get = format!(
        "exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; printf 'GET http://127.0.0.1:{mine}/x HTTP/1.1\\r\\n\\r\\n' >&3; tail -n 1 <&3"
    );
    let refused = "exec 4<>/dev/tcp/127.0.0.1/${http_proxy##*:}; printf 'CONNECT evil.example:443 HTTP/1.1\\r\\n\\r\\n' >&4; head -n 1 <&4 | cut -c 1-12";
    let wait = |mine: &str, other: &str| {
        format!("touch {mine}; while ! test -e ../outputs/go; do sleep 0.01; done; echo {other}")
    };
    // One thread's two commands, and another thread's: all run at the same time.
    let first = rig.run_owned(format!("{}; {get}; {refused}", wait("first", "1")));
    let second = rig.run_owned(format!("{}; {get}", wait("second", "2")));
    let third = {
        let request = ExecRequest::new(format!("touch ../outputs/go; {get}; {get}"));
        let other = other.clone();
        async move { other.execute(request, CancellationToken::new()).await.unwrap() }
    };
    let go = async {
        rig.wait_for("first").await;
        rig.wait_for("second").await;
        std::fs::write(rig.user_data().join("outputs/go"), "").unwrap();
    };
    let (first, second, third, ()) = tokio::join!(first, second, third, go);
    assert_eq!(first.stdout, "1\nmine /x\nHTTP/1.1 403\n", "{first:?}");
    assert_eq!(second.stdout, "2\nmine /x\n", "{second:?}");
    assert_eq!(third.stdout, "mine /x\nmine /x\n", "{third:?}");
    let counted = |output: &deerflow_sandbox::ExecOutput| {
        let network = output.network.clone().unwrap();
        (network.connections, network.trouble.len())
    };
    assert_eq!((counted(&first), counted(&second), counted(&third)), ((1, 1), (1, 0), (2, 0)));
}

#[tokio::test]
async fn the_proxy_ends_with_its_command() {
    let mine = web("mine");
    let rig = Rig::with(allow(&[format!("127.0.0.1:{mine}")])).await;
    let sockets = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let open = format!(
        "exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; printf 'CONNECT 127.0.0.1:{mine} HTTP/1.1\\r\\n\\r\\n' >&3; head -n 1 <&3"
    );
    rig.ok(&open).await;
    let before = sockets();
    for _ in 0..5 {
        assert_eq!(rig.ok(&format!("{open}; setsid sleep 100 &")).await, "HTTP/1.1 200 Connection established\r\n");
    }
    let request =
        ExecRequest { timeout: Some(Duration::from_secs(1)), ..ExecRequest::new(format!("{open}; sleep 100")) };
    let output = rig.sandbox.execute(request, CancellationToken::new()).await.unwrap();
    assert!(output.timed_out && output.network.is_some_and(|network| network.connections == 1));
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert!(rig.sandbox.execute(ExecRequest::new(&open), cancel).await.unwrap().cancelled);
    // Other tests of this process open some, too.
    let after = sockets();
    assert!(after < before + 5 || std::env::var_os("NEXTEST").is_none(), "{before} {after}");
}

#[tokio::test]
async fn the_listening_socket_is_not_within_reach_of_the_command() {
    let rig = Rig::with(allow(&["pypi.org".to_owned()])).await;
    let program =
        "import os\nfor f in range(64):\n p = f'/proc/{os.getpid()}/fd/{f}'\n if os.path.lexists(p): print(f)\n";
    assert_eq!(rig.python(program).await, "0\n1\n2\n");
    // It cannot be taken over either: a port is shared only if the first socket allows it.
    let program = "import os, socket\n\
        s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n\
        try: s.bind(('127.0.0.1', int(os.environ['http_proxy'].rsplit(':', 1)[1]))); print('bound')\n\
        except OSError as e: print('refused')\n";
    assert_eq!(rig.python(program).await, "refused\n");
}

#[tokio::test]
async fn with_the_network_off_there_is_no_proxy_and_no_variable() {
    let rig = Rig::new().await;
    assert_eq!(rig.provider.network(), NetworkAccess::Off);
    let output = rig
        .run("env | grep -ic proxy; python3 -c \"import socket; socket.create_connection(('127.0.0.1', 3128), 1)\"")
        .await;
    assert_eq!(
        (output.stdout.as_str(), output.network.is_none(), output.success()),
        ("0\n", true, false),
        "{output:?}"
    );
}

#[tokio::test]
async fn the_variables_lead_to_the_proxy_and_those_of_the_configuration_win() {
    let mut config = allow(&["pypi.org".to_owned()]);
    config.environment.insert("ALL_PROXY".to_owned(), "mine".to_owned());
    let rig = Rig::with(config).await;
    assert_eq!(
        rig.ok("env | grep -i proxy | sort").await,
        "ALL_PROXY=mine\nHTTPS_PROXY=http://127.0.0.1:3128\nHTTP_PROXY=http://127.0.0.1:3128\nNODE_USE_ENV_PROXY=1\n\
         NO_PROXY=localhost,127.0.0.1,::1\nall_proxy=http://127.0.0.1:3128\nhttp_proxy=http://127.0.0.1:3128\n\
         https_proxy=http://127.0.0.1:3128\nno_proxy=localhost,127.0.0.1,::1\n"
    );
}

fn bwrap() -> Option<PathBuf> {
    let named = std::env::var_os("DEERFLOW_TEST_BWRAP").map(PathBuf::from);
    let found = named.unwrap_or_else(|| "/usr/bin/bwrap".into());
    if !found.exists() {
        eprintln!("SKIPPED: bwrap is not installed (DEERFLOW_TEST_BWRAP names another place)");
        return None;
    }
    // Never used as root; there the whole suite runs again as an ordinary user.
    (!is_root()).then_some(found)
}

#[tokio::test]
async fn the_second_tier_has_the_same_network() {
    let Some(bwrap) = bwrap() else { return };
    let (mine, other) = (web("mine"), web("other"));
    let dir = tempfile::tempdir().unwrap();
    let launcher = Launcher { namespaces: false, bwrap: Some(bwrap), ..launcher() };
    let provider = IsolatedProvider::start(dir.path(), allow(&[format!("127.0.0.1:{mine}")]), launcher).await.unwrap();
    assert_eq!(
        (provider.capability().tier, provider.capability().bash),
        (Tier::Bwrap, true),
        "{:?}",
        provider.capability()
    );
    let sandbox = provider.acquire("alice", "t1").await.unwrap();
    let run = |command: String| {
        let sandbox = sandbox.clone();
        async move { sandbox.execute(ExecRequest::new(command), CancellationToken::new()).await.unwrap() }
    };
    let get = |port: u16| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; printf 'GET http://127.0.0.1:{port}/x HTTP/1.1\\r\\n\\r\\n' >&3; tail -n 1 <&3"
        )
    };
    let output = run(get(mine)).await;
    assert_eq!(output.stdout, "mine /x\n", "{output:?}");
    let output = run(format!("{}; pwd; cat; exit 3", get(other))).await;
    assert!(
        output.stdout.contains("to allow it, add") && output.stdout.ends_with("/mnt/user-data/workspace\n"),
        "{output:?}"
    );
    assert_eq!(output.exit_code, Some(3));
    assert_eq!(output.network.unwrap().trouble.len(), 1);
    for command in [
        format!("exec 3<>/dev/tcp/127.0.0.1/{mine}"),
        "exec 3<>/dev/tcp/1.1.1.1/53".to_owned(),
        "exec 3<>/dev/udp/1.1.1.1/53 && echo x >&3".to_owned(),
    ] {
        assert!(!run(command.clone()).await.success(), "{command}");
    }
    // Neither the socket of the proxy nor that of the server is among the command's descriptors.
    let look = "readlink /proc/$$/fd/* | grep -c socket; echo x > /run/open-network; env | grep -c '^http_proxy'";
    let seen = run(look.to_owned()).await;
    assert_eq!(seen.stdout, "0\n1\n", "{seen:?}");
    let request = ExecRequest { timeout: Some(Duration::from_millis(500)), ..ExecRequest::new("sleep 100") };
    assert!(sandbox.execute(request, CancellationToken::new()).await.unwrap().timed_out);
}

#[tokio::test]
async fn a_second_tier_that_cannot_open_the_network_says_so() {
    let Some(bwrap) = bwrap() else { return };
    let dir = tempfile::tempdir().unwrap();
    // Not a program of ours: it never answers.
    let launcher = Launcher { bwrap: Some(bwrap), ..Launcher::program("/bin/true") };
    let provider = IsolatedProvider::start(dir.path(), allow(&["pypi.org".to_owned()]), launcher).await.unwrap();
    let capability = provider.capability();
    assert_eq!((capability.tier, capability.bash), (Tier::None, false), "{capability:?}");
    assert!(capability.reasons[1].contains("network: a trial command had no way to the proxy"), "{capability:?}");
}

#[tokio::test]
async fn a_kept_sandbox_has_a_proxy_for_each_of_its_commands() {
    let mine = web("mine");
    let rig = Rig::with(allow(&[format!("127.0.0.1:{mine}")])).await;
    let get = format!(
        "echo $http_proxy; exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; \
         printf 'GET http://127.0.0.1:{mine}/x HTTP/1.1\\r\\n\\r\\n' >&3; tail -n 1 <&3; (setsid sleep 100 <&3 &)"
    );
    for _ in 0..4 {
        let output = rig.run(&get).await;
        assert_eq!(output.stdout, "http://127.0.0.1:3128\nmine /x\n", "{output:?}");
        let network = output.network.unwrap();
        assert_eq!((network.connections, network.trouble.len()), (1, 0));
    }
}

#[tokio::test]
async fn the_tier_without_a_network_namespace_does_not_pretend_to_keep_to_a_list() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = Launcher { namespaces: false, bwrap: Some("/no/such/bwrap".into()), ..launcher() };
    let config = SandboxConfig { accept_landlock: true, ..allow(&["pypi.org".to_owned()]) };
    let provider = IsolatedProvider::start(dir.path(), config, launcher).await.unwrap();
    let capability = provider.capability();
    assert_eq!((capability.tier, capability.bash), (Tier::None, false), "{capability:?}");
    assert!(capability.reasons[2].contains("nothing keeps commands to sandbox.network.allow"), "{capability:?}");
}
