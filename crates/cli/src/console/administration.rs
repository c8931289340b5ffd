//! What the console's settings pages change, by the code of `config`, `workflow sources`, `setup` and `doctor`.

use std::fs::{self, File};
use std::io::Write as _;
use std::sync::PoisonError;

use camino::{Utf8Path, Utf8PathBuf};
use workrail_console::{
    Administration, ChecksInfo, ClientInfo, ClientState, DoctorFindingView, DoctorLevel, GitInfo, NewSource,
    OfferedCheck, SourceInfo, SourceProblemView,
};
use workrail_core::evidence::not_run;
use workrail_core::trial::{Script, try_workflow};
use workrail_engine::edit::{TrialReport, file_key};
use workrail_host::clock::of_file;
use workrail_host::config;
use workrail_host::data_dir::data_dir;
use workrail_host::sources::{Sources, replace, test_script};
use workrail_host::workspace::default_workspace;
use workrail_model::config::{Key, SYNC_HOURS_DEFAULT, Settings};
use workrail_model::digest::Sha256;
use workrail_model::discovery::Precedence;
use workrail_model::name::WorkflowId;
use workrail_model::shell;
use workrail_model::time::Timestamp;
use workrail_ports::workflow_source::{CandidateFile, WorkflowSource as _};

use super::{ConsoleEnvironment, failure_text, watched};
use crate::config::{change, needs_a_terminal};
use crate::doctor;
use crate::install as clients;
use crate::settings;
use crate::trust::{CheckSubject, Offers, take_back_trust};
use crate::workflows::author;
use crate::workflows::sources::{self, NewGit};

impl ConsoleEnvironment {
    /// Whether not even a terminal may change this setting.
    fn is_for_a_passkey(&self, key: Key) -> bool {
        matches!(key, Key::ApprovalsRequire | Key::ApprovalsRequireIn)
            || (key == Key::Autonomy && self.engine.raising_new_runs_needs_passkey())
    }
}

impl Administration for ConsoleEnvironment {
    fn settings_in_file(&self) -> Result<Settings, String> {
        let config_path = settings::config_path().map_err(|error| error.to_string())?;
        config::load_file(&config_path).map_err(|error| error.to_string())
    }

    fn change(&self, key: Key, value: Option<&str>) -> Result<(), String> {
        if needs_a_terminal(key, value).map_err(failure_text)? {
            if self.is_for_a_passkey(key) {
                return Err("This needs a passkey, and none is enrolled. Enrol one under Settings, Passkeys. Nothing was \
                            changed."
                    .to_owned());
            }
            let value = value.unwrap_or_default();
            return Err(format!(
                "This lets agents do more without asking, so it can be changed only at a terminal: `workrail config set \
                 {} {value}`. Nothing was changed.",
                key.as_str()
            ));
        }
        change(key, value).map(drop).map_err(failure_text)
    }

    fn needs_passkey(&self, key: Key, value: Option<&str>) -> Result<bool, String> {
        let has_keys = self.engine.passkeys().is_ok_and(|keys| keys.is_ok_and(|keys| keys.has_any()));
        Ok(self.is_for_a_passkey(key) && has_keys && needs_a_terminal(key, value).map_err(failure_text)?)
    }

    fn change_confirmed_by_passkey(&self, key: Key, value: Option<&str>) -> Result<(), String> {
        change(key, value).map(drop).map_err(failure_text)
    }

