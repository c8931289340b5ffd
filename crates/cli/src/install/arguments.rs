//! What `install` and `uninstall` take.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use workrail_host::clients::{Client, SetupPart, SetupScope};
use workrail_model::loopback::LoopbackAddress;
use workrail_model::public_url::PublicUrl;

use crate::outcome::EXIT_CODES;

#[derive(Debug, Args)]
#[command(after_help = format!(
    "Without --client, the clients on this machine are found, and you are asked once. Only what belongs to WorkRail is \
     changed: comments, order and everything else in a file stay. The previous files are kept in the data directory; \
     `workrail uninstall` restores them.\n\nParts: server (the MCP server), hooks (what the host runs between calls), \
     instructions (what the agent reads in every chat), commands (slash commands), agents (subagents for steps that \
     delegate), permissions (read-only tools run without a question).\n\n{EXIT_CODES}\n\nExamples:\n  workrail \
     install\n  workrail install --list\n  workrail install --client claude-code\n  workrail install --client cursor \
     --scope project --dry-run\n  workrail install --client codex --without hooks\n  workrail install --client goose \
     --print\n  workrail install --client claude-code --http 127.0.0.1:8765\n  workrail install --client claude-code \
     --remote https://workrail.example.com"
))]
pub(crate) struct InstallArguments {
    #[command(flatten)]
    pub(super) selection: ClientArguments,
    /// Print what goes into each file instead of writing it, to be copied by hand.
    #[arg(long, conflicts_with_all = ["list", "dry_run", "http"])]
    pub(super) print: bool,
    /// Connect to a running server at http://127.0.0.1:PORT/mcp. A user file gets the secret; a project file names the
    /// variable WORKRAIL_HTTP_TOKEN instead.
    #[arg(long, value_name = "127.0.0.1:PORT", conflicts_with = "list")]
    pub(super) http: Option<LoopbackAddress>,
    /// Connect to a team's server at https://HOST/mcp. The files name the variable WORKRAIL_TOKEN, which holds your token;
    /// the token itself is in none of them. Hooks are left out: they need the store on this machine.
    #[arg(long, value_name = "https://HOST", conflicts_with_all = ["list", "http"])]
    pub(super) remote: Option<PublicUrl>,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!(
        "Without --client, everything that WorkRail wrote for you and for this project is removed, after one question. A \
         file that has not changed since WorkRail wrote it is restored to its previous content; otherwise only what \
         belongs to WorkRail is removed.\n\n{EXIT_CODES}\n\nExamples:\n  workrail uninstall --dry-run\n  workrail \
         uninstall --client claude-code\n  workrail uninstall --client codex --only hooks"
    ),
    // Unlike `install`, it works on both scopes unless a client is named.
    mut_arg("scope", |scope| scope.help(
        "For you or for the current project. Default: both; with --client, user if the client supports it"
    ))
)]
pub(crate) struct UninstallArguments {
    #[command(flatten)]
    pub(super) selection: ClientArguments,
}

/// Which clients, for whom, and which parts.
#[derive(Debug, Args)]
pub(crate) struct ClientArguments {
    /// The client. May be repeated.
    #[arg(long, value_parser = client())]
    pub(super) client: Vec<Client>,
    /// For you or for the current project. Default: user, if the client supports it.
    #[arg(long, value_enum)]
    scope: Option<ScopeArgument>,
    /// Only this part. May be repeated.
    #[arg(long, value_name = "PART", value_parser = part(), conflicts_with = "without")]
    only: Vec<SetupPart>,
    /// Everything but this part. May be repeated.
    #[arg(long, value_name = "PART", value_parser = part())]
    without: Vec<SetupPart>,
    /// Show the change without making it.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub(super) yes: bool,
    /// List the clients and whether they are set up.
    #[arg(long, conflicts_with_all = ["client", "dry_run"])]
    pub(super) list: bool,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl ClientArguments {
    pub(super) fn scope(&self) -> Option<SetupScope> {
        self.scope.map(|scope| match scope {
            ScopeArgument::User => SetupScope::User,
            ScopeArgument::Project => SetupScope::Project,
        })
    }

    pub(super) fn parts(&self) -> Vec<SetupPart> {
        let is_meant = |part: &SetupPart| match self.only.is_empty() {
            true => !self.without.contains(part),
            false => self.only.contains(part),
        };
        SetupPart::ALL.iter().copied().filter(is_meant).collect()
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScopeArgument {
    User,
    Project,
}

fn client() -> impl TypedValueParser<Value = Client> {
    let names = Client::ALL.iter().map(|client| client.as_str());
    PossibleValuesParser::new(names).try_map(|name| {
        Client::ALL.iter().copied().find(|client| client.as_str() == name).ok_or("unknown client")
    })
}

fn part() -> impl TypedValueParser<Value = SetupPart> {
    let names = SetupPart::ALL.iter().map(|part| part.as_str());
    PossibleValuesParser::new(names).try_map(|name| {
        SetupPart::ALL.iter().copied().find(|part| part.as_str() == name).ok_or("unknown part")
    })
}
