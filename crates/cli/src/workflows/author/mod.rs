//! Commands for authors: validate, compile, preview, new, copy, test, fmt, migrate, diff, schema.
//!
//! Exit codes are the same everywhere: 0 for success, 1 if the workflow has problems, 2 for a usage error.

mod compile;
mod copy;
mod diagnostics;
mod diff;
mod files;
mod new;
mod preview;
mod rewrite;
mod schema;
mod trial;
mod validate;

use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{Subcommand, ValueEnum};

use crate::outcome::{self, EXIT_CODES};
pub(crate) use compile::compiled_text;

#[derive(Debug, Subcommand)]
pub(crate) enum AuthorCommand {
    /// Check workflow files and explain every problem.
    #[command(after_help = "Exit codes: 0 no errors, 1 errors, 2 a path cannot be read.\n\n\
                            Examples:\n  workrail workflow validate workflows/\n  \
                            workrail workflow validate --watch workflows/team.review.json")]
    Validate {
        /// Files or folders; folders are searched for *.json and *.jsonc.
        #[arg(required = true)]
        paths: Vec<Utf8PathBuf>,
        /// Check again whenever a file changes, until Ctrl-C. With --json, one document per line.
        #[arg(long)]
        watch: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a workflow in one of its forms: compiled, source, prompts, hash, or the inputs of the hash.
    #[command(
        after_help = "Examples:\n  workrail workflow compile workflows/team.review.json --emit hash\n  \
                            workrail workflow compile wr.code_review --emit inputs\n  \
                            workrail workflow compile amber-falcon --emit prompts   (what the run is pinned to)"
    )]
    Compile {
        /// A file, a workflow id, a run, or the hash of a pinned workflow (sha256:..., or its beginning).
        #[arg(value_name = "WORKFLOW")]
        workflow: String,
        /// What to print.
        #[arg(long, value_enum, default_value_t = Emit::Json)]
        emit: Emit,
        /// Print everything as JSON, errors included.
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
    /// Format workflow files: one layout, comments kept, the hash unchanged.
    #[command(
        after_help = "Exit codes: 0 formatted, 1 --check found files that are not formatted or a file is not JSON, 2 a \
                            path cannot be read.\n\n\
                            Examples:\n  workrail workflow fmt workflows/\n  workrail workflow fmt --check workflows/"
    )]
    Fmt {
        /// Files or folders; folders are searched for *.json and *.jsonc.
        #[arg(required = true)]
        paths: Vec<Utf8PathBuf>,
        /// Change nothing; exit code 1 if a file is not formatted.
        #[arg(long)]
        check: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Update workflow files to the current format: ids with a namespace, current spellings.
    #[command(
        after_help = "Without --write, shows what would change and writes nothing. Files that are migrated in one call may \
                            refer to each other: delegations follow the new ids.\n\n\
                            Examples:\n  workrail workflow migrate workflows/\n  \
                            workrail workflow migrate workflows/ --namespace team --write"
    )]
    Migrate {
        /// Files or folders; folders are searched for *.json and *.jsonc.
        #[arg(required = true)]
        paths: Vec<Utf8PathBuf>,
        /// The namespace of new ids.
        #[arg(long, default_value = "project")]
        namespace: String,
        /// Write the changes.
        #[arg(long)]
        write: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what differs between two versions of a workflow, step by step.
    #[command(after_help = format!(
        "A and B are files, workflow ids, runs (what they are pinned to) or hashes (sha256:..., or their beginning). \
         Differences that do not affect a run are ignored.\n\nExamples:\n  workrail workflow diff old.json new.json\n  \
         workrail workflow diff amber-falcon team.review   what changed since the run was started\n  workrail workflow \
         diff wr.code_review team.code_review --prompts\n\n{EXIT_CODES}"
    ))]
    Diff {
        /// The old version.
        a: String,
        /// The new version.
        b: String,
        /// Show the changed lines of prompts.
        #[arg(long)]
        prompts: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of workflow files, for editors.
    #[command(after_help = "Example: workrail workflow schema --write")]
    Schema {
        /// Write it to .workrail/workflow.schema.json, where `$schema` of new files points.
        #[arg(long)]
        write: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a workflow with a scripted agent; report differences and uncovered steps.
    #[command(after_help = "The script is a TOML file. Default: FILE with the extension .test.toml.\n\n\
                            Example: workrail workflow test workflows/team.release_notes.json")]
    Test {
        /// The workflow file to test.
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
    /// Only its hash.
    Hash,
    /// The prompt of each step as an agent would first read it.
    Prompts,
    /// The file as its author wrote it.
    Source,
    /// The inputs of the hash.
    Inputs,
}

impl AuthorCommand {
    /// Whether it may print more than one screen.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            Self::Compile { .. } | Self::Preview { .. } | Self::Diff { .. } => true,
            Self::Schema { write, .. } => !write,
            Self::Validate { .. }
            | Self::New { .. }
            | Self::Copy { .. }
            | Self::Fmt { .. }
            | Self::Migrate { .. }
            | Self::Test { .. } => false,
        }
    }
}

pub(crate) fn run(command: AuthorCommand) -> ExitCode {
    match command {
        AuthorCommand::Validate { paths, watch: true, json } => {
            outcome::run(json, |format| validate::watch(&paths, format))
        }
        AuthorCommand::Validate { paths, watch: false, json } => {
            outcome::run(json, |format| validate::run(&paths, format))
        }
        AuthorCommand::Compile { workflow, emit, json } => {
            outcome::run(json, |format| compile::run(&workflow, emit, format))
        }
        AuthorCommand::Fmt { paths, check, json } => {
            outcome::run(json, |format| rewrite::fmt(&paths, check, format))
        }
        AuthorCommand::Migrate { paths, namespace, write, json } => {
            outcome::run(json, |format| rewrite::migrate(&paths, &namespace, write, format))
        }
        AuthorCommand::Diff { a, b, prompts, json } => {
            outcome::run(json, |format| diff::run(&a, &b, prompts, format))
        }
        AuthorCommand::Schema { write, json } => outcome::run(json, |format| schema::run(write, format)),
        AuthorCommand::Preview { workflow, json } => {
            outcome::run(json, |format| preview::run(&workflow, format))
        }
        AuthorCommand::New { id, dir, json } => outcome::run(json, |format| new::run(&id, &dir, format)),
        AuthorCommand::Copy { workflow, id, dir, json } => {
            outcome::run(json, |format| copy::run(&workflow, &id, &dir, format))
        }
        AuthorCommand::Test { file, script, json } => {
            outcome::run(json, |format| trial::run(&file, script.as_deref(), format))
        }
    }
}
