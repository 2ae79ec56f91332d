//! The command line as people type it.

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  deerflow run \"Find the main reasons why sales fell and write a review\" -f notes.pdf -o out/
  deerflow run - --thread my-thread --json < prompt.txt
  deerflow run --goal \"The report names three causes, each with its source\" -f notes.pdf
  deerflow steer my-thread \"look at the last quarter as well\"
  deerflow resume my-thread
  deerflow models

With no configuration, a key in the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, …)
picks the model; with none, the built-in offline model answers. Files, threads and the
database live in DEER_FLOW_HOME (default ~/.deer-flow).

Exit codes: 0 done, 1 run failed, 2 wrong usage or configuration,
3 needs an answer from you, 130 interrupted.";

/// Give it a task and files; it plans, works in its own isolated computer, and hands back finished work.
#[derive(Debug, Parser)]
#[command(name = "deerflow", version, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    /// Configuration file [default: $DEER_FLOW_CONFIG_PATH, ./config.yaml, then config.yaml in DEER_FLOW_HOME]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Do a task
    Run(RunArgs),
    /// Go on with a thread's last run, if it was cut off, stopped, waits for your answer, or its model failed
    Resume(ResumeArgs),
    /// Run the server: the API that LangGraph clients and the web client use
    Serve(ServeArgs),
    /// Tell a run something while it works; it hears it before its next model turn
    Steer {
        /// The thread
        thread: String,
        /// What to say; `-` reads it from standard input
        text: String,
    },
    /// Show or end the goal of a conversation
    #[command(subcommand)]
    Goal(GoalCommand),
    /// List, show, fork, undo or delete conversations
    #[command(subcommand)]
    Threads(ThreadsCommand),
    /// Manage the accounts of the server
    #[command(subcommand)]
    Users(UsersCommand),
    /// Manage personal keys, with which programs use the server
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Show the models there are to choose from
    Models {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Look at how the agent is built
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Check the configuration, or print its JSON Schema
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check everything a newcomer trips on: home, database, sandbox, model
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a completion script for your shell
    Completions {
        /// Shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to do; `-` reads it from standard input
    #[arg(required_unless_present = "goal")]
    pub(crate) prompt: Option<String>,
    /// Go on by itself until this is reached; the task as well, when no other prompt is given
    #[arg(long, value_name = "OBJECTIVE")]
    pub(crate) goal: Option<String>,
    /// Automatic turns towards the goal
    #[arg(long, value_name = "N", requires = "goal", value_parser = clap::value_parser!(u32).range(0..=8))]
    pub(crate) max_continuations: Option<u32>,
    /// Let the agent read your earlier conversations
    #[arg(long)]
    pub(crate) recall: bool,
    /// A file to work on; may be given several times
    #[arg(short, long = "file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Folder for the delivered files; made if it does not exist
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Conversation to go on with, or the name of a new one (letters, digits, - and _)
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Model by its configured name; `deerflow models` lists them
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Custom agent from DEER_FLOW_HOME/users/default/agents/NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Write a plan first and keep it up to date
    #[arg(long)]
    pub(crate) plan: bool,
    /// Let the model think first: on, off, or how hard
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "on", require_equals = true,
          value_parser = ["on", "off", "minimal", "low", "medium", "high"])]
    pub(crate) thinking: Option<String>,
    /// Model turns this run may take
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; anything but loopback is open to the network
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 2026)]
    pub(crate) port: u16,
    /// Open the browser
    #[arg(long)]
    pub(crate) open: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The thread
    pub(crate) thread: String,
    /// Answer what the run waits for: `approve`, `reject`, or JSON
    #[arg(long, value_name = "ANSWER")]
    pub(crate) answer: Option<String>,
    /// Folder for the delivered files
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ShowArgs {
    /// Print one JSON object per event
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,
    /// Print the answer only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl ShowArgs {
    /// Whether there is a person who can be asked.
    pub(crate) fn can_ask(self) -> bool {
        use std::io::IsTerminal as _;
        !self.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum GoalCommand {
    /// Show how the goal of a conversation stands
    Show {
        /// The thread
        thread: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End the goal; the conversation stays
    Clear {
        /// The thread
        thread: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ThreadsCommand {
    /// List conversations, most recently used first
    List {
        /// How many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a conversation
    Show {
        /// The thread
        thread: String,
        /// Print the whole state as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the checkpoints of a conversation, newest first
    History {
        /// The thread
        thread: String,
        /// How many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy a conversation with its files into a new one that goes its own way
    Fork {
        /// The thread
        thread: String,
        /// Last checkpoint to copy, as `threads history` shows it [default: the newest]
        #[arg(long, value_name = "CHECKPOINT")]
        at: Option<String>,
        /// Name of the new thread (letters, digits, - and _) [default: a random one]
        #[arg(long, value_name = "ID")]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take back the last run of a conversation; the files that it made stay
    Undo {
        /// The thread
        thread: String,
    },
    /// Make room in a conversation now: its older messages are replaced by a summary
    Compact {
        /// The thread
        thread: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Mark a conversation for another storage mode (`database.checkpoint_channel_mode`)
    Migrate {
        /// The thread
        thread: String,
        /// The mode
        #[arg(long, value_name = "MODE", value_parser = ["full", "delta"])]
        to: String,
    },
    /// Delete the conversations that were not used for long, with their files
    Prune {
        /// Age since the last use: a number with s, m, h, d or w, as in 30d
        #[arg(long, value_name = "AGE", value_parser = parse_age)]
        older_than: Duration,
        /// Only say which ones these are
        #[arg(long)]
        dry_run: bool,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Delete a conversation with its history and files
    Delete {
        /// The thread
        thread: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum UsersCommand {
    /// List accounts, oldest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make an account; its password is made up and shown once, unless you give one
    Create {
        /// Address to log in with
        email: String,
        /// It administers the installation
        #[arg(long)]
        admin: bool,
        /// Read the password from standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Give an account a new password; its sessions end
    Reset {
        /// Address of the account
        email: String,
        /// Read the password from standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Change what an account may do
    Role {
        /// Address of the account
        email: String,
        /// The role
        #[arg(value_name = "ROLE", value_parser = ["admin", "user"])]
        role: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key; it is shown once
    Create {
        /// Your name for it
        name: String,
        /// Address of its owner's account [default: the first account]
        #[arg(long, value_name = "EMAIL")]
        user: Option<String>,
        /// How long it holds: a number with s, m, h, d or w, as in 90d [default: for ever]
        #[arg(long, value_name = "AGE", value_parser = parse_age)]
        expires_in: Option<Duration>,
        /// Print the key alone
        #[arg(short, long)]
        quiet: bool,
    },
    /// List keys, newest first
    List {
        /// Address of their owner's account [default: the first account]
        #[arg(long, value_name = "EMAIL")]
        user: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key
    Revoke {
        /// Its id or its first characters, as `keys list` shows them
        key: String,
        /// Address of its owner's account [default: the first account]
        #[arg(long, value_name = "EMAIL")]
        user: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Print the middlewares in order, outermost first, with the reason for each place
    Chain {
        /// As in plan mode
        #[arg(long)]
        plan: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the configuration file and say everything that is wrong with it
    Check,
    /// Print the JSON Schema of the configuration file
    Schema,
}

/// `45s`, `90m`, `12h`, `30d`, `2w`.
fn parse_age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no age; write a number with s, m, h, d or w, as in 30d");
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).filter(|_| number > 0).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(parse_age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse_age("90m"), Ok(Duration::from_secs(5400)));
        for bad in ["", "d", "30", "-1d", "0d", "3 d", "1y", "99999999999999999999d", "30天"] {
            assert!(parse_age(bad).is_err(), "{bad}");
        }
    }
}
