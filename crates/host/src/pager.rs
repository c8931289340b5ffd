//! A pager for long output, between standard output and the terminal.

use std::fs::File;
use std::io;
use std::process::{Child, Command, Stdio};

use camino::Utf8PathBuf;
use rustix::stdio::dup2_stdout;

use crate::{env_vars, programs};

const USUAL: &str = "less";
/// Exit at once if everything fits on one screen, show colours, and leave the text on the screen.
const LESS_OPTIONS: &str = "FRX";

/// A running pager that has replaced standard output.
#[derive(Debug)]
pub struct Pager {
    child: Child,
}

impl Pager {
    /// Starts the user's pager and redirects standard output to it. `None` if there is none, or if `PAGER` is `cat` or
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

    /// Closes the pager's input and waits until the user quits it.
    pub fn finish(mut self) -> io::Result<()> {
        // The pager reads until every writer has closed the pipe.
        let nowhere = File::options().write(true).open("/dev/null")?;
        dup2_stdout(&nowhere)?;
        self.child.wait().map(drop)
    }
}
