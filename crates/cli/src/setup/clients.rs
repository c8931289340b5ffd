//! `workrail setup install` and `uninstall`: one line in a client's own file, shown before it is written.

use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use workrail_host::clients::{
    self, Bases, Change, Client, ClientError, ClientFile, Credential, HttpEndpoint, Launch, Scope,
};
use workrail_model::keyring::HttpSecret;
use workrail_model::loopback::LoopbackAddress;
use workrail_ports::keyring::KeyringError;

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::{settings, wiring};

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Add WorkRail to a client: Claude Code, Cursor, VS Code and others.
    #[command(after_help = format!(
        "Only the entry for workrail is changed; comments and order stay. The previous file is kept next to it.\n\n{EXIT_CODES}\n\nExamples:\n  workrail setup install --list\n  \
         workrail setup install --client claude-code\n  workrail setup install --client cursor --scope project --dry-run\n  \
         workrail setup install --client claude-code --http 127.0.0.1:8765"
    ))]
    Install {
        #[command(flatten)]
        arguments: SetupArguments,
        /// Connect to a running server at http://ADDRESS/mcp. A user file gets the secret; a project file names the
        /// variable WORKRAIL_HTTP_TOKEN instead.
        #[arg(long, value_name = "127.0.0.1:PORT", conflicts_with = "list")]
        http: Option<LoopbackAddress>,
    },
    /// Remove WorkRail from a client.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail setup uninstall --client claude-code"))]
    Uninstall(SetupArguments),
}

