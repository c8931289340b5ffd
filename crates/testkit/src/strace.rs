//! Whether `strace` can be used here, to kill a program at a system call or to make one fail.

use std::process::{Command, Stdio};

/// Whether the user who runs the tests may trace system calls.
pub fn may_trace() -> bool {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "true"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
