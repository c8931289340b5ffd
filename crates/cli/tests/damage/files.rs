//! Every kind of file and folder of a home, and its role in the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::template::Template;

/// What depends on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The log of the victim.
    Log,
    /// Content that one or several sessions refer to.
    Content,
    /// A folder that every session needs.
    Base,
    Keys,
    /// The HTTP transport's secret, which only that transport needs.
    HttpSecret,
    /// The enrolled passkeys, which only decisions of users need (G98).
    Passkeys,
    /// The digests of access tokens, which only a team's members need (G113).
    AccessTokens,
    Settings,
    /// Which checks a person trusts; without it they are not run (G121).
    Trust,
    /// What was fetched of a source: its workflows are missing until the next fetch (G91).
    Source,
    /// A user's request, never truth.
    UserRequest,
    Lock,
    /// A backup that a repair left in the store.
    Backup,
    /// Marks a folder as a backup, so that it can be restored from and written to.
    BackupMarker,
    /// Losing it loses nothing (G18, G83), or only what a hook saw of an unrecorded step (G110).
    Disposable,
}

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// Relative to the root of the home.
    pub(crate) path: PathBuf,
    /// Another of the same kind.
    pub(crate) twin: Option<PathBuf>,
}

/// The targets that only the template of a long session has.
pub(crate) const OF_LONG_SESSIONS: [&str; 3] = ["session cache", "cached projection", "cached keys"];

/// All targets that this build of the program has created in the template.
pub(crate) fn targets(template: &Template) -> Vec<Target> {
    let root = template.home.root();
    let mut found = Vec::new();
    let mut add = |name, role, path: PathBuf, twin: Option<PathBuf>| {
        if fs::symlink_metadata(root.join(&path)).is_ok() {
            found.push(Target { name, role, path, twin });
        }
    };
    let data = Path::new("data");
    let (victim, other) = (&template.victim.session, &template.sharing.session);
    let of = |session: &str, name: &str| data.join("sessions").join(session).join(name);
    let relative = |path: &PathBuf| path.strip_prefix(root).unwrap().to_owned();
    let segments: Vec<PathBuf> = template.segments(victim).iter().map(relative).collect();
    let (first, middle, last) = (&segments[0], &segments[segments.len() / 2], &segments[segments.len() - 1]);
    let folder = |session: &str| data.join("sessions").join(session);
    add("session folder", Role::Log, folder(victim), Some(folder(other)));
    add("events folder", Role::Log, of(victim, "events"), Some(of(other, "events")));
    add("manifest", Role::Log, of(victim, "manifest.jsonl"), Some(of(other, "manifest.jsonl")));
    add("first segment", Role::Log, first.clone(), Some(last.clone()));
    add("middle segment", Role::Log, middle.clone(), Some(first.clone()));
    add("last segment", Role::Log, last.clone(), Some(middle.clone()));
    for (name, folder) in [
        ("sessions folder", "sessions"),
        ("snapshots folder", "snapshots"),
        ("blobs folder", "blobs"),
        ("workflows folder", "workflows/pinned"),
    ] {
        add(name, Role::Base, data.join(folder), None);
    }
    for (name, file, twin) in content(template) {
        add(name, Role::Content, data.join(file), twin.map(|twin| data.join(twin)));
    }
    add("keys folder", Role::Keys, data.join("keys"), None);
    add(
        "keyring",
        Role::Keys,
        data.join("keys/keyring.json"),
        Some(PathBuf::from("elsewhere/data/keys/keyring.json")),
    );
    add("http secret", Role::HttpSecret, data.join("keys/http-secret"), None);
    for (name, file) in [("passkey log", "passkeys.jsonl"), ("passkey head", "passkeys.head")] {
        add(name, Role::Passkeys, data.join("keys").join(file), None);
    }
    add("access tokens", Role::AccessTokens, data.join("keys/access-tokens.json"), None);
    add("settings", Role::Settings, PathBuf::from("home/.config/workrail/config.toml"), None);
    add("stored settings", Role::Disposable, data.join("config.toml"), None);
    add("trusted checks", Role::Trust, PathBuf::from("home/.config/workrail/trusted-checks.json"), None);
    add("backup marker", Role::BackupMarker, PathBuf::from("backup/backup.json"), None);
    add("control", Role::UserRequest, of(victim, "control.json"), None);
    add("keep", Role::UserRequest, of(victim, "keep"), None);
    add("session lock", Role::Lock, of(victim, ".lock"), None);
    add("store lock", Role::Lock, data.join("store.lock"), None);
    add("activity lock", Role::Lock, data.join("activity.lock"), None);
    add("import lock", Role::Lock, data.join("import.lock"), None);
    add("keys lock", Role::Lock, data.join("keys/.lock"), None);
    add("backup lock", Role::Lock, data.join("backup.lock"), None);
    add("index lock", Role::Disposable, data.join("cache/index.lock"), None);
    let finished = &template.finished;
    add("failed sync mark", Role::Disposable, of(finished, ".suspect"), None);
    add("torn manifest", Role::Disposable, of(victim, "manifest.torn"), None);
    add("activity", Role::Disposable, data.join("activity"), None);
    add("activity reservation", Role::Disposable, data.join("activity.reserved"), None);
    for (name, folder) in
        [("observed folder", "observed"), ("chats folder", "chats"), ("clients folder", "clients")]
    {
        add(name, Role::Disposable, data.join(folder), None);
    }
    add("made folders", Role::Disposable, data.join("clients/folders.json"), None);
    add("cache folder", Role::Disposable, data.join("cache"), None);
    add("session cache", Role::Disposable, of(victim, "cache"), None);
    let cached = |name: &str| of(victim, "cache").join(name);
    add("cached projection", Role::Disposable, cached("projection"), Some(cached("keys")));
    add("cached keys", Role::Disposable, cached("keys"), Some(cached("projection")));
    add("replaced content folder", Role::Disposable, data.join("backups/content"), None);
    add("sources folder", Role::Source, data.join("sources"), None);
    let entries = |folder: &str| entries(&root.join(data).join(folder));
    for (name, role, folder, wanted) in [
        ("server record", Role::Disposable, "servers", ".json"),
        ("server lock", Role::Disposable, "servers", ".lock"),
        ("log", Role::Disposable, "logs", ".jsonl"),
        ("store cache", Role::Disposable, "cache", ".idx"),
        ("backup", Role::Backup, "backups", "sess_"),
        ("replaced content", Role::Disposable, "backups/content", "snapshot-"),
        ("replaced keyring", Role::Disposable, "keys", "keyring.unusable-"),
        ("replaced http secret", Role::Disposable, "keys", "http-secret.unusable-"),
        ("replaced passkey log", Role::Disposable, "keys", "passkeys.damaged-"),
        ("observations", Role::Disposable, "observed", ".jsonl"),
        ("taken observations", Role::Disposable, "observed", ".taken"),
        ("chat", Role::Disposable, "chats", ".json"),
        ("client receipt", Role::Disposable, "clients/receipts", ""),
        ("client backup", Role::Disposable, "clients/backups", ""),
    ] {
        if let Some(path) = entries(folder).iter().find(|path| path.contains(wanted)) {
            add(name, role, data.join(folder).join(path), None);
        }
    }
    add(
        "backup manifest",
        Role::Backup,
        data.join(format!("backups/{}-1/manifest.jsonl", template.repaired)),
        None,
    );
    let source =
        entries("sources/git").pop().map(|key| Path::new("sources/git").join(key)).unwrap_or_default();
    for (name, wanted) in [
        ("source record", "record.json"),
        ("source lock", "lock"),
        ("source repository", "repository"),
        ("source contents", ".contents"),
    ] {
        if let Some(path) = entries(source.to_str().unwrap()).iter().find(|path| path.ends_with(wanted)) {
            add(name, Role::Source, data.join(&source).join(path), None);
        }
    }
    found
}

