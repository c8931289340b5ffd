//! `workrail workflow`: find, write and check workflows, and register their sources.

pub(crate) mod author;
mod catalog;
mod pinned;
pub(crate) mod sources;

use std::process::ExitCode;

use clap::Subcommand;

use crate::outcome::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    #[command(flatten)]
    Catalog(catalog::CatalogCommand),
    #[command(flatten)]
    Author(author::AuthorCommand),
    /// Show or change where workflows come from: folders, plugins, git repositories.
    Sources(sources::SourcesArguments),
}

impl WorkflowCommand {
    /// Whether it may print more than one screen without asking anything.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            Self::Catalog(_) => true,
            Self::Author(command) => command.is_long(),
            Self::Sources(_) => false,
        }
    }
}

pub(crate) fn run(command: WorkflowCommand) -> ExitCode {
    match command {
        WorkflowCommand::Catalog(command) => catalog::run(command),
        WorkflowCommand::Author(command) => author::run(command),
        WorkflowCommand::Sources(arguments) => sources::run(arguments),
    }
}

/// A compiled workflow that cannot be hashed or printed.
fn unusable_form(error: impl std::fmt::Display) -> Failure {
    Failure::Environment(format!("the compiled form is unusable: {error}"))
}
