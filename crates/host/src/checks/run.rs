//! Runs a trusted check under its supervisor: bounded time, bounded output, three variables (G122).

use std::io::{Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use workrail_model::evidence::{Confinement, EndedProcess, KeptOutput, ProcessEnding};
use workrail_ports::checks::{CheckRunError, ReadyCheck};

use super::supervisor::{ARGUMENT, Job, Told};

/// What a check sees of the environment.
const VARIABLES: [&str; 3] = ["PATH", "HOME", "LANG"];
/// How often it is looked whether the time is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const TICK_EVERY: Duration = Duration::from_secs(1);
/// A supervisor that does not end in this time after it was told to is killed.
const ENDING_MAX: Duration = Duration::from_secs(5);
/// How long the output of a check that has ended may still come.
const OUTPUT_MAX: Duration = Duration::from_millis(500);
const TOLD_BYTES_MAX: u64 = 64 * 1024;

/// A check that was found trusted.
pub(super) struct TrustedCheck {
    pub(super) job: Job,
    /// Set when the server ends.
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
        let begun = Instant::now();
        let mut supervisor = self.spawn().map_err(|error| not_started(error.to_string()))?;
        let (output, output_ended) = collected(supervisor.stdout.take());
        let told = told(supervisor.stderr.take());
        let job = serde_json::to_string(&self.job).map_err(|error| not_started(error.to_string()))?;
        // Held open until the check is to end. A supervisor that does not read it says so by ending.
        let mut held = supervisor.stdin.take();
        if let Some(input) = &mut held {
            let _ = input.write_all(format!("{job}\n").as_bytes()).and_then(|()| input.flush());
        }
        let (end, mut said) = self.wait(&told, begun, time_limit, tick);
        if end != WaitEnd::Ended {
            drop(held.take());
            said = told.recv_timeout(ENDING_MAX).ok();
            if said.is_none() {
                let _ = supervisor.kill();
            }
        }
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let _ = supervisor.wait();
        if end == WaitEnd::ServerEnds {
            return Err(CheckRunError::Interrupted);
        }
        // Something that the check left behind could hold it open for ever.
        let _ = output_ended.recv_timeout(OUTPUT_MAX);
        let output = output.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let said = said.as_deref().and_then(|text| serde_json::from_str::<Told>(text).ok());
        let (ending, confinement) = match said {
            Some(Told::Exited { code, confinement }) => (ProcessEnding::Exited(code), confinement),
            Some(Told::Signalled { confinement }) => (ProcessEnding::Signalled, confinement),
            Some(Told::NotStarted { problem }) => return Err(not_started(problem)),
            // It was started, and its supervisor did not live to say how it ended.
            None => (ProcessEnding::Signalled, Confinement::None),
        };
        let ending = if end == WaitEnd::TimedOut { ProcessEnding::TimedOut } else { ending };
        Ok(EndedProcess { ending, duration_ms, confinement, output })
    }
}

impl TrustedCheck {
    fn spawn(&self) -> std::io::Result<Child> {
        let mut command = Command::new(own_program()?);
        command.arg(ARGUMENT).env_clear();
        for name in VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Not in a group of its own: the supervisor makes a session of its own, which the leader of a group cannot.
        command.current_dir("/").spawn()
    }

    fn wait(
        &self,
        told: &Receiver<String>,
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
            match told.recv_timeout(left.min(LOOK_EVERY)) {
                Ok(said) => return (WaitEnd::Ended, Some(said)),
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

/// This very program, also when its file was replaced since it started.
fn own_program() -> std::io::Result<std::path::PathBuf> {
    match cfg!(target_os = "linux") {
        true => Ok("/proc/self/exe".into()),
        false => std::env::current_exe(),
    }
}

/// Keeps the beginning and the end of what comes, and says when it ends.
fn collected(pipe: Option<impl Read + Send + 'static>) -> (Arc<Mutex<KeptOutput>>, Receiver<()>) {
    let kept = Arc::new(Mutex::new(KeptOutput::default()));
    let (said, ended) = channel();
    if let Some(mut pipe) = pipe {
        let kept = Arc::clone(&kept);
        std::thread::spawn(move || {
            let mut chunk = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk[..count]);
            }
            let _ = said.send(());
        });
    }
    (kept, ended)
}

/// What the supervisor says when it ends.
fn told(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (said, told) = channel();
    if let Some(pipe) = pipe {
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = pipe.take(TOLD_BYTES_MAX).read_to_string(&mut text);
            let _ = said.send(text);
        });
    }
    told
}
