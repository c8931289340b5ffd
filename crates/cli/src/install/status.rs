//! The clients on this machine, and how each starts WorkRail.

use serde_json::{Value, json};
use workrail_host::clients::{Bases, Client, ClientError, ClientFile};

use super::bases;
use crate::outcome::{Failure, Format};
use crate::output;

/// A client on this machine, and how it starts WorkRail in each of its files.
pub(crate) struct ClientStatus {
    pub(crate) client: Client,
    pub(crate) present: bool,
    pub(crate) files: Vec<(ClientFile, Result<Option<String>, ClientError>)>,
}

pub(crate) fn client_statuses(bases: &Bases) -> Vec<ClientStatus> {
    let statuses = Client::ALL.iter().copied().map(|client| {
        let files = client.server_files(bases).into_iter().map(|file| {
            let command = Client::command_in(&file);
            (file, command)
        });
        ClientStatus { client, present: client.is_present(bases), files: files.collect() }
    });
    statuses.collect()
}

pub(super) fn list(format: Format) -> Result<(), Failure> {
    let statuses = client_statuses(&bases()?);
    if format == Format::Json {
        let clients: Vec<Value> = statuses.iter().map(as_json).collect();
        output::json(&json!({ "clients": clients }));
        return Ok(());
    }
    output::table(&["client", "found", "scope", "workrail", "file"], statuses.iter().flat_map(rows));
    Ok(())
}

fn rows(status: &ClientStatus) -> Vec<Vec<String>> {
    let name = status.client.as_str();
    let present = if status.present { "yes" } else { "no" };
    let row = |scope: &str, state: &str, path: &str| {
        [name, present, scope, state, path].map(str::to_owned).to_vec()
    };
    if status.files.is_empty() {
        return vec![row("-", "by hand", &format!("workrail install --client {name} --print"))];
    }
    let rows = status.files.iter().map(|(file, command)| {
        let state = match command {
            Ok(Some(command)) => format!("set up: {command}"),
            Ok(None) => "not set up".to_owned(),
            Err(error) => error.to_string(),
        };
        row(file.scope.as_str(), &state, file.path.as_str())
    });
    rows.collect()
}

fn as_json(status: &ClientStatus) -> Value {
    let files = status.files.iter().map(|(file, command)| {
        json!({
            "scope": file.scope.as_str(), "path": file.path,
            "command": command.as_ref().ok().and_then(Option::as_ref),
            "problem": command.as_ref().err().map(ToString::to_string),
        })
    });
    let files: Vec<Value> = files.collect();
    json!({ "client": status.client.as_str(), "found": status.present, "files": files })
}
