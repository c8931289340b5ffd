//! A command of the program, run in a home of its own and away from everything its caller has set.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::home::Ran;

/// Where a command runs.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub home: &'a Path,
    pub data: &'a Path,
    pub folder: &'a Path,
}

/// Runs `program arguments`, with nobody at its keyboard and no variable but the path and these.
pub fn run(program: &Path, place: Place<'_>, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let output = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var("PATH").expect("tests run with a path"))
        .env("HOME", place.home)
        .env("WORKRAIL_DATA_DIR", place.data)
        .envs(variables.iter().copied())
        .current_dir(place.folder)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints UTF-8");
    Ran {
        code: output.status.code().expect("the program ends by itself"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}