    fn sources(&self) -> Result<Vec<SourceInfo>, String> {
        let settings = settings::fresh().map_err(failure_text)?.settings;
        let reports = sources::source_reports_of(Sources::from_settings(&settings));
        // A value set by this process's environment is not in the file, and not removed from it.
        let in_file = self.settings_in_file()?;
        let shown = reports.into_iter().map(|(report, count)| {
            let registered_as = match report.precedence {
                Precedence::Git => {
                    in_file.git_sources().contains_key(&report.name).then(|| report.name.clone())
                }
                Precedence::Custom => {
                    in_file.list(Key::SourcePaths).contains(&report.name).then(|| report.name.clone())
                }
                Precedence::Plugin => in_file
                    .list(Key::SourcePlugins)
                    .contains(&report.location)
                    .then(|| report.location.clone()),
                Precedence::Bundled | Precedence::User | Precedence::Project => None,
            };
            let problems = report.problems.into_iter().map(|problem| SourceProblemView {
                what: problem.reference,
                problem: problem.problem,
                fix: problem.fix,
            });
            SourceInfo {
                kind: report.precedence.word(),
                name: report.name,
                location: report.location,
                state: report.state.as_str(),
                is_well: report.state.is_well(),
                usable: count.usable,
                files: report.files,
                registered_as,
                git: report.git.map(|git| GitInfo { reference: git.r#ref, commit: git.commit }),
                problems: problems.collect(),
            }
        });
        Ok(shown.collect())
    }

    fn add_source(&self, new: &NewSource) -> Result<(), String> {
        match new {
            NewSource::Folder { path } => {
                sources::register_folder(path.as_str().into(), Key::SourcePaths).map(drop)
            }
            NewSource::Plugin { path } => {
                sources::register_folder(path.as_str().into(), Key::SourcePlugins).map(drop)
            }
            NewSource::Git { name, url, reference, folder } => sources::register_git(NewGit {
                name: name.clone(),
                url: url.clone(),
                git_ref: reference.clone(),
                folder: folder.clone(),
                sync_hours: SYNC_HOURS_DEFAULT,
                // A local address is allowed only at a terminal.
                allow_local: false,
            })
            .map(drop),
        }
        .map_err(failure_text)?;
        self.use_registered_sources()
    }

    fn remove_source(&self, registered_as: &str) -> Result<(), String> {
        sources::forget(registered_as).map(drop).map_err(failure_text)?;
        self.use_registered_sources()
    }

    fn sync_source(&self, name: &str) -> Result<(), String> {
        let sources = Sources::from_settings(&settings::fresh().map_err(failure_text)?.settings);
        let mirror = sources.mirrors().iter().find(|mirror| mirror.name == name);
        let mirror = mirror.ok_or_else(|| format!("Unknown git source `{name}`."))?;
        mirror.sync().map(drop).map_err(|error| format!("{name} could not be fetched: {error}."))
    }

    fn clients(&self) -> Result<Vec<ClientInfo>, String> {
        let statuses = clients::client_statuses(&clients::bases().map_err(failure_text)?);
        let files = statuses.into_iter().flat_map(|status| {
            let (client, is_found) = (status.client.as_str(), status.present);
            status.files.into_iter().map(move |(file, command)| ClientInfo {
                client,
                is_found,
                scope: file.scope.as_str(),
                file: file.path.to_string(),
                state: match command {
                    Ok(Some(command)) => ClientState::SetUp(command),
                    Ok(None) => ClientState::NotSetUp,
                    Err(error) => ClientState::Unreadable(error.to_string()),
                },
            })
        });
        Ok(files.collect())
    }

    fn health(&self) -> Vec<DoctorFindingView> {
        let found = doctor::findings();
        let shown = found.into_iter().map(|finding| DoctorFindingView {
            area: finding.area,
            level: match finding.level {
                doctor::Level::Good => DoctorLevel::Good,
                doctor::Level::Warning => DoctorLevel::Warning,
                doctor::Level::Problem => DoctorLevel::Problem,
            },
            what: finding.what,
            fix: finding.fix,
        });
        shown.collect()
    }

    fn checks(&self) -> Result<ChecksInfo, String> {
        let offers = self.offers()?;
        let offered = offers.offered.iter().map(|offer| OfferedCheck {
            workflow: offer.workflow_id.to_string(),
            workflow_hash: offer.command.workflow_hash.to_string(),
            check: offer.command.check.to_string(),
            command: shell::line(&offer.command.argv),
            program: offer.command.program.to_string(),
            folder: offers.folder(offer),
            is_trusted: offer.is_trusted,
        });
        let not_offered = offers.not_offered.iter().map(|(workflow, check, why)| {
            (workflow.to_string(), check.to_string(), not_run(*why).to_owned())
        });
        let others = offers.others.iter().map(|other| {
            (other.workflow_id.to_string(), other.command.check.to_string(), shell::line(&other.command.argv))
        });
        Ok(ChecksInfo {
            others: others.collect(),
            offered: offered.collect(),
            not_offered: not_offered.collect(),
            digest: offers.digest(),
            workspace: offers.root.to_string(),
            file: offers.file.path().to_string(),
        })
    }

    fn trust_checks(&self, seen: Sha256) -> Result<(), String> {
        let offers = self.offers()?;
        if offers.digest() != seen {
            return Err("The commands are not the ones that were shown. Nothing was trusted.".to_owned());
        }
        offers.trust().map_err(failure_text)
    }

    fn revoke_check(&self, check: &str) -> Result<(), String> {
        take_back_trust(Some(check)).map(drop).map_err(failure_text)
    }

    fn keys_changed_at(&self) -> Option<Timestamp> {
        let root = data_dir(&settings::fresh().ok()?.settings).ok()?;
        of_file(fs::metadata(root.join("keys/keyring.json")).ok()?.modified().ok()?)
    }

    fn write_workflow(&self, id: &WorkflowId, bytes: &[u8]) -> Result<String, String> {
        let sources = Sources::from_settings(&settings::fresh().map_err(failure_text)?.settings);
        let reports = sources.reports(default_workspace().as_ref());
        let users_folder = reports.into_iter().find(|report| report.precedence == Precedence::User);
        let folder = users_folder.map(|report| Utf8PathBuf::from(report.location));
        let folder =
            folder.ok_or("There is no folder for workflows of your own: no home directory was found.")?;
        let file = folder.join(format!("{id}.json"));
        let written = fs::create_dir_all(&folder).and_then(|()| {
            // Never overwrites a user's file.
            let mut file = File::create_new(&file)?;
            file.write_all(bytes)
        });
        written.map_err(|error| format!("`{file}` was not written: {error}."))?;
        Ok(file.to_string())
    }

    fn save_workflow(&self, key: Sha256, seen: Sha256, bytes: &[u8]) -> Result<(), String> {
        // One at a time: if two pages save at once, the second sees what the first wrote.
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        replace(&file_with(key)?, seen, bytes).map_err(|error| format!("{error}."))
    }

    fn try_workflow(&self, key: Sha256, text: &[u8]) -> Result<TrialReport, String> {
        let file = file_with(key)?;
        let script =
            test_script(&file).map_err(|error| format!("The test script cannot be read: {error}."))?;
        let script = script.ok_or_else(|| {
            let name = Utf8Path::new(&file.reference).with_extension("test.toml");
            format!("There is no test script `{name}` next to the file. `workrail workflow test` shows how one starts.")
        })?;
        let script: Script = toml::from_str(&script).map_err(|error| format!("The test script: {error}"))?;
        let workflow = author::compiled_text(text, &file.reference, file.precedence).map_err(failure_text)?;
        let workflow = workflow.ok_or("The workflow has errors. Fix them first.")?;
        Ok(try_workflow(&workflow, &script))
    }
}

/// The source file that a key names; no other file is ever read or written.
fn file_with(key: Sha256) -> Result<CandidateFile, String> {
    let sources = Sources::from_settings(&settings::fresh().map_err(failure_text)?.settings);
    let files = sources.list(default_workspace().as_ref()).files;
    files
        .into_iter()
        .find(|file| file_key(file) == key)
        .ok_or_else(|| "The file no longer exists.".to_owned())
}

impl ConsoleEnvironment {
    fn offers(&self) -> Result<Offers, String> {
        Offers::here(&self.engine, &CheckSubject::Workflows(Vec::new())).map_err(failure_text)
    }

    /// What was just registered or removed holds in this console from now on.
    fn use_registered_sources(&self) -> Result<(), String> {
        self.sources.exchange(watched(&settings::fresh().map_err(failure_text)?.settings));
        Ok(())
    }
}
