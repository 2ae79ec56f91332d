//! A person at a terminal: what they type while a run works, and at a question.

use crate::support::{DEADLINE, World, story};
use deerflow_testkit::{Gate, Turn, call};
use nix::pty::{Winsize, openpty};
use pretty_assertions::assert_eq;
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub(crate) struct Typist {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
}

impl Typist {
    /// Starts the binary on a terminal.
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        let (mut master, slave) = (File::from(pty.master), File::from(pty.slave));
        let mut command: Command = world.command(args);
        command.env("TERM", "xterm").env("NO_COLOR", "1");
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        let child = command.spawn().unwrap();
        // The terminal ends with the last process that has it open.
        drop(command);
        let keyboard = master.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let seen = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = master.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, keyboard, screen }
    }
    pub(crate) fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }
    /// Waits until this stands on the screen so often.
    pub(crate) async fn sees(&self, text: &str, times: usize) {
        let started = Instant::now();
        while self.screen.lock().unwrap().matches(text).count() < times {
            assert!(started.elapsed() < DEADLINE, "no {text:?} in {}", self.screen.lock().unwrap());
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    fn interrupt(&self) {
        let status = Command::new("kill").arg("-INT").arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }
    pub(crate) async fn ends(mut self, code: i32) -> String {
        let status = tokio::task::spawn_blocking(move || self.child.wait().unwrap()).await.unwrap();
        let screen = self.screen.lock().unwrap().clone();
        assert_eq!(status.code(), Some(code), "{screen}");
        screen
    }
}

fn asks() -> Turn {
    Turn::calls([call("ask_clarification", json!({"question": "Which?", "options": ["red", "blue"]}))])
}

const QUESTION: &str = "a number picks an option";

#[tokio::test]
async fn a_typed_line_steers_the_run() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(Turn::text("first").hold(&gate));
    world.model().push(Turn::text("second"));
    let mut person = Typist::start(&world, &["run", "go", "--thread", "t"]);
    gate.reached().await;
    // Enter alone keeps the screen still for the line that comes.
    person.types("\n");
    person.sees("say > ", 1).await;
    person.types("and more\n");
    person.sees("queued for its next turn: and more", 1).await;
    gate.open();
    let screen = person.ends(0).await;
    assert!(screen.contains("» and more"), "{screen}");
    assert_eq!(story(&world.state("t").await), ["human: go", "ai: first", "human: and more", "ai: second"]);
}

/// One reader: the line typed during the run steers it, the one typed at the question answers it.
#[tokio::test]
async fn lines_go_where_they_were_typed() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(asks().hold(&gate));
    world.model().push(Turn::text("done"));
    let mut person = Typist::start(&world, &["run", "go", "--thread", "t"]);
    gate.reached().await;
    person.types("in oil\n");
    person.sees("queued for its next turn: in oil", 1).await;
    // The end of input during a run is none at the question.
    person.types("\u{4}");
    gate.open();
    person.sees(QUESTION, 1).await;
    person.types("2\n");
    person.ends(0).await;
    let story = story(&world.state("t").await);
    assert_eq!(story[story.len() - 2..], ["human: in oil", "ai: done"], "{story:?}");
    let request = &world.model().agent_requests()[1];
    assert!(request.messages().iter().any(|m| m["content"].to_string().contains("blue")), "{:?}", request.messages());
    world.model().assert_legal();
}

/// Queued when the last turn was over already, while the goal was judged: a person at the terminal gets an answer all the
/// same, without asking again.
#[tokio::test]
async fn what_came_too_late_begins_the_next_run() {
    let world = World::scripted().await;
    let gate = Gate::new();
    let verdict = json!({"satisfied": true, "blocker": "none", "reason": "there"}).to_string();
    world.model().push(Turn::text("first"));
    world.model().push_auxiliary(Turn::text(verdict).hold(&gate));
    world.model().push(Turn::text("second"));
    let mut person = Typist::start(&world, &["run", "--goal", "go", "--thread", "t"]);
    gate.reached().await;
    person.types("one thing more\n");
    person.sees("queued for its next turn: one thing more", 1).await;
    gate.open();
    person.ends(0).await;
    assert_eq!(story(&world.state("t").await), ["human: go", "ai: first", "human: one thing more", "ai: second"]);
    world.model().assert_legal();
}

#[tokio::test]
async fn at_a_question_ctrl_d_is_no_answer_and_ctrl_c_ends() {
    let world = World::scripted().await;
    world.model().push(asks());
    let mut person = Typist::start(&world, &["run", "go", "--thread", "t"]);
    person.sees(QUESTION, 1).await;
    person.types("\u{4}");
    assert!(person.ends(3).await.contains("no answer; give it later with"));
    world.model().push(asks());
    let person = Typist::start(&world, &["run", "go", "--thread", "u"]);
    person.sees(QUESTION, 1).await;
    person.interrupt();
    person.ends(130).await;
    let gate = Gate::new();
    world.model().push(Turn::hang(&gate));
    let person = Typist::start(&world, &["run", "go", "--thread", "v"]);
    gate.reached().await;
    person.interrupt();
    assert!(person.ends(130).await.contains("deerflow resume v"));
}