fn entries(folder: &Path) -> Vec<String> {
    let Ok(found) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Content of the victim, one file of each kind, beneath the data directory.
fn content(template: &Template) -> Vec<(&'static str, String, Option<String>)> {
    let mut found = Vec::new();
    let events = template.events(&template.victim.session);
    let digest = |value: &Value| value.as_str().map(|text| text.trim_start_matches("sha256:").to_owned());
    let nodes: Vec<String> =
        events.iter().filter_map(|event| digest(&event["data"]["snapshotRef"])).collect();
    let snapshot = |digest: &String| format!("snapshots/{digest}.json");
    found.push(("shared snapshot", snapshot(&nodes[0]), Some(snapshot(&nodes[2]))));
    found.push(("own snapshot", snapshot(&nodes[3]), Some(snapshot(&nodes[0]))));
    let of = |kind: &str, at: &str| {
        let mut matching = events.iter().filter(|event| event["kind"] == kind);
        matching.find_map(|event| digest(event.pointer(at).unwrap_or(&Value::Null)))
    };
    let blob = |digest: String| format!("blobs/{digest}");
    let replies: Vec<String> =
        events.iter().filter_map(|event| digest(&event["data"]["replyRef"])).map(blob).collect();
    found.push(("stored reply", replies[replies.len() - 1].clone(), Some(replies[0].clone())));
    if let Some(notes) = of("node_output_appended", "/data/payload/fullTextRef") {
        found.push(("notes blob", blob(notes), Some(replies[0].clone())));
    }
    if let Some(artifact) = of("node_output_appended", "/data/payload/sha256") {
        found.push(("artifact blob", blob(artifact), Some(replies[0].clone())));
    }
    let pinned = of("run_started", "/data/workflowHash").map(|hash| format!("workflows/pinned/{hash}.json"));
    let other = template.events(&template.apart.session);
    let other = other.iter().find_map(|event| digest(&event["data"]["workflowHash"]));
    found.push((
        "pinned workflow",
        pinned.unwrap(),
        other.map(|hash| format!("workflows/pinned/{hash}.json")),
    ));
    found
}

impl Target {
    /// The sessions that are incomplete without this file.
    pub(crate) fn needed_by(&self, template: &Template) -> BTreeSet<String> {
        match self.role {
            Role::Log => BTreeSet::from([template.victim.session.clone()]),
            Role::Base => template.sessions().into_iter().map(str::to_owned).collect(),
            Role::Content => {
                let name = self.path.file_name().unwrap().to_string_lossy().into_owned();
                let digest = name.trim_end_matches(".json");
                template.referrers.get(digest).into_iter().flatten().cloned().collect()
            }
            Role::Keys
            | Role::HttpSecret
            | Role::Passkeys
            | Role::AccessTokens
            | Role::Settings
            | Role::Trust
            | Role::Source
            | Role::UserRequest
            | Role::Lock
            | Role::Backup
            | Role::BackupMarker
            | Role::Disposable => BTreeSet::new(),
        }
    }
}
