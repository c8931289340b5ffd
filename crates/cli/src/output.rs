//! The only place that prints: colour with meaning, readable without it, safe in any terminal.

use std::io::Write;

use anstream::{eprintln, println};
use anstyle::{AnsiColor, Color, Style};

/// What a stretch of text is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tone {
    Heading,
    Good,
    Warning,
    Quiet,
}

fn style(tone: Tone) -> Style {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(Color::Ansi(colour)));
    match tone {
        Tone::Heading => Style::new().bold(),
        Tone::Good => colour(AnsiColor::Green),
        Tone::Warning => colour(AnsiColor::Yellow),
        Tone::Quiet => Style::new().dimmed(),
    }
}

/// Stored text may hold escape sequences; a terminal must not obey them.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

pub(crate) fn line(text: &str) {
    println!("{}", printable(text));
}

pub(crate) fn toned(tone: Tone, text: &str) {
    let style = style(tone);
    println!("{style}{}{style:#}", printable(text));
}

/// Text that carries its own colours; whatever it quotes was made printable by its renderer.
pub(crate) fn rendered(text: &str) {
    println!("{text}");
}

/// One JSON document, indented, for machines and people.
pub(crate) fn json(value: &serde_json::Value) {
    // The alternate form indents; strings are escaped, so no control character reaches the terminal.
    println!("{value:#}");
}

pub(crate) fn error(text: &str) {
    eprintln!("{}", printable(text));
}

/// A line on stderr that nobody may be there to read: a server survives a closed stderr.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", printable(text));
}