#[derive(Debug, Args)]
pub(crate) struct SetupArguments {
    /// The client. May be repeated.
    #[arg(long, value_enum, required_unless_present = "list")]
    client: Vec<ClientArgument>,
    /// Configure it for you or for the current project. Default: user, if the client supports it.
    #[arg(long, value_enum)]
    scope: Option<ScopeArgument>,
    /// Show the change without making it.
    #[arg(long)]
    dry_run: bool,
    /// List the installed clients and whether they are configured.
    #[arg(long)]
    list: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ClientArgument {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    #[value(name = "vscode")]
    VsCode,
    Codex,
    Gemini,
}

impl ClientArgument {
    fn client(self) -> Client {
        match self {
            Self::ClaudeCode => Client::ClaudeCode,
            Self::ClaudeDesktop => Client::ClaudeDesktop,
            Self::Cursor => Client::Cursor,
            Self::VsCode => Client::VsCode,
            Self::Codex => Client::Codex,
            Self::Gemini => Client::Gemini,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScopeArgument {
    User,
    Project,
}

/// What to do to a client's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientChange {
    Install,
    InstallHttp(LoopbackAddress),
    Uninstall,
}

pub(crate) fn run(command: &ClientCommand) -> ExitCode {
    let (arguments, wish) = match command {
        ClientCommand::Install { arguments, http: None } => (arguments, ClientChange::Install),
        ClientCommand::Install { arguments, http: Some(address) } => {
            (arguments, ClientChange::InstallHttp(*address))
        }
        ClientCommand::Uninstall(arguments) => (arguments, ClientChange::Uninstall),
    };
    let format = Format::json_if(arguments.json);
    let done = if arguments.list { list(format) } else { change(arguments, wish, format) };
    outcome::finish(done, format)
}

/// Where the clients' files are for this user, in this folder.
pub(crate) fn bases() -> Result<Bases, Failure> {
    let here = std::env::current_dir().ok().and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
    let bases = here.and_then(Bases::of_user);
    bases.ok_or_else(|| Failure::Environment("no home directory or working folder was found".to_owned()))
}

fn refused(error: &ClientError) -> Failure {
    Failure::Environment(format!("{error}\nNothing was written."))
}

fn change(arguments: &SetupArguments, wish: ClientChange, format: Format) -> Result<(), Failure> {
    let bases = bases()?;
    let files: Vec<ClientFile> = arguments
        .client
        .iter()
        .map(|client| file_of(client.client(), arguments.scope, &bases))
        .collect::<Result<_, _>>()?;
    // All are planned before any is written: one that cannot be read stops them all.
    let secret = secret_for(wish, &files, arguments.dry_run)?;
    let changes: Vec<Change> =
        files.iter().map(|file| planned(file, wish, secret.as_ref())).collect::<Result<_, _>>()?;
    let mut shown = Vec::new();
    for (file, change) in files.iter().zip(&changes) {
        let backup = match arguments.dry_run {
            true => None,
            false => clients::apply(change).map_err(|error| refused(&error))?,
        };
        match format {
            Format::Text => tell(file, change, wish, arguments.dry_run, backup.as_ref(), secret.as_ref()),
            Format::Json => shown.push(json!({
                "client": file.client.as_str(), "scope": file.scope.as_str(), "path": file.path,
                "changed": change.is_needed() && !arguments.dry_run, "backup": backup, "diff": diff(change, secret.as_ref()),
            })),
        }
    }
    if format == Format::Json {
        output::json(&json!({ "dryRun": arguments.dry_run, "files": shown }));
    }
    Ok(())
}

fn file_of(client: Client, scope: Option<ScopeArgument>, bases: &Bases) -> Result<ClientFile, Failure> {
    let found = match scope {
        Some(ScopeArgument::User) => client.file(Scope::User, bases),
        Some(ScopeArgument::Project) => client.file(Scope::Project, bases),
        None => client.usual_file(bases),
    };
    found.ok_or_else(|| {
        let other = client.usual_file(bases).map_or("user", |file| file.scope.as_str());
        Failure::Call(format!("{} has no such scope; use --scope {other}.", client.as_str()))
    })
}

/// The HTTP secret, where a file of the user's own is to hold it. A dry run makes none.
fn secret_for(
    wish: ClientChange,
    files: &[ClientFile],
    dry_run: bool,
) -> Result<Option<HttpSecret>, Failure> {
    let ClientChange::InstallHttp(address) = wish else { return Ok(None) };
    if address.socket_address().port() == 0 {
        return Err(Failure::Call("Name the port that the server listens on, not 0.".to_owned()));
    }
    if files.iter().all(|file| file.scope == Scope::Project) {
        return Ok(None);
    }
    let unusable = |error: KeyringError| Failure::Environment(format!("the HTTP secret: {error}"));
    match dry_run {
        // Where there is none yet, any text represents it: it is not shown.
        true => {
            let known = wiring::look_at_directory(settings::current()?)?.http_secret().map_err(unusable)?;
            Ok(Some(known.unwrap_or_else(|| HttpSecret::new([0; 32]))))
        }
        false => {
            wiring::open_directory(settings::current()?)?.http_secret_or_new().map(Some).map_err(unusable)
        }
    }
}

fn endpoint(address: LoopbackAddress, scope: Scope, secret: Option<&HttpSecret>) -> HttpEndpoint {
    let url = format!("http://{}/mcp", address.socket_address());
    let credential = match (scope, secret) {
        (Scope::User, Some(secret)) => Credential::Secret(secret.clone()),
        (Scope::User, None) | (Scope::Project, _) => Credential::Variable,
    };
    HttpEndpoint { url, credential }
}

fn planned(file: &ClientFile, wish: ClientChange, secret: Option<&HttpSecret>) -> Result<Change, Failure> {
    let own = std::env::current_exe().ok().and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
    let change = match wish {
        ClientChange::Install => clients::installed(file, &Launch::for_scope(file.scope, own.as_deref())),
        ClientChange::InstallHttp(address) => {
            clients::installed_http(file, &endpoint(address, file.scope, secret))
        }
        ClientChange::Uninstall => clients::removed(file),
    };
    change.map_err(|error| refused(&error))
}

/// What changes, line by line; a secret is not shown.
fn diff(change: &Change, secret: Option<&HttpSecret>) -> Vec<String> {
    let before = change.before.as_deref().unwrap_or_default();
    let diff = TextDiff::from_lines(before, &change.after);
    let groups = diff.grouped_ops(2);
    let changes = groups.iter().flatten().flat_map(|op| diff.iter_changes(op));
    changes
        .map(|line| {
            let mark = match line.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            let text = line.value().trim_end_matches('\n');
            match secret {
                Some(secret) => format!("{mark} {}", text.replace(secret.reveal(), "(the HTTP secret)")),
                None => format!("{mark} {text}"),
            }
        })
        .collect()
}

fn tell(
    file: &ClientFile,
    change: &Change,
    wish: ClientChange,
    dry_run: bool,
    backup: Option<&Utf8PathBuf>,
    secret: Option<&HttpSecret>,
) {
    let (client, path) = (file.client.as_str(), &file.path);
    if !change.is_needed() {
        let text = match wish {
            ClientChange::Install | ClientChange::InstallHttp(_) => {
                format!("{client}: {path} has WorkRail already.")
            }
            ClientChange::Uninstall => format!("{client}: {path} has no entry for WorkRail."),
        };
        return output::toned(Tone::Good, &text);
    }
    output::toned(Tone::Heading, &format!("{client}: {path}"));
    for line in diff(change, secret) {
        let tone = match line.as_bytes().first() {
            Some(b'+') => Tone::Good,
            Some(b'-') => Tone::Bad,
            Some(_) | None => Tone::Quiet,
        };
        output::toned(tone, &format!("  {line}"));
    }
    if dry_run {
        return output::line("Nothing was written.");
    }
    if let Some(backup) = backup {
        output::line(&format!("Previous file saved as {backup}"));
    }
    output::line(match wish {
        ClientChange::Install | ClientChange::InstallHttp(_) => {
            "Written. Restart the client; it loads tools only at startup. Then ask it to list workflows."
        }
        ClientChange::Uninstall => "Written. Restart the client; it loads tools only at startup.",
    });
    if matches!(wish, ClientChange::InstallHttp(_)) && file.scope == Scope::Project {
        output::line(
            "Set the variable for the client: export WORKRAIL_HTTP_TOKEN=\"$(workrail store keys http-secret)\"",
        );
    }
}

/// A client on this machine, and how it starts WorkRail in each of its files.
pub(crate) struct ClientStatus {
    pub(crate) client: Client,
    pub(crate) present: bool,
    pub(crate) files: Vec<(ClientFile, Result<Option<String>, ClientError>)>,
}

pub(crate) fn known(bases: &Bases) -> Vec<ClientStatus> {
    let known = Client::ALL.iter().copied().map(|client| {
        let files = Scope::ALL.iter().copied().filter_map(|scope| client.file(scope, bases));
        let files = files.map(|file| {
            let command = Client::command_in(&file);
            (file, command)
        });
        ClientStatus { client, present: client.is_present(bases), files: files.collect() }
    });
    known.collect()
}

fn list(format: Format) -> Result<(), Failure> {
    let known = known(&bases()?);
    if format == Format::Json {
        let clients: Vec<Value> = known.iter().map(as_json).collect();
        output::json(&json!({ "clients": clients }));
        return Ok(());
    }
    let rows = known.iter().flat_map(|known| {
        known.files.iter().map(|(file, command)| {
            let state = match command {
                Ok(Some(command)) => format!("set up: {command}"),
                Ok(None) => "not set up".to_owned(),
                Err(error) => error.to_string(),
            };
            let present = if known.present { "yes" } else { "no" };
            let (client, scope) = (known.client.as_str(), file.scope.as_str());
            vec![client.to_owned(), present.to_owned(), scope.to_owned(), state, file.path.to_string()]
        })
    });
    output::table(&["client", "found", "scope", "workrail", "file"], rows);
    Ok(())
}

fn as_json(known: &ClientStatus) -> Value {
    let files = known.files.iter().map(|(file, command)| {
        json!({
            "scope": file.scope.as_str(), "path": file.path,
            "command": command.as_ref().ok().and_then(Option::as_ref),
            "problem": command.as_ref().err().map(ToString::to_string),
        })
    });
    let files: Vec<Value> = files.collect();
    json!({ "client": known.client.as_str(), "found": known.present, "files": files })
}
