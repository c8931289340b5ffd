//! The data directory: whether it is usable, what it holds, who uses it, and whether it is healthy.

use std::collections::BTreeSet;

use camino::Utf8Path;
use workrail_engine::report::shown_time;
use workrail_host::data_dir::data_dir;
use workrail_host::machine::{is_other_than_file, may_write_in, others_may_access, volume};
use workrail_model::error::{ErrorCode, ErrorDetails, ErrorEnvelope};
use workrail_ports::keyring::{KeyringError, KeyringStore as _};
use workrail_ports::upkeep::Inspection as _;

use super::DoctorFindings;
use crate::config::outdated_servers;
use crate::output::{self, ProgressDisplay};
use crate::store::AnyStore;
use crate::wiring;
use crate::{outcome, settings, version};

const DATA: &str = "data directory";
const STORE: &str = "store";
const SESSIONS: &str = "sessions";
const SERVERS: &str = "servers";

/// With less than this, one long run may fill the disk.
const FREE_BYTES_LOW: u64 = 1 << 30;
/// With less than this, the next call may fail.
const FREE_BYTES_MIN: u64 = 64 << 20;

pub(super) fn check(findings: &mut DoctorFindings) {
    let Ok(current) = settings::current() else { return };
    let root = match data_dir(&current.settings) {
        Ok(root) => root,
        Err(error) => return findings.problem(DATA, error.to_string(), "set WORKRAIL_DATA_DIR"),
    };
    let address = match wiring::database(current) {
        Ok(address) => address,
        Err(failure) => return unusable(findings, STORE, failure, STORE_FIX.to_owned()),
    };
    if !root.exists() {
        findings.good(DATA, format!("{root} does not exist yet; the first run creates it"));
        if address.is_none() {
            return;
        }
    } else {
        folder(findings, &root);
    }
    match wiring::read_only(current) {
        Ok(opened) => {
            locks(findings, &opened);
            http_secret(findings, &opened);
            if let (AnyStore::Database { shared, .. }, Some(address)) = (&*opened.store, &address) {
                let server = shared.server();
                findings.good(STORE, address.to_string());
                findings.good(
                    STORE,
                    format!("PostgreSQL {}, role {}, schema {}", server.version, server.role, server.schema),
                );
            }
            keys(findings, &opened, &root);
            access_tokens(findings, &opened);
            passkeys(findings, &opened);
            sessions(findings, &opened);
            pending(findings, &opened);
            servers(findings, &opened);
        }
        Err(failure) => match address {
            Some(_) => unusable(findings, STORE, failure, STORE_FIX.to_owned()),
            None => {
                unusable(findings, DATA, failure, format!("make {root} readable and writable for this user"))
            }
        },
    }
}

const STORE_FIX: &str = "check that the database is running, the setting `store`, and the password";

fn unusable(findings: &mut DoctorFindings, part: &'static str, failure: outcome::Failure, otherwise: String) {
    let (what, fix) = match failure {
        outcome::Failure::Refused(error) | outcome::Failure::Stopped(error) => {
            (error.message.clone(), error.suggestion_for_a_person().to_owned())
        }
        // The first line says what is wrong; the rest is a fix.
        outcome::Failure::Usage(text) | outcome::Failure::Environment(text) => match text.split_once('\n') {
            Some((what, fix)) => (what.to_owned(), fix.to_owned()),
            None => (text, otherwise),
        },
        outcome::Failure::Problems => return,
    };
    findings.problem(part, what, fix);
}

type Opened = wiring::EngineWithStore<AnyStore>;

fn keys(findings: &mut DoctorFindings, opened: &Opened, root: &Utf8Path) {
    match opened.engine.keys() {
        Ok(Some(_)) => match &*opened.store {
            AnyStore::Directory(_) => {
                findings.good(DATA, "the signing keys are usable, and private to this user");
            }
            AnyStore::Database { shared, .. } => match shared.has_wrapped_keys() {
                Ok(Some(true)) => findings.good(
                    STORE,
                    "the signing keys are usable; encrypted with the key that this machine has",
                ),
                Ok(Some(false) | None) => findings.good(
                    STORE,
                    "the signing keys are usable; every role that reads these rows can read them",
                ),
                Err(error) => findings.warning(
                    STORE,
                    format!(
                        "the signing keys are usable; whether their rows are encrypted could not be determined: {error}"
                    ),
                    "run doctor again; if this stays, check the database",
                ),
            },
        },
        Ok(None) => findings.good(area_of_store(opened), "no signing keys yet; the first run creates them"),
        Err(error) => {
            let (what, fix) = match opened.store.peek() {
                Err(KeyringError::UnknownVersion { path, version }) => (
                    format!(
                        "a newer version of WorkRail wrote the signing keys `{path}` (version {version})"
                    ),
                    "update WorkRail; the keys are intact".to_owned(),
                ),
                // Its permissions are not what is wrong with it.
                Err(KeyringError::Exposed { path }) if is_other_than_file(&root.join(&path)) => (
                    format!("`{path}` is not a regular file, so it holds no signing keys"),
                    format!(
                        "move {path} out of the data directory, then restore it from a backup or run workrail store \
                         keys new"
                    ),
                ),
                Ok(_) | Err(_) => (error.message.clone(), error.suggestion_for_a_person().to_owned()),
            };
            findings.problem(area_of_store(opened), what, fix);
        }
    }
}

