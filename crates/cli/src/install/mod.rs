//! `workrail install` and `uninstall`: everything an agent needs, in the clients' own files, shown before it is
//! written.

mod arguments;
mod show;
mod status;

use std::process::ExitCode;

use camino::Utf8PathBuf;
use serde_json::{Value, json};
use workrail_host::clients::{
    self, Bases, Client, ClientError, ConnectionMethod, FileChange, Intent, Ledger, Setup, SetupPart,
    SetupScope, SetupTarget, WithoutVariable,
};
use workrail_host::data_dir::data_dir;
use workrail_model::keyring::HttpSecret;
use workrail_model::loopback::LoopbackAddress;
use workrail_model::public_url::{PublicUrl, Scheme};
use workrail_ports::keyring::KeyringError;

use crate::confirm::{self, UserConfirmation};
use crate::outcome::{self, Failure, Format};
use crate::output::{self, Tone};
use crate::upkeep::unusable_http_secret;
use crate::{settings, wiring};

pub(crate) use arguments::{ClientArguments, InstallArguments, UninstallArguments};
pub(crate) use status::client_statuses;

pub(crate) fn install(arguments: &InstallArguments) -> ExitCode {
    let selection = &arguments.selection;
    let format = Format::json_if(selection.json);
    let done = if selection.list {
        status::list(format)
    } else if arguments.print {
        print(arguments, format)
    } else {
        set_up(arguments, format)
    };
    outcome::finish(done, format)
}

pub(crate) fn uninstall(arguments: &UninstallArguments) -> ExitCode {
    let selection = &arguments.selection;
    let format = Format::json_if(selection.json);
    let done = if selection.list { status::list(format) } else { remove(selection, format) };
    outcome::finish(done, format)
}

/// Where the clients' files are for this user, in this folder.
pub(crate) fn bases() -> Result<Bases, Failure> {
    let here = std::env::current_dir().ok().and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
    let bases = here.and_then(Bases::of_user);
    bases.ok_or_else(|| Failure::Environment("no home directory or working folder was found".to_owned()))
}

fn ledger() -> Result<Ledger, Failure> {
    let folder =
        data_dir(&settings::current()?.settings).map_err(|error| Failure::Environment(error.to_string()))?;
    Ok(Ledger::in_data_dir(&folder))
}

fn refused(error: &ClientError) -> Failure {
    Failure::Environment(format!("{error}\nNothing was written."))
}

fn setup(connection: ConnectionMethod) -> Setup {
    let own_program = std::env::current_exe().ok().and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
    Setup { own_program, connection, opencode_plugin: workrail_core::hook::hosts::opencode_plugin }
}

/// The client in the requested scope, or else in its widest one.
fn target(
    client: Client,
    scope: Option<SetupScope>,
    remote: Option<&PublicUrl>,
) -> Result<SetupTarget, Failure> {
    let Some(widest) = client.scopes().next() else {
        let remote = remote.map_or_else(String::new, |url| format!(" --remote {url}"));
        return Err(Failure::Usage(format!(
            "WorkRail does not edit the files of {}. `workrail install --client {}{remote} --print` shows what to paste.",
            client.title(),
            client.as_str()
        )));
    };
    match scope {
        None => Ok(SetupTarget { client, scope: widest }),
        Some(scope) if client.scopes().any(|other| other == scope) => Ok(SetupTarget { client, scope }),
        Some(_) => Err(Failure::Usage(format!(
            "{} has no such scope; use --scope {}.",
            client.as_str(),
            widest.as_str()
        ))),
    }
}

fn named_targets(
    selection: &ClientArguments,
    remote: Option<&PublicUrl>,
) -> Result<Vec<SetupTarget>, Failure> {
    selection.client.iter().map(|client| target(*client, selection.scope(), remote)).collect()
}

/// The clients on this machine that can be configured in this scope.
fn found_targets(selection: &ClientArguments, bases: &Bases) -> Result<Vec<SetupTarget>, Failure> {
    let present: Vec<Client> =
        Client::ALL.iter().copied().filter(|client| client.is_present(bases)).collect();
    let targets: Vec<SetupTarget> =
        present.iter().filter_map(|client| target(*client, selection.scope(), None).ok()).collect();
    match targets.is_empty() {
        true => Err(Failure::Usage(
            "No client that can be set up here was found. Name one with --client; `workrail install --list` shows them."
                .to_owned(),
        )),
        false => Ok(targets),
    }
}

