//! Embeds the commit that the program is built from.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=WORKRAIL_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // A commit appends here, wherever the checkout keeps it; naming a missing path would rebuild every time.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    link_for_a_fast_start();
}

/// Hosts of agents start the program for every tool call (`workrail hook`). At a fixed address, its several hundred
/// thousand pointers need no relocation. None of our code is `unsafe`, so a random address protects little.
fn link_for_a_fast_start() {
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let is_gnu = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "gnu");
    if is_linux && is_gnu {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