/// The area of the findings about what is in the shared store.
fn area_of_store(opened: &Opened) -> &'static str {
    match &*opened.store {
        AnyStore::Directory(_) => DATA,
        AnyStore::Database { .. } => STORE,
    }
}

fn http_secret(findings: &mut DoctorFindings, opened: &Opened) {
    if let Err(error) = opened.store.machine().http_secret() {
        let what = format!("the HTTP secret in the folder `keys` cannot be used: {error}");
        findings.problem(DATA, what, "workrail store keys http-secret --new, then set up HTTP clients again");
    }
}

/// Only a team has any, so nothing is said about usable ones, nor about those that the fix of the keys helps as well.
fn access_tokens(findings: &mut DoctorFindings, opened: &Opened) {
    let keys = opened.engine.keys().err();
    if let Err(error) = opened.engine.access_tokens()
        && keys.is_none_or(|keys| keys.suggestion_for_a_person() != error.suggestion_for_a_person())
    {
        let fix = error.suggestion_for_a_person().to_owned();
        findings.problem(area_of_store(opened), error.message, fix);
    }
}

fn passkeys(findings: &mut DoctorFindings, opened: &Opened) {
    const FIX: &str = "move the damaged file (keys/passkeys.jsonl or keys/passkeys.head) out of the data directory, then: \
                       workrail store restore BACKUP (a database: pg_restore). Without a backup: workrail store passkeys \
                       reset, which revokes all passkeys and sets the damaged log aside. Until then no passkey is accepted";
    let area = area_of_store(opened);
    match opened.engine.passkeys() {
        Ok(Ok(keys)) => {
            let names: Vec<&str> = keys.enrolled().map(|enrolment| enrolment.name.as_str()).collect();
            match names.is_empty() {
                true => findings.good(area, "no passkey is enrolled"),
                false => findings.good(area, format!("passkeys enrolled: {}", names.join(", "))),
            }
            for at in keys.resets() {
                let what = format!("all passkeys were reset at a terminal on {}", shown_time(at));
                findings.warning(
                    area,
                    what,
                    "if that was not you, review what was approved since; workrail store passkeys show lists keys and resets",
                );
            }
        }
        Ok(Err(damage)) => {
            let log = match &*opened.store {
                AnyStore::Directory(_) => "the passkey log keys/passkeys.jsonl",
                AnyStore::Database { .. } => "the passkey log",
            };
            findings.problem(area, format!("{log} is damaged: {damage}"), FIX);
        }
        Err(error) => findings.problem(area, error.message.clone(), FIX),
    }
}

fn folder(findings: &mut DoctorFindings, root: &Utf8Path) {
    findings.good(DATA, root.as_str());
    if others_may_access(root) == Some(true) {
        findings.warning(DATA, "other users of this machine can read it", format!("chmod 700 {root}"));
    }
    writable(findings, root);
    let Some(volume) = volume(root) else { return };
    let free = volume.free_bytes >> 20;
    match volume.free_bytes {
        0..FREE_BYTES_MIN => {
            findings.problem(DATA, format!("{free} MiB free on its disk"), "free some disk space");
        }
        FREE_BYTES_MIN..FREE_BYTES_LOW => {
            findings.warning(DATA, format!("{free} MiB free on its disk"), "free some disk space soon");
        }
        FREE_BYTES_LOW.. => findings.good(DATA, format!("{} GiB free on its disk", free >> 10)),
    }
    if let Some(kind) = volume.network {
        findings.warning(
            DATA,
            format!("it is on {kind}, where file locks may not work between machines"),
            "set data_dir to a folder on a local disk",
        );
    }
}

/// The folders that every start and advance write to.
const WRITTEN: [&str; 4] = ["sessions", "snapshots", "blobs", "workflows/pinned"];

fn writable(findings: &mut DoctorFindings, root: &Utf8Path) {
    let unwritable: Vec<_> = match may_write_in(root) {
        false => vec![root.to_owned()],
        true => {
            let folders = WRITTEN.iter().map(|name| root.join(name));
            folders.filter(|folder| folder.is_dir() && !may_write_in(folder)).collect()
        }
    };
    for folder in unwritable {
        findings.problem(
            DATA,
            format!("this user cannot write to {folder}, so no run can be started or continued"),
            format!("make its disk writable, or give this user access: chmod u+rwx {folder}"),
        );
    }
}

fn locks(findings: &mut DoctorFindings, opened: &Opened) {
    match opened.store.machine().held_locks() {
        Ok(held) if held.is_empty() => findings.good(DATA, "no lock is held"),
        Ok(held) => {
            let names: Vec<&str> = held.iter().map(|path| path.as_str()).collect();
            let what = format!("held right now: {}", names.join(", "));
            // A working server holds locks for short moments.
            match opened.engine.servers().is_ok_and(|running| !running.is_empty()) {
                true => findings.good(DATA, format!("{what} (servers are running)")),
                false => findings.warning(
                    DATA,
                    what,
                    "run doctor again; if the lock is still held, end the hung workrail process",
                ),
            }
        }
        Err(error) => findings.problem(DATA, error.to_string(), "check the disk and the folder's owner"),
    }
}

