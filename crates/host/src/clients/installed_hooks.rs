//! The hooks named in clients' files: what a host runs, and what prevents it from running them.

use camino::Utf8PathBuf;

use super::table::ConfigContent;
use super::{Bases, Client, ClientError, SetupScope, edit, hooks};

/// A hook in a client's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledHook {
    pub client: Client,
    pub scope: SetupScope,
    pub path: Utf8PathBuf,
    /// The host's name in `workrail hook`.
    pub host: &'static str,
    pub event: String,
    /// As the host passes it to a shell.
    pub command: String,
}

/// Every hook of ours in the files of all clients. A file that cannot be read is reported.
pub fn installed_hooks(bases: &Bases) -> (Vec<InstalledHook>, Vec<ClientError>) {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for client in Client::ALL.iter().copied() {
        for config_entry in client.profile().config_entries {
            let ConfigContent::Hooks(file) = &config_entry.content else { continue };
            let Some(path) = bases.path_of(config_entry) else { continue };
            let text = match edit::read(&path) {
                Ok(Some(text)) => text,
                Ok(None) => continue,
                Err(error) => {
                    unreadable.push(error);
                    continue;
                }
            };
            match hooks::installed(text.trim_start_matches('\u{feff}'), file) {
                Ok(hooks) => found.extend(hooks.into_iter().map(|(event, command)| InstalledHook {
                    client,
                    scope: config_entry.scope,
                    path: path.clone(),
                    host: file.host,
                    event,
                    command,
                })),
                Err(detail) => unreadable.push(ClientError::Malformed { path, detail }),
            }
        }
    }
    (found, unreadable)
}
