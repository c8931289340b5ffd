//! `workrail team`: tokens for members and agents. `workrail serve`: the server that they use.

pub(crate) mod server;
mod token;

use std::process::ExitCode;

use clap::Subcommand;

use crate::outcome::EXIT_CODES;

#[derive(Debug, Subcommand)]
pub(crate) enum TeamCommand {
    /// Create, list and revoke access tokens
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it. It is shown only once; the store keeps a hash.
    #[command(after_help = format!(
        "Roles: a viewer reads; an agent reads and works; an approver reads and decides what waits for a person; an admin does \
         everything. Give agents the role agent: it cannot approve.\n\nExamples:\n  workrail team token create ci-bot --role \
         agent\n  workrail team token create ada --role approver --expires 30d --json\n\n{EXIT_CODES}"
    ))]
    Create(token::CreateArguments),
    /// List tokens. Never shows the tokens themselves.
    #[command(after_help = format!("Example: workrail team token list\n\n{EXIT_CODES}"))]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token. Every server refuses it from its next request on.
    #[command(after_help = format!("Example: workrail team token revoke tok_a7pgws9t9jhg9wjr\n\n{EXIT_CODES}"))]
    Revoke(token::RevokeArguments),
}

pub(crate) fn run(command: TeamCommand) -> ExitCode {
    match command {
        TeamCommand::Token(TokenCommand::Create(arguments)) => token::create(arguments),
        TeamCommand::Token(TokenCommand::List { json }) => token::list(json),
        TeamCommand::Token(TokenCommand::Revoke(arguments)) => token::revoke(&arguments),
    }
}