fn sessions(findings: &mut DoctorFindings, opened: &Opened) {
    let mut bar: Option<ProgressDisplay> = None;
    let read = opened.engine.health(|done, total| {
        bar.get_or_insert_with(|| ProgressDisplay::new("reading sessions", total as u64)).at(done as u64);
    });
    drop(bar);
    match read {
        Ok(health) => {
            let well = health.sessions - health.unhealthy.len();
            findings.good(
                SESSIONS,
                match health.sessions {
                    0 => "none yet".to_owned(),
                    sessions => format!("{well} of {sessions} are healthy"),
                },
            );
            if health.sessions > 0 {
                findings.good(
                    SESSIONS,
                    "their logs were checked; `workrail store verify` also checks their content",
                );
            }
            for lost in health.unreadable_workflows {
                let runs = output::counted(lost.runs as u64, "unfinished run needs", "unfinished runs need");
                let what = format!("{} {runs} it.", lost.cause.message);
                findings.problem(SESSIONS, what, lost.cause.suggestion_for_a_person().to_owned());
            }
            let obstructed: BTreeSet<String> =
                opened.store.obstacles().into_iter().map(|obstacle| obstacle.path).collect();
            for unhealthy in health.unhealthy {
                // What is in the place of its folder is reported as such.
                let folder = format!("sessions/{}", unhealthy.session);
                if obstructed.contains(&folder) || obstructed.contains(&format!("{folder}/events")) {
                    continue;
                }
                let fix = fix_of(&unhealthy.cause, &unhealthy.session.to_string());
                // The message names the session.
                findings.problem(SESSIONS, unhealthy.cause.message.clone(), fix);
            }
        }
        Err(error) => {
            findings.problem(SESSIONS, error.message.clone(), error.suggestion_for_a_person().to_owned())
        }
    }
}

/// A repair cannot change what this user may not read.
fn fix_of(cause: &ErrorEnvelope, session: &str) -> String {
    if cause.code == ErrorCode::SessionUnknownVersion {
        return "install the version of WorkRail that wrote it, or a newer one".to_owned();
    }
    if matches!(&cause.details, Some(ErrorDetails::Session(health)) if health.is_access_denied()) {
        return "give this user read permission: chmod u+r on a file, chmod u+rwx on a folder".to_owned();
    }
    format!(
        "workrail store repair {session} --dry-run shows what can be kept; without --dry-run it repairs. A backup may have \
         more: workrail store restore FOLDER, or pg_restore for a database"
    )
}

/// Writes that were interrupted at their very end, and anything that blocks our own files.
fn pending(findings: &mut DoctorFindings, opened: &Opened) {
    for write in opened.store.pending_writes().unwrap_or_default() {
        findings.warning(
            SESSIONS,
            format!(
                "{}: one completed write ({} events) waits to be rolled forward",
                write.session, write.events
            ),
            format!(
                "nothing to do: the next call on the session rolls it forward, as does workrail store repair {}",
                write.session
            ),
        );
    }
    for obstacle in opened.store.obstacles() {
        findings.problem(DATA, format!("{}: {}", obstacle.path, obstacle.problem), obstacle.fix);
    }
    for folder in opened.store.foreign_folders().unwrap_or_default() {
        findings.problem(
            DATA,
            format!("{folder} is not a session, so workrail store gc deletes no content"),
            "move it out of sessions/, or update WorkRail if a newer one put it there",
        );
    }
    for path in opened.store.machine().blocked_names() {
        findings.warning(
            DATA,
            format!("{path} is in the way of a file of WorkRail; another name is used instead"),
            format!("move {path} out of the data directory"),
        );
    }
}

fn servers(findings: &mut DoctorFindings, opened: &Opened) {
    let running = match opened.engine.servers() {
        Ok(running) => running,
        Err(error) => {
            return findings.warning(
                SERVERS,
                error.message.clone(),
                error.suggestion_for_a_person().to_owned(),
            );
        }
    };
    findings.good(SERVERS, format!("{} running", running.len()));
    for server in running.iter().filter(|server| server.version != version::LONG) {
        findings.warning(
            SERVERS,
            format!(
                "process {} runs workrail {}, this is {}",
                server.process_id,
                server.version,
                version::LONG
            ),
            "restart that client",
        );
    }
    let in_file =
        settings::config_path().and_then(|config_path| workrail_host::config::load_file(&config_path));
    let Ok(in_file) = in_file else { return };
    for outdated in outdated_servers(&in_file).unwrap_or_default() {
        let stale = outdated.differences.iter().filter(|difference| difference.restart.is_some());
        let stale: Vec<&str> = stale.map(|difference| difference.key.as_str()).collect();
        if !stale.is_empty() {
            let process = outdated.server.process_id;
            findings.warning(
                SERVERS,
                format!("process {process} still has other settings: {}", stale.join(", ")),
                "restart that client",
            );
        }
    }
}
