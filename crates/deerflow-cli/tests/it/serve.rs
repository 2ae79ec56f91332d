//! `deerflow serve`, `users` and `keys`: from nothing to an answered request.

use crate::support::{DEADLINE, World};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc;

/// A server under way, and the lines that it has said.
struct Server {
    child: Child,
    address: String,
    said: Vec<String>,
}

impl Server {
    /// Starts it on a free port and reads until the line that begins with `until`.
    fn start(world: &World, variables: &[(&str, &str)], until: &str) -> Self {
        let mut command = world.command(&["serve", "--port", "0"]);
        command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut said: Vec<String> = Vec::new();
        while !said.last().is_some_and(|line| line.starts_with(until)) {
            said.push(lines.recv_timeout(DEADLINE).unwrap_or_else(|error| panic!("no {until:?}: {error}: {said:#?}")));
        }
        let address = said[0].split("http://").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        Self { child, address, said }
    }

    /// Status and body of a GET.
    fn get(&self, path: &str, header: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let host = &self.address;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{header}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_newcomer_is_told_what_to_do_and_a_key_opens_the_door() {
    let world = World::offline();
    let server = Server::start(&world, &[], "  or try it without login");
    assert!(server.said[1].ends_with("/setup") && server.said[1].contains(&server.address), "{:#?}", server.said);
    assert_eq!(server.get("/api/models", "").0, 401);
    assert!(server.get("/setup", "").1.contains("<form"));
    drop(server);

    let made = world.run(&["users", "create", "ann@example.com", "--admin"]).await.expect_code(0).stdout;
    assert!(
        made.contains("made the account ann@example.com (admin)") && made.contains("password, shown this once: "),
        "{made}"
    );
    let again = world.run(&["users", "create", "Ann@example.com"]).await.expect_code(2);
    assert!(again.stderr.contains("exists already"), "{}", again.stderr);
    let only = world.run(&["users", "role", "ann@example.com", "user"]).await.expect_code(2);
    assert!(only.stderr.contains("only administrator"), "{}", only.stderr);
    let listed: Value =
        serde_json::from_str(&world.run(&["users", "list", "--json"]).await.expect_code(0).stdout).unwrap();
    assert_eq!((&listed[0]["id"], &listed[0]["system_role"]), (&"default".into(), &"admin".into()));
    let reset = world.run(&["users", "reset", "nobody@example.com"]).await.expect_code(2);
    assert!(reset.stderr.contains("deerflow users list"), "{}", reset.stderr);

    let key = world.run(&["keys", "create", "laptop", "-q"]).await.expect_code(0).stdout.trim().to_owned();
    let server = Server::start(&world, &[], "Log in: ");
    let bearer = format!("Authorization: Bearer {key}\r\n");
    let (status, me) = server.get("/api/v1/auth/me", &bearer);
    assert_eq!((status, me.contains("ann@example.com")), (200, true), "{me}");
    let listed = world.run(&["keys", "list"]).await.expect_code(0).stdout;
    assert!(listed.contains(&key[..11]) && listed.contains("laptop") && !listed.contains(&key), "{listed}");
    world.run(&["keys", "revoke", &key[..11]]).await.expect_code(0);
    assert_eq!(server.get("/api/v1/auth/me", &bearer).0, 401);
    world.run(&["keys", "revoke", &key[..11]]).await.expect_code(2);
}

#[tokio::test]
async fn without_login_only_this_machine_is_served() {
    let world = World::offline();
    let off = [("DEER_FLOW_AUTH_DISABLED", "1")];
    let server = Server::start(&world, &off, "Login is off");
    assert_eq!(server.get("/api/models", "").0, 200);
    drop(server);

    let refused = |args: &[&str]| {
        let mut command = world.command(args);
        command.envs(off);
        command.output().unwrap()
    };
    let exposed = refused(&["serve", "--port", "0", "--host", "0.0.0.0"]);
    let said = String::from_utf8_lossy(&exposed.stderr).into_owned();
    assert_eq!((exposed.status.code(), said.contains("--host 127.0.0.1")), (Some(2), true), "{said}");
    world.home.write("config.yaml", "sandbox:\n  use: host\n  allow_host_bash: true\n");
    let unconfined = refused(&["serve", "--port", "0"]);
    let said = String::from_utf8_lossy(&unconfined.stderr).into_owned();
    assert_eq!((unconfined.status.code(), said.contains("the sandbox is `host`")), (Some(2), true), "{said}");
}

#[tokio::test]
async fn a_password_can_be_handed_in() {
    let world = World::offline();
    let create = |password: &str| {
        let mut command = world.command(&["users", "create", "bob@example.com", "--password-stdin"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (
            output.status.code(),
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        )
    };
    let (code, said) = create("password1\n");
    assert_eq!((code, said.contains("too common")), (Some(2), true), "{said}");
    let (code, said) = create("three grey herons\n");
    assert_eq!((code, said.contains("shown this once") || said.contains("herons")), (Some(0), false), "{said}");
}
