//! `workrail workflow sources`: lists the workflow sources with their state, and registers more.

mod registering;
mod reporting;
mod syncing;

use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};
use workrail_model::config::{Key, SYNC_HOURS_DEFAULT};

use crate::outcome::{self, EXIT_CODES, Format};

pub(crate) use registering::{NewGit, forget, register_folder, register_git};
use registering::{add_folder, add_git, remove};
pub(crate) use reporting::source_reports_of;
use reporting::{health, list};
use syncing::sync;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = format!(
    "{EXIT_CODES}\n\nExamples:\n  workrail workflow sources\n  \
     workrail workflow sources add git team https://example.com/team/workflows.git --ref main --folder flows\n  \
     workrail workflow sources sync team\n  workrail workflow sources health"
))]
pub(crate) struct SourcesArguments {
    #[command(subcommand)]
    command: Option<SourcesCommand>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum SourcesCommand {
    /// List the sources, lowest precedence first. This is the default.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail workflow sources list --json"))]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Register a folder, a plugin or a git repository.
    #[command(subcommand)]
    Add(AddCommand),
    /// Remove a source from the settings, and its fetched copy.
    #[command(after_help = format!("{EXIT_CODES}\n\nExamples:\n  workrail workflow sources remove team\n  workrail workflow sources remove /srv/flows"))]
    Remove {
        /// The name of a git source, or the path of a registered folder.
        source: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fetch git sources now.
    #[command(after_help = format!(
        "If a fetch fails, the copy fetched before stays in use.\n\n{EXIT_CODES}\n\n\
         Examples:\n  workrail workflow sources sync\n  workrail workflow sources sync team"
    ))]
    Sync {
        /// The sources to fetch. Default: all.
        names: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check every source and explain how to fix problems.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail workflow sources health"))]
    Health {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum AddCommand {
    /// A folder with workflow files.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail workflow sources add folder ~/flows"))]
    Folder {
        /// The folder.
        path: Utf8PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// A folder with a `workrail-plugin.json`.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail workflow sources add plugin /opt/acme-workflows"))]
    Plugin {
        /// The folder that contains the `workrail-plugin.json`.
        path: Utf8PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// A git repository, over https or ssh.
    #[command(after_help = format!(
        "The URL must not contain a password or token; an https URL must not contain a user name either. Private repositories are fetched over ssh with your key, or \
         over https with your git credential helper.\n\n{EXIT_CODES}\n\nExamples:\n  workrail workflow sources add git \
         team https://example.com/team/flows.git\n  workrail workflow sources add git team \
         git@example.com:team/flows.git --ref v2 --folder workflows"
    ))]
    Git(AddGit),
}

#[derive(Debug, Args)]
struct AddGit {
    /// A name for the source.
    name: String,
    /// The https or ssh address of the repository.
    url: String,
    /// A branch, tag or full commit id. Default: the repository's default branch.
    #[arg(long = "ref", value_name = "REF")]
    git_ref: Option<String>,
    /// The folder in the repository that holds the workflows.
    #[arg(long)]
    folder: Option<String>,
    /// Hours between fetches by a running server; 0: only `workflow sources sync` fetches it.
    #[arg(long, value_name = "HOURS", default_value_t = SYNC_HOURS_DEFAULT)]
    sync_hours: u32,
    /// Allow an absolute path to a repository on this machine.
    #[arg(long)]
    allow_local: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: SourcesArguments) -> ExitCode {
    let SourcesArguments { command, json } = arguments;
    let (done, json) = match command.unwrap_or(SourcesCommand::List { json }) {
        SourcesCommand::List { json } => (list(Format::json_if(json)), json),
        SourcesCommand::Add(AddCommand::Folder { path, json }) => {
            (add_folder(&path, Key::SourcePaths, Format::json_if(json)), json)
        }
        SourcesCommand::Add(AddCommand::Plugin { path, json }) => {
            (add_folder(&path, Key::SourcePlugins, Format::json_if(json)), json)
        }
        SourcesCommand::Add(AddCommand::Git(git)) => {
            let json = git.json;
            (add_git(git, Format::json_if(json)), json)
        }
        SourcesCommand::Remove { source, json } => (remove(&source, Format::json_if(json)), json),
        SourcesCommand::Sync { names, json } => (sync(&names, Format::json_if(json)), json),
        SourcesCommand::Health { json } => (health(Format::json_if(json)), json),
    };
    outcome::finish(done, Format::json_if(json))
}
