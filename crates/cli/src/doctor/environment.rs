//! The program, its settings, its environment, and the workflows it would find.

use std::collections::BTreeMap;

use camino::Utf8Path;
use workrail_core::agent_site::RunRights;
use workrail_engine::catalog::Catalog;
use workrail_host::clients::SetupScope;
use workrail_host::config::{ConfigError, load, nearest_variable};
use workrail_host::env_vars;
use workrail_host::machine::{program, version_of};
use workrail_host::remote_server::{NoAnswer, RemoteAnswer, ask, server_of};
use workrail_host::sources::SourceState;
use workrail_host::workspace::default_workspace;
use workrail_model::discovery::Precedence;
use workrail_model::public_url::{PublicUrl, Scheme};

use super::DoctorFindings;
use crate::{install, settings, version};

const PROGRAM: &str = "program";
const SETTINGS: &str = "settings";
const ENVIRONMENT: &str = "environment";
const CLIENTS: &str = "clients";
const WORKFLOWS: &str = "workflows";

pub(super) fn check(findings: &mut DoctorFindings) {
    this_program(findings);
    settings(findings);
    variables(findings);
    git(findings);
    clients(findings);
    remote_servers(findings);
    workflows(findings);
}

/// Clients start `workrail` by name: they get the build that comes first on the path.
fn this_program(findings: &mut DoctorFindings) {
    findings.good(PROGRAM, format!("workrail {}", version::LONG));
    let this_program = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok());
    match program("workrail") {
        None => findings.warning(
            PROGRAM,
            "`workrail` is not on the PATH of this shell, so clients that start it by name cannot find it",
            match &this_program {
                Some(path) => format!("add the folder of {} to PATH", path.display()),
                None => "add the program's folder to PATH".to_owned(),
            },
        ),
        Some(found) if found.canonicalize().ok() == this_program => {
            findings.good(PROGRAM, format!("clients find this program as {found}"));
        }
        Some(found) => {
            let other = version_of(&found).unwrap_or_else(|| "of an unknown version".to_owned());
            findings.warning(
                PROGRAM,
                format!("clients that start `workrail` get {found} ({other}), not this program"),
                "install this one over it, or name the program's whole path in the client's settings",
            );
        }
    }
}

fn settings(findings: &mut DoctorFindings) {
    let config_path = match settings::config_path() {
        Ok(config_path) => config_path,
        Err(error) => return findings.warning(SETTINGS, error.to_string(), "set HOME or WORKRAIL_CONFIG"),
    };
    match load(Some(&config_path), settings::named_store()) {
        Ok(_) if config_path.path.exists() => {
            findings.good(SETTINGS, format!("{} is in order", config_path.path))
        }
        Ok(_) => findings.good(
            SETTINGS,
            format!("no settings file, using defaults ({} does not exist)", config_path.path),
        ),
        Err(error @ ConfigError::WrongVariable { .. }) => {
            findings.problem(SETTINGS, error.to_string(), "correct or unset the variable");
        }
        Err(error @ ConfigError::WrongOption { .. }) => {
            findings.problem(SETTINGS, error.to_string(), "correct the option");
        }
        Err(error) => findings.problem(SETTINGS, error.to_string(), "workrail config edit"),
    }
}

/// A misspelt variable silently does nothing, so it is reported here.
fn variables(findings: &mut DoctorFindings) {
    let known = |name: &str| env_vars::ALL.iter().any(|variable| variable.name == name);
    let strange = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut strange: Vec<String> =
        strange.filter(|name| name.starts_with("WORKRAIL_") && !known(name)).collect();
    strange.sort();
    for name in &strange {
        let fix = match nearest_variable(name) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "unset it".to_owned(),
        };
        findings.warning(ENVIRONMENT, format!("`{name}` is not a WorkRail variable and has no effect"), fix);
    }
    let set = env_vars::ALL.iter().filter(|variable| variable.get().is_some());
    let set: Vec<&str> = set.map(|variable| variable.name).filter(|name| *name != "HOME").collect();
    let set = if set.is_empty() { "none".to_owned() } else { set.join(", ") };
    findings.good(ENVIRONMENT, format!("variables set: {set}"));
}

fn git(findings: &mut DoctorFindings) {
    match program("git").and_then(|git| version_of(&git)) {
        Some(version) => findings.good(ENVIRONMENT, version),
        None => findings.warning(
            ENVIRONMENT,
            "git was not found: sessions do not remember their branch, and git sources cannot be fetched",
            "install git",
        ),
    }
}

/// A client that starts a missing program shows its user no error.
fn clients(findings: &mut DoctorFindings) {
    let Ok(bases) = install::bases() else { return };
    for status in install::client_statuses(&bases) {
        let name = status.client.as_str();
        let mut set_up = false;
        for (file, command) in &status.files {
            match command {
                Ok(Some(command)) if starts(command) => {
                    set_up = true;
                    findings.good(CLIENTS, format!("{name} is configured with {command} ({})", file.path));
                }
                Ok(Some(command)) => {
                    set_up = true;
                    let scope = file.scope.as_str();
                    findings.problem(
                        CLIENTS,
                        format!("{name} starts `{command}`, which does not exist ({})", file.path),
                        format!("workrail install --client {name} --scope {scope}"),
                    );
                }
                Ok(None) => {}
                Err(error) => findings.warning(CLIENTS, error.to_string(), "fix the file by hand"),
            }
        }
        if status.present && !set_up {
            let fix = format!("workrail install --client {name}");
            findings.warning(CLIENTS, format!("{name} is installed but not configured for WorkRail"), fix);
        }
    }
}

