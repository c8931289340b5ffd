//! A notification on the user's desktop, shown by the desktop's own program.

use std::process::{Command, Stdio};

use crate::programs;

/// What happened to a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotificationOutcome {
    OnDesktop,
    /// There is no `notify-send` or `osascript`, or it failed, as it does without a desktop.
    Nowhere,
}

/// Shows a short text and waits until the desktop has accepted it. Both texts are passed as arguments, so that nothing
/// in them is read as a command.
pub fn show(title: &str, text: &str) -> NotificationOutcome {
    let run_quietly = |mut command: Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let shown = if let Some(program) = programs::find("notify-send") {
        let mut command = Command::new(program);
        command.args(["--app-name", "WorkRail", "--", title, text]);
        run_quietly(command)
    } else if let Some(program) = programs::find("osascript") {
        let mut command = Command::new(program);
        command.args(["-e", "on run argv"]);
        command.args(["-e", "display notification (item 2 of argv) with title (item 1 of argv)"]);
        command.args(["-e", "end run", title, text]);
        run_quietly(command)
    } else {
        false
    };
    if shown { NotificationOutcome::OnDesktop } else { NotificationOutcome::Nowhere }
}
