//! The process between the server and a check. It confines the check, and ends everything the check started when the
//! check ends and when the server closes the pipe (time limit, cancel, crash; G122).
//!
//! The server holds the other end of its standard input. Its standard output is the check's output, and it reports on
//! standard error how the check ended.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use camino::Utf8PathBuf;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use serde::{Deserialize, Serialize};
use workrail_model::evidence::Confinement;

use super::confine::kernel::confine;
#[cfg(target_os = "linux")]
use crate::processes;

/// The argument that starts this program as a supervisor.
pub(super) const ARGUMENT: &str = "__run-check";

/// More than any job needs: its arguments are limited where they are read.
const JOB_BYTES_MAX: u64 = 1024 * 1024;

/// What to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) program: Utf8PathBuf,
    pub(super) argv: Vec<String>,
    pub(super) directory: Utf8PathBuf,
    pub(super) writable: Vec<Utf8PathBuf>,
}

/// How the check ended, as reported on standard error.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum SupervisorReport {
    Exited { code: i32, confinement: Confinement },
    Signalled { confinement: Confinement },
    NotStarted { problem: String },
}

/// Whether this process was started to supervise a check.
pub fn is_supervisor() -> bool {
    let mut words = std::env::args_os().skip(1);
    words.next().is_some_and(|word| word == ARGUMENT) && words.next().is_none()
}

/// Runs the check described on standard input.
pub fn supervise() -> ExitCode {
    let report = match job() {
        Ok(job) => {
            run(&job).unwrap_or_else(|error| SupervisorReport::NotStarted { problem: error.to_string() })
        }
        Err(error) => SupervisorReport::NotStarted { problem: error.to_string() },
    };
    let text = serde_json::to_string(&report).unwrap_or_default();
    // If this fails, the server is no longer listening.
    let _ = io::stderr().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn job() -> io::Result<Job> {
    let mut line = String::new();
    io::stdin().lock().take(JOB_BYTES_MAX).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

fn run(job: &Job) -> io::Result<SupervisorReport> {
    // The check gets neither the server's terminal nor what is typed there.
    rustix::process::setsid()?;
    adopt_orphans();
    let confinement = confine(&job.writable);
    let [name, arguments @ ..] = job.argv.as_slice() else {
        return Ok(SupervisorReport::NotStarted { problem: "the check names no program".to_owned() });
    };
    let output = || io::stdout().as_fd().try_clone_to_owned().map(Stdio::from);
    std::env::set_current_dir(&job.directory)?;
    if std::env::current_dir()? != job.directory.as_std_path() {
        return Ok(SupervisorReport::NotStarted {
            problem: "its directory was replaced meanwhile".to_owned(),
        });
    }
    let mut child = Command::new(&job.program)
        .arg0(name)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output()?)
        .stderr(output()?)
        .process_group(0)
        .spawn()?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let group = group.ok_or_else(|| io::Error::other("the process has no number"))?;
    let running = Arc::new(Mutex::new(Some(group)));
    let watched = Arc::clone(&running);
    let watching = std::thread::Builder::new().spawn(move || {
        // Returns when the server has closed the pipe or has ended.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        end(&watched);
    });
    if watching.is_err() {
        end(&running);
    }
    let _ = waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    // Not reaped yet, so the id still belongs to this group; from here on the thread no longer has it.
    end(&running);
    // Processes may have joined the group since the thread killed it.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    end_orphans();
    Ok(match status.code() {
        Some(code) => SupervisorReport::Exited { code, confinement },
        None => SupervisorReport::Signalled { confinement },
    })
}

/// Kills a check once: its process group, and the check itself, which may have left the group.
fn end(running: &Mutex<Option<Pid>>) {
    if let Some(group) = running.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = kill_process_group(group, Signal::KILL);
        let _ = kill_process(group, Signal::KILL);
    }
}

/// Makes this process adopt descendants of the check when their parent ends, even from other process groups.
#[cfg(target_os = "linux")]
fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Kills what is left of the check. Each round kills the current children; their orphans are handled by the next round.
#[cfg(target_os = "linux")]
fn end_orphans() {
    use rustix::process::{WaitOptions, wait};
    loop {
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        // Waits for any child; returns an error when none is left.
        match wait(WaitOptions::empty()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(target_os = "linux")]
fn children() -> Vec<Pid> {
    let this_process = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let children = numbers.filter(|number| processes::parent_of(*number) == Some(this_process));
    children.filter_map(|number| i32::try_from(number).ok().and_then(Pid::from_raw)).collect()
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() {}

#[cfg(not(target_os = "linux"))]
fn end_orphans() {}