/// The team servers that clients are configured for: whether each responds, and accepts the token.
fn remote_servers(findings: &mut DoctorFindings) {
    let Ok(bases) = install::bases() else { return };
    let files = install::client_statuses(&bases).into_iter().flat_map(|status| status.files);
    // Everyone with push access can edit a project's file: the token must not be sent to the host it names.
    let users_files = files.filter(|(file, _)| file.scope == SetupScope::User);
    let addresses = users_files.filter_map(|(_, command)| command.ok().flatten());
    let servers: BTreeMap<String, PublicUrl> = addresses
        .filter_map(|address| server_of(&address))
        // Loopback over HTTP is this machine's own server, with its own secret.
        .filter(|server| server.scheme() == Scheme::Https)
        .map(|server| (server.to_string(), server))
        .collect();
    for (name, server) in servers {
        let token = env_vars::TOKEN.get();
        report_answer(findings, &name, ask(&server, token.as_deref()));
    }
}

/// What a server's answer means for the clients that are configured for it.
fn report_answer(findings: &mut DoctorFindings, name: &str, answer: Result<RemoteAnswer, NoAnswer>) {
    match answer {
        Ok(RemoteAnswer::Accepted { version, member }) => {
            let whose = member.as_ref().map_or_else(String::new, |member| {
                format!(" of {} (role {})", member.name, member.role.as_str())
            });
            let what = format!("{name} accepts the token{whose} and runs workrail {version}");
            match RunRights::of(member.map(|member| member.role)) {
                RunRights::Work => findings.good(CLIENTS, what),
                RunRights::ReadOnly { role } => findings.warning(
                    CLIENTS,
                    format!("{what}; agents cannot work with the role {}", role.as_str()),
                    "use a token of an agent: workrail team token create NAME --role agent",
                ),
            }
        }
        Ok(RemoteAnswer::UnsendableToken) => findings.problem(
            CLIENTS,
            format!(
                "WORKRAIL_TOKEN has characters that cannot be sent in an HTTP header, so it was not sent to {name}"
            ),
            "set it to the token alone, without spaces or line breaks",
        ),
        Ok(RemoteAnswer::WithoutToken) => findings.warning(
            CLIENTS,
            format!("{name} answers, but WORKRAIL_TOKEN is not set here, so the token was not tried"),
            "set WORKRAIL_TOKEN where the clients are started",
        ),
        Ok(RemoteAnswer::TokenRefused) => findings.problem(
            CLIENTS,
            format!("{name} does not accept the token in WORKRAIL_TOKEN"),
            "ask an administrator for a new one: workrail team token create NAME --role agent",
        ),
        Ok(RemoteAnswer::NotReady { status }) => findings.problem(
            CLIENTS,
            format!("{name} is a server that cannot answer now (status {status})"),
            "try again; an administrator runs `workrail doctor` there",
        ),
        Ok(RemoteAnswer::Unexpected { status }) => findings.problem(
            CLIENTS,
            format!("{name} is not a WorkRail server, or a proxy answers for it (status {status})"),
            "check the address",
        ),
        Err(error) => {
            let fix = match error {
                NoAnswer::UntrustedCertificate => {
                    "set SSL_CERT_FILE to the file of its authority's certificate, or of its own if it is self-signed"
                }
                NoAnswer::OutdatedCertificate => {
                    "renew the server's certificate, and check this machine's clock"
                }
                NoAnswer::OtherName => "use the address that its certificate names",
                NoAnswer::Io(_) => "check the address and the network",
            };
            findings.problem(CLIENTS, format!("{name} cannot be reached: {error}"), fix);
        }
    }
}

fn starts(command: &str) -> bool {
    // An address is connected to, not started.
    if ["http://", "https://"].iter().any(|scheme| command.starts_with(scheme)) {
        return true;
    }
    match command.contains('/') {
        true => Utf8Path::new(command).is_file(),
        false => program(command).is_some(),
    }
}

fn workflows(findings: &mut DoctorFindings) {
    let Ok(sources) = settings::sources() else { return };
    for mirror in sources.mirrors() {
        let mirror_state = mirror.state();
        // Other problems of a source are listed with the unusable files.
        if let (SourceState::Stale | SourceState::Unreadable, Some(problem)) =
            (mirror_state.state, mirror_state.problem)
        {
            findings.warning(
                WORKFLOWS,
                format!("{}: {problem}", mirror.name),
                mirror_state.fix.unwrap_or_default(),
            );
        }
    }
    let catalog = Catalog::new(std::sync::Arc::new(sources));
    let (usable, unusable) = catalog.counted(default_workspace().as_ref());
    findings.good(WORKFLOWS, format!("{usable} workflows available here"));
    for file in unusable {
        let first = file.errors.first().cloned().unwrap_or_default();
        findings.warning(
            WORKFLOWS,
            format!("{} cannot be used: {first}", file.file),
            match file.source_kind {
                Precedence::Project => format!("workrail workflow validate {}", file.file),
                // Its name is relative to another folder.
                Precedence::Bundled
                | Precedence::Plugin
                | Precedence::User
                | Precedence::Custom
                | Precedence::Git => "workrail workflow list --problems".to_owned(),
            },
        );
    }
}
