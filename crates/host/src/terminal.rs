//! The terminal that a command writes to: how much room there is.

use std::io::{IsTerminal as _, stdout};

use rustix::termios::tcgetwinsize;

use crate::env_vars;

/// Narrower than this, nothing can be laid out.
const COLUMNS_MIN: usize = 20;

/// How many columns standard output has: what `COLUMNS` says, else what the terminal says. `None` for a file or a pipe,
/// which take lines of any length.
pub fn columns() -> Option<usize> {
    let named = env_vars::COLUMNS.get().and_then(|text| text.parse::<usize>().ok()).filter(|own| *own > 0);
    named.or_else(|| size().map(|(columns, _)| columns)).map(|columns| columns.max(COLUMNS_MIN))
}

/// How many lines the terminal shows at once; `None` where standard output is no terminal.
pub fn rows() -> Option<usize> {
    size().map(|(_, rows)| rows)
}

fn size() -> Option<(usize, usize)> {
    let stdout = stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = tcgetwinsize(&stdout).ok()?;
    // A terminal that does not know its size says 0.
    (size.ws_col > 0 && size.ws_row > 0).then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}
