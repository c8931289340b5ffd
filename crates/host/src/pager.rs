//! A pager for long output: what is printed goes through it to the terminal.

use std::fs::File;
use std::io;
use std::process::{Child, Command, Stdio};

use camino::Utf8PathBuf;
use rustix::stdio::dup2_stdout;

use crate::{env_vars, programs};

const USUAL: &str = "less";
/// Ends at once when everything fits one screen, shows colours, and leaves the text on the screen.
const LESS_OPTIONS: &str = "FRX";

/// A running pager that has taken the place of standard output.
#[derive(Debug)]
pub struct Pager {
    child: Child,
}

impl Pager {
    /// Starts the user's pager and sends standard output to it. `None` where there is none, or where `PAGER` is `cat` or
    /// empty: then output goes where it went before.
    pub fn start() -> Option<Self> {
        let named = std::env::var(env_vars::PAGER.name).unwrap_or_else(|_| USUAL.to_owned());
        let mut words = named.split_whitespace();
        let program = words.next().filter(|program| *program != "cat")?;
        let program = match program.contains('/') {
            true => Utf8PathBuf::from(program),
            false => programs::find(program)?,
        };
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", LESS_OPTIONS);
        }
        let mut child = command.spawn().ok()?;
        let pipe = child.stdin.take()?;
        dup2_stdout(&pipe).ok()?;
        Some(Self { child })
    }

    /// Tells the pager that nothing more comes, and waits until the reader has left it.
    pub fn finish(mut self) -> io::Result<()> {
        // The pager reads until nobody can write any more.
        let nowhere = File::options().write(true).open("/dev/null")?;
        dup2_stdout(&nowhere)?;
        self.child.wait().map(drop)
    }
}
