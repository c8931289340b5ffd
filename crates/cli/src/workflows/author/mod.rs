//! Commands for authors: validate, compile, preview, new, copy, test.
//!
//! Exit codes are the same everywhere: 0 all is well, 1 the workflow has problems, 2 the call does.

mod compile;
mod copy;
mod files;
mod new;
mod preview;
mod report;
mod trial;
mod validate;

use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{Subcommand, ValueEnum};

use crate::outcome::{self, EXIT_CODES, Format};
pub(crate) use compile::compiled_text;

#[derive(Debug, Subcommand)]
pub(crate) enum AuthorCommand {
    /// Check workflow files and explain every problem.
    #[command(after_help = "Exit codes: 0 no errors, 1 errors, 2 a path cannot be read.\n\n\
                            Example: workrail workflow validate workflows/")]
    Validate {
        /// Files or folders; folders are searched for *.json and *.jsonc.
        #[arg(required = true)]
        paths: Vec<Utf8PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compile a workflow file and print the result.
    #[command(after_help = "Example: workrail workflow compile workflows/team.review.json --emit hash")]
    Compile {
        file: Utf8PathBuf,
        /// What to print.
        #[arg(long, value_enum, default_value_t = Emit::Json)]
        emit: Emit,
        /// Print JSON, whatever is printed, and errors as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the plan of a workflow as a tree.
    #[command(after_help = "Example: workrail workflow preview wr.small_change")]
    Preview {
        /// A workflow id, or a file.
        workflow: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create a starter workflow file and a test script for it.
    #[command(after_help = "Example: workrail workflow new team.release_notes")]
    New {
        /// `namespace.name`, in lowercase.
        id: String,
        /// The folder to write to.
        #[arg(long, default_value = "workflows")]
        dir: Utf8PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Copy a workflow under an id of your own, to change it.
    #[command(after_help = format!(
        "The copy is the same file with another id. Other files are never overwritten.\n\n\
         Example: workrail workflow copy wr.code_review team.code_review\n\n{EXIT_CODES}"
    ))]
    Copy {
        /// The id of the workflow to copy.
        #[arg(value_name = "SOURCE_ID")]
        workflow: String,
        /// The id of the copy: `namespace.name`, in lowercase.
        #[arg(value_name = "NEW_ID")]
        id: String,
        /// The folder to write to.
        #[arg(long, value_name = "FOLDER", default_value = "workflows")]
        dir: Utf8PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a workflow with a scripted agent; report differences and uncovered steps.
    #[command(after_help = "The script is a TOML file. Default: FILE with the extension .test.toml.\n\n\
                            Example: workrail workflow test workflows/team.release_notes.json")]
    Test {
        file: Utf8PathBuf,
        /// The script to run.
        #[arg(long)]
        script: Option<Utf8PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Emit {
    /// The compiled workflow.
    Json,
    /// Its hash alone.
    Hash,
    /// The prompt of each step as an agent would first read it.
    Prompts,
}

impl AuthorCommand {
    /// Whether it may print more than a screen.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            Self::Compile { .. } | Self::Preview { .. } => true,
            Self::Validate { .. } | Self::New { .. } | Self::Copy { .. } | Self::Test { .. } => false,
        }
    }
}

pub(crate) fn run(command: AuthorCommand) -> ExitCode {
    let (done, json) = match command {
        AuthorCommand::Validate { paths, json } => (validate::run(&paths, json), json),
        AuthorCommand::Compile { file, emit, json } => {
            (compile::run(&file, emit, Format::json_if(json)), json)
        }
        AuthorCommand::Preview { workflow, json } => (preview::run(&workflow, Format::json_if(json)), json),
        AuthorCommand::New { id, dir, json } => (new::run(&id, &dir, Format::json_if(json)), json),
        AuthorCommand::Copy { workflow, id, dir, json } => {
            (copy::run(&workflow, &id, &dir, Format::json_if(json)), json)
        }
        AuthorCommand::Test { file, script, json } => (trial::run(&file, script.as_deref(), json), json),
    };
    outcome::finish(done, Format::json_if(json))
}
