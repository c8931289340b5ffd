//! The only place that prints: colour with meaning, readable without it, safe in any terminal.

use std::io::{self, ErrorKind, IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Color, Style};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use workrail_model::text::clean;

/// What a stretch of text is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tone {
    Heading,
    Good,
    Warning,
    Bad,
    Quiet,
}

fn style(tone: Tone) -> Style {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(Color::Ansi(colour)));
    match tone {
        Tone::Heading => Style::new().bold(),
        Tone::Good => colour(AnsiColor::Green),
        Tone::Warning => colour(AnsiColor::Yellow),
        Tone::Bad => colour(AnsiColor::Red),
        Tone::Quiet => Style::new().dimmed(),
    }
}

/// Writes a line to standard output, or ends the process: without its output a command has not done its job.
fn out(line: std::fmt::Arguments<'_>) {
    let mut stdout = anstream::stdout().lock();
    if let Err(error) = writeln!(stdout, "{line}") {
        end(&error);
    }
}

/// A reader that went away, as `head` does, wanted no more. Anything else is a failure, such as a full disk.
fn end(failed: &io::Error) -> ! {
    if failed.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    error(&format!("Standard output cannot be written: {failed}."));
    std::process::exit(1);
}

/// Writes what is still buffered; called once, at the end of a command.
pub(crate) fn flush() {
    if let Err(error) = io::stdout().flush() {
        end(&error);
    }
}

/// Standard output for bytes that are no text of ours, written whole.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        end(&error);
    }
}

pub(crate) fn line(text: &str) {
    out(format_args!("{}", clean(text)));
}

pub(crate) fn toned(tone: Tone, text: &str) {
    let style = style(tone);
    out(format_args!("{style}{}{style:#}", clean(text)));
}

/// Text that carries its own colours; whatever it quotes was made printable by its renderer.
pub(crate) fn rendered(text: &str) {
    out(format_args!("{text}"));
}

/// One JSON document, indented, for machines and people.
pub(crate) fn json(value: &serde_json::Value) {
    // The alternate form indents; strings are escaped, so no control character reaches the terminal.
    out(format_args!("{value:#}"));
}

/// Standard output for bytes that are no text of ours: a document that goes into a pipe.
pub(crate) fn raw() -> impl Write {
    io::stdout().lock()
}

pub(crate) fn error(text: &str) {
    // Nobody may be there to read it, and there is no other place to say so.
    let _ = writeln!(anstream::stderr(), "{}", clean(text));
}

/// A line on stderr that nobody may be there to read: a server survives a closed stderr.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", clean(text));
}

/// Rows under a heading, aligned; no borders, so that it can be read and cut alike.
pub(crate) fn table(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(heading.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(|cell| clean(cell)));
    }
    for line in table.to_string().lines() {
        out(format_args!("{}", line.trim_end()));
    }
}

/// How far a long command has come: shown on a terminal, and only once it has taken a second.
pub(crate) struct Progress {
    bar: ProgressBar,
    since: Instant,
}

impl Progress {
    pub(crate) fn new(what: &str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:32} {pos}/{len}") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Self { bar, since: Instant::now() }
    }

    pub(crate) fn at(&self, done: u64) {
        if self.bar.is_hidden() && stderr().is_terminal() && self.since.elapsed() >= Duration::from_secs(1) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
