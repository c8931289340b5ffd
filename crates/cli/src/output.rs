//! The only place that prints: colours carry meaning, but text is readable without them and safe in any terminal.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Color, Style};
use camino::Utf8Path;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::runtime::{self, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use workrail_host::pager::Pager;
use workrail_host::terminal;
use workrail_model::text::clean;

use crate::layout::{self, Column, ColumnFit};

/// The purpose of a piece of text.
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

/// A line and its purpose.
#[derive(Clone, Debug)]
pub(crate) struct OutputLine {
    tone: Option<Tone>,
    text: String,
}

impl OutputLine {
    pub(crate) fn plain(text: &str) -> Self {
        Self { tone: None, text: text.to_owned() }
    }

    pub(crate) fn toned(tone: Tone, text: &str) -> Self {
        Self { tone: Some(tone), text: text.to_owned() }
    }
}

pub(crate) fn print(line: &OutputLine) {
    print_all(std::slice::from_ref(line));
}

/// Many lines in one write.
pub(crate) fn print_all(lines: &[OutputLine]) {
    assert_prose_is_expected();
    let mut text = String::new();
    for line in lines {
        let style = line.tone.map(style).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{style}{}{style:#}", clean(&line.text));
    }
    write_all(&text);
}

/// When output has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colours {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

/// Applies to everything printed from now on.
pub(crate) fn set_colours(when: Colours) {
    match when {
        Colours::Auto => {}
        Colours::Always => anstream::ColorChoice::Always.write_global(),
        Colours::Never => anstream::ColorChoice::Never.write_global(),
    }
}

/// Whether the command was called with `--json`: standard output then contains JSON and nothing else.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Whether a JSON document was printed.
static HAS_DOCUMENT: AtomicBool = AtomicBool::new(false);

/// From now on, prose on standard output is a mistake of the program.
pub(crate) fn expect_json() {
    IS_JSON.store(true, Ordering::Relaxed);
}

fn assert_prose_is_expected() {
    debug_assert!(!IS_JSON.load(Ordering::Relaxed), "prose on standard output of a command with --json");
}

/// A command with `--json` prints a document however it ends.
pub(crate) fn assert_document() {
    debug_assert!(HAS_DOCUMENT.load(Ordering::Relaxed) || is_closed(), "--json printed no document");
}

/// Whether standard output was a terminal before a pager replaced it.
static IS_TERMINAL: OnceLock<bool> = OnceLock::new();

/// Whether a user reads the output, also through a pager.
pub(crate) fn is_terminal() -> bool {
    *IS_TERMINAL.get_or_init(|| io::stdout().is_terminal())
}

/// The terminal's width before a pager replaced it.
static COLUMNS: OnceLock<Option<usize>> = OnceLock::new();

/// The number of columns; `None` in a file or a pipe.
pub(crate) fn columns() -> Option<usize> {
    *COLUMNS.get_or_init(terminal::columns)
}

/// The pager, and the signal handler that keeps Ctrl-C from ending this process while it runs.
pub(crate) struct Paged {
    pager: Pager,
    /// Never read: a handled signal does not end the process.
    _interrupts: Option<Interrupts>,
}

impl Paged {
    /// Waits until the user has left the pager.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.pager.finish()
    }
}

/// Replaces the usual effect of Ctrl-C. The terminal also sends it to the pager, which handles it: `less` stops a
/// search and stays. If this process ended, the pager would lose the keyboard to the shell.
struct Interrupts {
    _signals: Signal,
    _runtime: Runtime,
}

impl Interrupts {
    fn taken() -> io::Result<Self> {
        workrail_mcp::check_open_files()?;
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let signals = {
            let _entered = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        Ok(Self { _signals: signals, _runtime: runtime })
    }
}

/// Sends the output through the user's pager if standard output is a terminal. Width and colours stay those of the
/// terminal.
pub(crate) fn page() -> Option<Paged> {
    // A pager needs a terminal that a user can operate.
    let can_page = std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb");
    if !can_page || !is_terminal() || !io::stdin().is_terminal() {
        return None;
    }
    columns();
    anstream::AutoStream::choice(&io::stdout()).write_global();
    // Before the pager starts: Ctrl-C may come at once. A started process gets the default handlers back.
    let interrupts = Interrupts::taken().ok();
    Some(Paged { pager: Pager::start()?, _interrupts: interrupts })
}

/// A line that names a file. Terminals that support links open it with a click.
pub(crate) fn file(tone: Tone, before: &str, path: &Utf8Path, after: &str) {
    assert_prose_is_expected();
    let style = style(tone);
    let address =
        std::path::absolute(path).map(|whole| encoded(&whole.to_string_lossy())).unwrap_or_default();
    let name = clean(path.as_str());
    let link = format!("\u{1b}]8;;file://{address}\u{1b}\\{name}\u{1b}]8;;\u{1b}\\");
    out(format_args!("{style}{}{link}{}{style:#}", clean(before), clean(after)));
}

/// A path, encoded for a URL.
fn encoded(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._~-".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Draws lines over the screen from its top, without flicker: nothing is cleared that is drawn again. Moves the
/// cursor even without colours.
pub(crate) fn redraw(lines: &[OutputLine]) {
    const TOP: &str = "\u{1b}[H";
    const REST_OF_LINE: &str = "\u{1b}[K\n";
    const REST_OF_SCREEN: &str = "\u{1b}[J";
    let drawn = (|| {
        io::stdout().write_all(TOP.as_bytes())?;
        for line in lines {
            let style = line.tone.map(style).unwrap_or_default();
            write!(anstream::stdout(), "{style}{}{style:#}", clean(&line.text))?;
            io::stdout().write_all(REST_OF_LINE.as_bytes())?;
        }
        io::stdout().write_all(REST_OF_SCREEN.as_bytes())?;
        io::stdout().flush()
    })();
    if let Err(error) = drawn {
        failed(&error);
    }
}

/// A line that is flushed immediately, also in a pipe.
pub(crate) fn line_now(text: &str) {
    line(text);
    flush();
}

/// One JSON document on one line, flushed immediately.
pub(crate) fn json_line(value: &serde_json::Value) {
    HAS_DOCUMENT.store(true, Ordering::Relaxed);
    out(format_args!("{value}"));
    flush();
}

/// The answer to a host that called a hook. Errors are ignored if the host is gone or its pipe is full.
pub(crate) fn for_host(answer: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout
        .write_all(answer.as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush());
}

/// Rings the terminal's bell.
pub(crate) fn ring() {
    // No terminal may be attached.
    let _ = stderr().write_all(b"\x07");
}

/// Writes a line, or a document of several, to standard output.
fn out(line: std::fmt::Arguments<'_>) {
    write_all(&format!("{line}\n"));
}

/// Writes to standard output, or ends the process: without its output a command has failed. In one piece, because
/// standard output flushes every line separately.
fn write_all(text: &str) {
    if is_closed() {
        return;
    }
    if let Err(error) = anstream::stdout().lock().write_all(text.as_bytes()) {
        failed(&error);
    }
}

/// A reader that closed the pipe, such as `head`, wanted no more to read: the command continues its work without
/// output. Anything else is a failure, such as a full disk.
fn failed(cause: &io::Error) {
    if cause.kind() == ErrorKind::BrokenPipe {
        IS_CLOSED.store(true, Ordering::Relaxed);
        return;
    }
    error(&format!("Standard output cannot be written: {cause}."));
    std::process::exit(1);
}

/// Whether the reader of standard output has closed it.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether nobody reads the output any more. A command that only shows something can end.
pub(crate) fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// Flushes the buffered output; `main` does so at the end of every command.
pub(crate) fn flush() {
    if let Err(error) = io::stdout().flush() {
        failed(&error);
    }
}

/// Writes raw bytes to standard output completely.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        failed(&error);
    }
}

pub(crate) fn line(text: &str) {
    assert_prose_is_expected();
    out(format_args!("{}", clean(text)));
}

pub(crate) fn toned(tone: Tone, text: &str) {
    assert_prose_is_expected();
    let style = style(tone);
    out(format_args!("{style}{}{style:#}", clean(text)));
}

/// Text with its own colours; its renderer has sanitised whatever it quotes.
pub(crate) fn rendered(text: &str) {
    assert_prose_is_expected();
    out(format_args!("{text}"));
}

/// One indented JSON document, for programs and users.
pub(crate) fn json(value: &serde_json::Value) {
    HAS_DOCUMENT.store(true, Ordering::Relaxed);
    // The alternate form indents; strings are escaped, so no control character reaches the terminal.
    out(format_args!("{value:#}"));
}

/// Standard output for raw bytes: a document for a pipe.
pub(crate) fn raw() -> impl Write {
    io::stdout().lock()
}

/// Why the command failed, on stderr.
pub(crate) fn error(text: &str) {
    notice(text);
}

/// A line on stderr.
pub(crate) fn notice(text: &str) {
    // It may be closed, and there is no other place to report that. A server survives it.
    let _ = writeln!(anstream::stderr(), "{}", clean(text));
}

/// Rows under a heading, as wide as the terminal; without borders, so that programs can split it, too.
pub(crate) fn table(heading: &[&'static str], rows: impl IntoIterator<Item = Vec<String>>) {
    assert_prose_is_expected();
    let last = heading.len().saturating_sub(1);
    // The first column identifies the row and may be copied, so it is never cut.
    let fit = |index: usize| match index {
        0 => ColumnFit::Whole,
        index if index == last => ColumnFit::Cut { min: 12, good: 32 },
        _ => ColumnFit::Cut { min: 8, good: 16 },
    };
    let columns: Vec<Column> =
        heading.iter().enumerate().map(|(index, title)| Column { title, fit: fit(index) }).collect();
    let cell = |text: &String| clean(text).replace(['\n', '\t'], " ");
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.iter().map(cell).collect()).collect();
    if rows.is_empty() {
        return;
    }
    let room = self::columns().map(|columns| columns.saturating_sub(1));
    for line in layout::table(&columns, &rows, room) {
        out(format_args!("{}", format!(" {line}").trim_end()));
    }
}

/// A number with what it counts.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// The progress of a long command: shown on a terminal, and only after a second.
pub(crate) struct ProgressDisplay {
    bar: ProgressBar,
    since: Instant,
}

impl ProgressDisplay {
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

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
