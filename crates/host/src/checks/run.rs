//! Runs a trusted check under its supervisor: limited time, limited output, three environment variables (G122).

use std::io::{self, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use workrail_model::evidence::{ClippedOutput, Confinement, EndedProcess, ProcessEnding};
use workrail_ports::checks::{CheckRunError, ReadyCheck};

use super::supervisor::{ARGUMENT, Job, SupervisorReport};

/// The environment variables passed to a check.
const VARIABLES: [&str; 3] = ["PATH", "HOME", "LANG"];
/// How often to check whether the time limit has passed.
const POLL_EVERY: Duration = Duration::from_millis(100);
const TICK_EVERY: Duration = Duration::from_secs(1);
/// A supervisor that has not ended this long after it was asked to is killed.
const ENDING_MAX: Duration = Duration::from_secs(5);
/// How long to wait for remaining output after a check has ended.
const OUTPUT_MAX: Duration = Duration::from_millis(500);
const REPORT_BYTES_MAX: u64 = 64 * 1024;

/// A check whose command was confirmed as trusted.
pub(super) struct TrustedCheck {
    pub(super) job: Job,
    /// Set when the server shuts down.
    pub(super) ending: Arc<AtomicBool>,
}

/// Why the wait for a supervisor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitEnd {
    Ended,
    TimedOut,
    ServerEnds,
}

impl ReadyCheck for TrustedCheck {
    fn run(
        &self,
        time_limit: Duration,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<EndedProcess, CheckRunError> {
        if self.ending.load(Ordering::SeqCst) {
            return Err(CheckRunError::Interrupted);
        }
        let not_started = |problem: String| CheckRunError::NotStarted(problem);
        let job = serde_json::to_string(&self.job).map_err(|error| not_started(error.to_string()))?;
        let begun = Instant::now();
        let mut supervisor = self.spawn().map_err(|error| not_started(error.to_string()))?;
        let SupervisorPipes { output, output_ended, reports } = match SupervisorPipes::of(&mut supervisor) {
            Ok(pipes) => pipes,
            Err(error) => {
                // It has no job yet, so nothing was started.
                let _ = supervisor.kill();
                let _ = supervisor.wait();
                return Err(not_started(error.to_string()));
            }
        };
        // Kept open until the check should end. If the supervisor does not read it, it has ended, which is noticed
        // below.
        let mut held = supervisor.stdin.take();
        if let Some(input) = &mut held {
            let _ = input.write_all(format!("{job}\n").as_bytes()).and_then(|()| input.flush());
        }
        let (end, mut report) = self.wait(&reports, begun, time_limit, tick);
        if end != WaitEnd::Ended {
            drop(held.take());
            report = reports.recv_timeout(ENDING_MAX).ok();
            if report.is_none() {
                let _ = supervisor.kill();
            }
        }
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let _ = supervisor.wait();
        if end == WaitEnd::ServerEnds {
            return Err(CheckRunError::Interrupted);
        }
        // A process the check left behind could hold the pipe open forever.
        let _ = output_ended.recv_timeout(OUTPUT_MAX);
        let output = output.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let report = report.as_deref().and_then(|text| serde_json::from_str::<SupervisorReport>(text).ok());
        let (ending, confinement) = match report {
            Some(SupervisorReport::Exited { code, confinement }) => {
                (ProcessEnding::Exited(code), confinement)
            }
            Some(SupervisorReport::Signalled { confinement }) => (ProcessEnding::Signalled, confinement),
            Some(SupervisorReport::NotStarted { problem }) => return Err(not_started(problem)),
            // The check was started, but its supervisor died before it could report the result.
            None => (ProcessEnding::Signalled, Confinement::None),
        };
        let ending = if end == WaitEnd::TimedOut { ProcessEnding::TimedOut } else { ending };
        Ok(EndedProcess { ending, duration_ms, confinement, output })
    }
}

impl TrustedCheck {
    fn spawn(&self) -> io::Result<Child> {
        let mut command = Command::new(own_program()?);
        command.arg(ARGUMENT).env_clear();
        for name in VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Not in a process group of its own: the supervisor calls `setsid`, which a group leader cannot.
        command.current_dir("/").spawn()
    }

    fn wait(
        &self,
        reports: &Receiver<String>,
        begun: Instant,
        time_limit: Duration,
        tick: &mut dyn FnMut(Duration),
    ) -> (WaitEnd, Option<String>) {
        let mut ticked = Duration::ZERO;
        loop {
            let elapsed = begun.elapsed();
            let Some(left) = time_limit.checked_sub(elapsed).filter(|left| !left.is_zero()) else {
                return (WaitEnd::TimedOut, None);
            };
            match reports.recv_timeout(left.min(POLL_EVERY)) {
                Ok(report) => return (WaitEnd::Ended, Some(report)),
                Err(RecvTimeoutError::Disconnected) => return (WaitEnd::Ended, None),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.ending.load(Ordering::SeqCst) {
                return (WaitEnd::ServerEnds, None);
            }
            if elapsed >= ticked + TICK_EVERY {
                ticked = elapsed;
                tick(elapsed);
            }
        }
    }
}

/// The running program itself, even if its file was replaced since it started.
fn own_program() -> io::Result<std::path::PathBuf> {
    match cfg!(target_os = "linux") {
        true => Ok("/proc/self/exe".into()),
        false => std::env::current_exe(),
    }
}

/// What a supervisor writes, read by threads.
struct SupervisorPipes {
    /// The beginning and the end of the check's output.
    output: Arc<Mutex<ClippedOutput>>,
    output_ended: Receiver<()>,
    /// The supervisor's report when it ends.
    reports: Receiver<String>,
}

impl SupervisorPipes {
    /// Fails if the machine has no thread to spare.
    fn of(supervisor: &mut Child) -> io::Result<Self> {
        let output = Arc::new(Mutex::new(ClippedOutput::default()));
        let (finished, output_ended) = channel();
        if let Some(mut pipe) = supervisor.stdout.take() {
            let output = Arc::clone(&output);
            thread::Builder::new().spawn(move || {
                let mut chunk = vec![0; 64 * 1024];
                while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                    output.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk[..count]);
                }
                let _ = finished.send(());
            })?;
        }
        let (sender, reports) = channel();
        if let Some(pipe) = supervisor.stderr.take() {
            thread::Builder::new().spawn(move || {
                let mut text = String::new();
                let _ = pipe.take(REPORT_BYTES_MAX).read_to_string(&mut text);
                let _ = sender.send(text);
            })?;
        }
        Ok(Self { output, output_ended, reports })
    }
}
