//! Runs a program for a limited time, and keeps a limited part of what it prints.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

const POLL_EVERY: Duration = Duration::from_millis(5);
/// How long to wait for the end of the outputs, which something that the program started may keep open.
const DRAIN_MAX: Duration = Duration::from_millis(500);

/// The limits of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimits {
    pub(crate) ms: u64,
    /// Of each of the two outputs; the rest is not read.
    pub(crate) printed_bytes: u64,
}

/// What a program that ended by itself printed.
pub(crate) struct RunOutput {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the program with this input; the error says why it did not end by itself.
pub(crate) fn run(mut command: Command, input: String, limits: RunLimits) -> Result<RunOutput, String> {
    let deadline = Instant::now() + Duration::from_millis(limits.ms);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let pipes = connect(&mut child, input, limits.printed_bytes).map_err(|error| {
        end(&mut child);
        error.to_string()
    })?;
    let code = ended(&mut child, deadline, limits.ms)?;
    pipes.drain(deadline.min(Instant::now() + DRAIN_MAX));
    Ok(RunOutput { code, out: text(&pipes.out), err: text(&pipes.err) })
}

type OutputBuffer = Arc<Mutex<Vec<u8>>>;

/// What the program prints, read by threads.
struct OutputPipes {
    out: OutputBuffer,
    err: OutputBuffer,
    /// Disconnected when both outputs have ended.
    open: Receiver<()>,
}

impl OutputPipes {
    fn drain(&self, deadline: Instant) {
        // Nothing is sent: it ends with the last sender or at the deadline.
        let _ = self.open.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

/// Writes and reads on threads. Fails if the machine has none to spare.
fn connect(child: &mut Child, input: String, printed_max: u64) -> io::Result<OutputPipes> {
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input closes the pipe; that is not an error.
        thread::Builder::new().spawn(move || drop(stdin.write_all(input.as_bytes())))?;
    }
    let (sender, open) = mpsc::channel();
    let out = collected(child.stdout.take(), printed_max, sender.clone())?;
    let err = collected(child.stderr.take(), printed_max, sender)?;
    Ok(OutputPipes { out, err, open })
}

/// What is read from a pipe, up to a limit.
fn collected(
    pipe: Option<impl Read + Send + 'static>,
    max: u64,
    open: Sender<()>,
) -> io::Result<OutputBuffer> {
    let buffer = OutputBuffer::default();
    let filled = Arc::clone(&buffer);
    let work = move || {
        let _open = open;
        let Some(pipe) = pipe else { return };
        let mut pipe = pipe.take(max);
        let mut chunk = [0; 8 * 1024];
        while let Ok(read) = pipe.read(&mut chunk)
            && read > 0
        {
            filled.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..read]);
        }
    };
    thread::Builder::new().spawn(work).map(|_| buffer)
}

fn text(buffer: &OutputBuffer) -> String {
    String::from_utf8_lossy(&buffer.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

/// Waits for the program's exit code; at the deadline its whole process group is killed.
fn ended(child: &mut Child, deadline: Instant, limit_ms: u64) -> Result<Option<i32>, String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.code()),
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL_EVERY),
            Ok(None) => {
                end(child);
                return Err(format!("it did not end within {} seconds", limit_ms / 1000));
            }
            Err(error) => {
                end(child);
                return Err(error.to_string());
            }
        }
    }
}

/// Kills a program, and the process group if it leads one, and waits for its end; it may have ended already.
pub(crate) fn end(child: &mut Child) {
    // Not reaped yet, so the id still belongs to this group.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    // It is in another group if it was started without one.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use rustix::process::kill_process;

    use super::*;

    const LIMITS: RunLimits = RunLimits { ms: 60_000, printed_bytes: 1024 };

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_exit_code_are_returned() {
        let ran = run(shell("cat; echo problem >&2; exit 3"), "input".to_owned(), LIMITS).unwrap();
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(3), "input", "problem\n"));
    }

    #[test]
    fn output_beyond_the_limit_is_not_kept() {
        let ran = run(shell("head -c 5000 /dev/zero"), String::new(), LIMITS).unwrap();
        assert_eq!(ran.out.len(), 1024);
    }

    /// Broke: it was waited for until the time limit, twice, and the output was lost.
    #[test]
    fn a_process_left_in_the_background_hides_no_output() {
        let ran = run(shell("echo tool 1.2; sleep 600 & echo $! >&2"), String::new(), LIMITS).unwrap();
        let left = Pid::from_raw(ran.err.trim().parse().unwrap()).unwrap();
        kill_process(left, Signal::KILL).unwrap();
        assert_eq!(ran.out, "tool 1.2\n");
    }

    /// Broke: a program without a process group of its own was waited for until it ended by itself.
    #[test]
    fn a_program_without_a_process_group_is_ended_too() {
        let mut child = shell("exec sleep 600").spawn().unwrap();
        end(&mut child);
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }

    /// Broke: only the shell was ended.
    #[test]
    fn everything_in_the_process_group_ends_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let id = folder.path().join("id");
        let script = format!("sleep 600 & echo $! >'{}'; wait", id.display());
        let failed = run(shell(&script), String::new(), RunLimits { ms: 1000, ..LIMITS });
        assert_eq!(failed.err().as_deref(), Some("it did not end within 1 seconds"));
        let id = std::fs::read_to_string(id).unwrap();
        let status = || std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        // A signal takes effect a moment later.
        let killed = Instant::now();
        while !(status().is_empty() || status().contains(") Z ")) {
            assert!(killed.elapsed() < Duration::from_secs(60), "{}", status());
            thread::yield_now();
        }
    }
}