fn set_up(arguments: &InstallArguments, format: Format) -> Result<(), Failure> {
    let selection = &arguments.selection;
    let bases = bases()?;
    let targets = match selection.client.is_empty() {
        true => found_targets(selection, &bases)?,
        false => named_targets(selection, arguments.remote.as_ref())?,
    };
    let secret = secret_for(arguments.http, &targets, selection.dry_run)?;
    let connection = match (arguments.http, &arguments.remote) {
        (None, None) => ConnectionMethod::Program,
        (Some(address), _) => {
            ConnectionMethod::Http { url: format!("http://{}/mcp", address.socket_address()), secret }
        }
        (None, Some(url)) => remote(url, WithoutVariable::Refuse)?,
    };
    let setup = setup(connection);
    let ledger = ledger()?;
    let parts = parts(arguments);
    // All are planned before any is written: one uneditable file stops them all.
    let plan = clients::plan(&targets, &parts, Intent::Install(&setup), &bases, &ledger);
    let changes = plan.map_err(|error| refused(&error))?;
    if changes.is_empty() {
        return Err(Failure::Usage(format!(
            "There is no file here for: {}. Start the client once, or choose another scope or part.",
            part_names(&parts)
        )));
    }
    let done = carry_out(selection, &changes, &ledger, format, show::SetupAction::Install)?;
    if format == Format::Text {
        show::advice(&targets, &parts, arguments.http.is_some(), done);
        if arguments.remote.is_some() {
            show::token_advice();
        }
    }
    Ok(())
}

/// A team's server. Tokens are sent to other machines only over TLS.
fn remote(url: &PublicUrl, without_variable: WithoutVariable) -> Result<ConnectionMethod, Failure> {
    if url.scheme() == Scheme::Http && !url.is_loopback() {
        return Err(Failure::Usage("Use https: your token would be sent unencrypted.".to_owned()));
    }
    Ok(ConnectionMethod::Remote { url: format!("{url}/mcp"), without_variable })
}

/// The requested parts. Hooks need the store, which is not local with a team's server.
fn parts(arguments: &InstallArguments) -> Vec<SetupPart> {
    let is_meant = |part: &SetupPart| arguments.remote.is_none() || *part != SetupPart::Hooks;
    arguments.selection.parts().into_iter().filter(is_meant).collect()
}

fn remove(selection: &ClientArguments, format: Format) -> Result<(), Failure> {
    let bases = bases()?;
    let targets = match selection.client.is_empty() {
        true => all_targets(selection),
        false => named_targets(selection, None)?,
    };
    let ledger = ledger()?;
    let plan = clients::plan(&targets, &selection.parts(), Intent::Uninstall, &bases, &ledger);
    let changes = plan.map_err(|error| refused(&error))?;
    let done = carry_out(selection, &changes, &ledger, format, show::SetupAction::Uninstall)?;
    if format == Format::Text && done == InstallOutcome::Written {
        output::line("Restart the clients; they load tools only at startup.");
    }
    Ok(())
}

/// Every client in every scope: everything of WorkRail that is found is removed.
fn all_targets(selection: &ClientArguments) -> Vec<SetupTarget> {
    let all = Client::ALL.iter().copied();
    let targets = all.flat_map(|client| client.scopes().map(move |scope| SetupTarget { client, scope }));
    targets.filter(|target| selection.scope().is_none_or(|scope| scope == target.scope)).collect()
}

/// The result of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstallOutcome {
    Nothing,
    DryRun,
    Written,
}

/// Shows the changes, asks once unless clients were named, and writes.
fn carry_out(
    selection: &ClientArguments,
    changes: &[FileChange],
    ledger: &Ledger,
    format: Format,
    action: show::SetupAction,
) -> Result<InstallOutcome, Failure> {
    if format == Format::Text {
        show::changes(changes, action);
    }
    let needed: Vec<&FileChange> = changes.iter().filter(|change| change.is_needed()).collect();
    let done = match (needed.is_empty(), selection.dry_run) {
        (true, _) => InstallOutcome::Nothing,
        (false, true) => InstallOutcome::DryRun,
        (false, false) => InstallOutcome::Written,
    };
    if done == InstallOutcome::Written && selection.client.is_empty() {
        let files = if needed.len() == 1 { "this file" } else { "these files" };
        let question = format!("Write {files} ({})? Type yes:", needed.len());
        confirm::confirm_by_typing(
            UserConfirmation::given_if(selection.yes),
            &question,
            &["yes".to_owned(), "y".to_owned()],
        )?;
    }
    let mut backups = Vec::new();
    for change in changes {
        backups.push(match done {
            InstallOutcome::Written => {
                clients::apply(change, ledger).map_err(|error| Failure::Environment(error.to_string()))?
            }
            InstallOutcome::Nothing | InstallOutcome::DryRun => None,
        });
    }
    match format {
        Format::Json => output::json(&json!({
            "dryRun": selection.dry_run,
            "files": changes.iter().zip(&backups)
                .map(|(change, backup)| show::as_json(change, backup.as_ref(), done == InstallOutcome::Written))
                .collect::<Vec<Value>>(),
        })),
        Format::Text => show::written(done, &needed, &backups),
    }
    Ok(done)
}

