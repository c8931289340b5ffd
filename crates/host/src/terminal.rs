//! The size of the terminal that a command writes to.

use std::io::{IsTerminal as _, stdout};

use rustix::termios::tcgetwinsize;

use crate::env_vars;

/// Narrower terminals cannot be laid out.
const COLUMNS_MIN: usize = 20;

/// The width of standard output: `COLUMNS`, else the terminal's. `None` for a file or a pipe, which take lines of any
/// length.
pub fn columns() -> Option<usize> {
    let named =
        env_vars::COLUMNS.get().and_then(|text| text.parse::<usize>().ok()).filter(|columns| *columns > 0);
    named.or_else(|| size().map(|(columns, _)| columns)).map(|columns| columns.max(COLUMNS_MIN))
}

/// The terminal's height; `None` if standard output is not a terminal.
pub fn rows() -> Option<usize> {
    size().map(|(_, rows)| rows)
}

fn size() -> Option<(usize, usize)> {
    let stdout = stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = tcgetwinsize(&stdout).ok()?;
    // A terminal that does not know its size reports 0.
    (size.ws_col > 0 && size.ws_row > 0).then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}
