//! Real processes on the real disk: many writers, and writers that are killed anywhere (G10, G15, G16).
//!
//! This binary runs itself again as its workers: `worker_entry` does nothing unless it was given a task.
mod processes {
    pub(crate) mod appenders;
    pub(crate) mod kills;
    pub(crate) mod strace;
    pub(crate) mod worker;
}
mod support;

use workrail_testkit::proof::is_full;
use workrail_testkit::skipped::skip;

use processes::{appenders, kills, strace, worker};

#[test]
fn worker_entry() {
    worker::run_if_asked();
}

#[test]
fn figure_processes_append_to_one_session() {
    let appends = if is_full() { 200 } else { 25 };
    let figure = appenders::one_session(8, appends);
    println!("figure: 8 processes x {appends} appends to one session: {figure}");
}

#[test]
fn figure_processes_append_to_many_sessions() {
    let rounds = if is_full() { 40 } else { 4 };
    let figure = appenders::many_sessions(8, 6, rounds);
    println!("figure: 8 processes x 6 sessions x {rounds} appends: {figure}");
}

#[test]
fn figure_processes_killed_at_random() {
    // With the kills at system calls, the short run has more than 300.
    let kills = if is_full() { 5_000 } else { 250 };
    let figure = kills::at_random(kills, 1);
    println!("figure: kill -9 at random {kills}: {figure}");
}

#[test]
fn figure_processes_killed_at_every_syscall() {
    match strace::kill_at_every_syscall(is_full()) {
        Some(figure) => println!("figure: kill -9 at every system call: {figure}"),
        None => skip("kill -9 at every system call", "strace is not here or may not trace"),
    }
}