/// The HTTP secret, if one of the user's own files will hold it. A dry run creates none.
fn secret_for(
    http: Option<LoopbackAddress>,
    targets: &[SetupTarget],
    dry_run: bool,
) -> Result<Option<HttpSecret>, Failure> {
    let Some(address) = http else { return Ok(None) };
    if address.socket_address().port() == 0 {
        return Err(Failure::Usage("Name the port that the server listens on, not 0.".to_owned()));
    }
    if targets.iter().all(|target| target.scope == SetupScope::Project) {
        return Ok(None);
    }
    let unusable = |error: KeyringError| unusable_http_secret(&error);
    match dry_run {
        // If there is none yet, any text will do: it is not shown.
        true => {
            let known = wiring::read_only_directory(settings::current()?)?.http_secret().map_err(unusable)?;
            Ok(Some(known.unwrap_or_else(|| HttpSecret::new([0; 32]))))
        }
        false => {
            wiring::open_directory(settings::current()?)?.http_secret_or_new().map(Some).map_err(unusable)
        }
    }
}

/// Prints what each file would contain if it were new, to be copied by hand.
fn print(arguments: &InstallArguments, format: Format) -> Result<(), Failure> {
    let selection = &arguments.selection;
    if selection.client.is_empty() {
        return Err(Failure::Usage("Name the client to print for: --client CLIENT.".to_owned()));
    }
    let connection = match &arguments.remote {
        None => ConnectionMethod::Program,
        Some(url) => remote(url, WithoutVariable::Placeholder)?,
    };
    let (bases, setup) = (bases()?, setup(connection));
    let program = setup.own_program.as_ref().map_or("workrail", |path| path.as_str());
    let mut shown = Vec::new();
    for client in selection.client.iter().copied() {
        let by_hand = client.by_hand().map(|text| text.replace("PROGRAM", program));
        let files = match target(client, selection.scope(), arguments.remote.as_ref()) {
            Ok(target) => clients::printed(target, &parts(arguments), &setup, &bases),
            Err(_) if by_hand.is_some() => Vec::new(),
            Err(failure) => return Err(failure),
        };
        // Also for a client whose file is not here, or names only programs.
        let by_hand = match &arguments.remote {
            None => by_hand,
            Some(url) => (files.is_empty() || by_hand.is_some()).then(|| remote_by_hand(url)),
        };
        if format == Format::Text {
            show::printed(client, &files, by_hand.as_deref());
        }
        let files = files.iter().map(|(path, text)| json!({ "path": path, "text": text }));
        shown.push(json!({
            "client": client.as_str(), "documentation": client.documentation(), "byHand": by_hand,
            "files": files.collect::<Vec<Value>>(),
        }));
    }
    if format == Format::Json {
        output::json(&json!({ "clients": shown }));
    }
    Ok(())
}

/// The text to paste for a client whose files are not edited.
fn remote_by_hand(url: &PublicUrl) -> String {
    format!(
        "Add a server of the kind \"Streamable HTTP\" with the address {url}/mcp and the header \
         `Authorization: Bearer YOUR_TOKEN`."
    )
}

/// The names of parts, for users.
fn part_names(parts: &[SetupPart]) -> String {
    parts.iter().map(|part| part.as_str()).collect::<Vec<_>>().join(", ")
}

/// The tone of a line of a diff.
fn tone_of(line: &str) -> Tone {
    match line.as_bytes().first() {
        Some(b'+') => Tone::Good,
        Some(b'-') => Tone::Bad,
        Some(_) | None => Tone::Quiet,
    }
}
