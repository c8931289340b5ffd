//! Project tasks: generated files, and checks that `cargo` itself does not have.
//!
//! Every check says what is wrong and which command or file fixes it.

#![expect(clippy::print_stdout, reason = "a command-line tool answers on stdout")]

mod docs;
mod findings;
mod generate;
mod generated_file;
mod layers;
mod licences;
mod root;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::findings::Findings;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Generates and checks what cargo does not")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Clone, Copy, Subcommand)]
enum Task {
    /// Write the generated files: schemas and reference pages
    Gen,
    /// Compare the generated files with what `gen` would write now
    Verify,
    /// Check who depends on whom, features and licences
    CheckLayers,
    /// Check guarantee numbers, links, error pages and machine paths
    CheckDocs,
}

fn main() -> Result<ExitCode> {
    let root = root::find()?;
    let (name, findings) = match Cli::parse().task {
        Task::Gen => ("gen", generated_file::write_all(&root, &generate::generated_files()?)?),
        Task::Verify => ("verify", generated_file::verify(&root, &generate::generated_files()?)?),
        Task::CheckLayers => ("check-layers", layers::check(&root)?),
        Task::CheckDocs => ("check-docs", docs::check(&root)?),
    };
    Ok(report(name, &findings))
}

fn report(task: &str, findings: &Findings) -> ExitCode {
    for note in findings.notes() {
        println!("note: {note}");
    }
    for problem in findings.problems() {
        println!("error: {problem}");
    }
    if findings.problems().is_empty() {
        println!("{task}: ok");
        return ExitCode::SUCCESS;
    }
    if let Some(fix) = findings.fix() {
        println!("fix: {fix}");
    }
    println!("{task}: {} problem(s)", findings.problems().len());
    ExitCode::FAILURE
}
