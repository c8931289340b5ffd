//! The path of every file beneath the data directory; `FORMAT.md` shows the same as a tree.

use workrail_model::chat::ChatKey;
use workrail_model::digest::Sha256;
use workrail_model::event::EventIndex;
use workrail_model::id::{RunId, ServerId, SessionId};
use workrail_model::plan::AttachmentKind;
use workrail_model::time::Timestamp;
use workrail_ports::file_system::RelPath;

/// Builds a path from parts that are ids, digests, numbers and literals.
fn path(text: &str) -> RelPath {
    RelPath::parse(text)
        .expect("ids, digests and our own literals hold only letters, digits, `.`, `_` and `-`")
}

pub(crate) fn sessions() -> RelPath {
    path("sessions")
}

pub(crate) fn session(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}"))
}

pub(crate) fn events(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/events"))
}

/// A path as the manifest writes it, relative to the session's folder.
pub(crate) fn in_session(id: SessionId, relative: &str) -> Option<RelPath> {
    RelPath::parse(&format!("sessions/{id}/{relative}"))
}

/// The first and last event index of a segment, from its name; `None` for any other name, such as one with a number that
/// no event can have.
pub(crate) fn segment_indexes(name: &str) -> Option<(u64, u64)> {
    let (first, last) = name.strip_suffix(".jsonl")?.split_once('-')?;
    let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    EventIndex::new(last)?;
    (first <= last && name == format!("{first:08}-{last:08}.jsonl")).then_some((first, last))
}

pub(crate) fn segment_temp(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/events/.tmp-segment"))
}

pub(crate) const MANIFEST_NAME: &str = "manifest.jsonl";

pub(crate) fn manifest(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/{MANIFEST_NAME}"))
}

pub(crate) fn manifest_temp(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/.tmp-manifest"))
}

/// Where the remains of an interrupted manifest write are copied before they are cut off.
pub(crate) fn manifest_torn(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/manifest.torn"))
}

pub(crate) fn session_lock(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/.lock"))
}

pub(crate) fn cache_dir(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/cache"))
}

pub(crate) fn cache(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/cache/projection"))
}

pub(crate) fn cache_temp(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/cache/.tmp-projection"))
}

/// The dedupe keys of a long session.
pub(crate) fn saved_keys(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/cache/keys"))
}

pub(crate) fn saved_keys_temp(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/cache/.tmp-keys"))
}

/// The store-wide cache, which only saves time.
pub(crate) fn store_cache_dir() -> RelPath {
    path("cache")
}

/// The index of one version: builds with different summaries do not disturb each other.
pub(crate) fn index(version: u32) -> RelPath {
    path(&format!("cache/sessions-{version}.idx"))
}

pub(crate) fn index_temp() -> RelPath {
    path("cache/.tmp-index")
}

/// Held by the process that rewrites an index.
pub(crate) fn index_lock() -> RelPath {
    path("cache/index.lock")
}

/// The pending preferences of the session's runs.
pub(crate) fn pending_preferences(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/control.json"))
}

pub(crate) fn pending_preferences_temp(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/.tmp-control"))
}

/// Marks a session that must be kept; only the file's existence matters.
pub(crate) fn keep(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/keep"))
}

pub(crate) fn keep_temp(id: SessionId) -> RelPath {
    path(&format!("sessions/{id}/.tmp-keep"))
}

/// The names of a removed session until its files are gone. There are two, because moving a folder once more is what
/// makes the loss of its old name certain.
pub(crate) fn tombstones(id: &str) -> [RelPath; 2] {
    [path(&format!("sessions/.tmp-deleted-{id}")), path(&format!("sessions/.tmp-removed-{id}"))]
}

pub(crate) fn backups() -> RelPath {
    path("backups")
}

pub(crate) fn backup(id: SessionId, number: u64) -> RelPath {
    path(&format!("backups/{id}-{number}"))
}

pub(crate) fn backup_temp(id: SessionId) -> RelPath {
    path(&format!("backups/.tmp-{id}"))
}

/// Whether a file among the backups has the name of a manifest or of a segment. Repairs and restores move such files
/// there as they found them, of whatever length.
pub(crate) fn is_log_file(path: &RelPath) -> bool {
    let name = path.file_name();
    name == MANIFEST_NAME || segment_indexes(name).is_some()
}

/// Damaged content that was replaced; never read, and ignored by sweeps.
pub(crate) const DAMAGED_CONTENT: &str = "content";

pub(crate) fn damaged_content_dir() -> RelPath {
    path(&format!("backups/{DAMAGED_CONTENT}"))
}

pub(crate) fn damaged_content(kind: AttachmentKind, digest: Sha256, number: u64) -> RelPath {
    let kind = match kind {
        AttachmentKind::Snapshot => "snapshot",
        AttachmentKind::Blob => "blob",
        AttachmentKind::Workflow => "workflow",
    };
    path(&format!("{}/{kind}-{}-{number}", damaged_content_dir().as_str(), digest.hex()))
}

/// Where a file or folder with a segment's name is moved; `name` is exactly such a name.
pub(crate) fn segment_aside(id: SessionId, name: &str, number: u64) -> RelPath {
    path(&format!("{}/segment-{id}-{name}-{number}", damaged_content_dir().as_str()))
}

/// Marks this store as a backup, which `workrail store backup` may write to.
pub(crate) fn backup_marker() -> RelPath {
    path("backup.json")
}

pub(crate) fn backup_marker_temp() -> RelPath {
    path(".tmp-backup")
}

/// Held by the one backup or restore that writes to this store.
pub(crate) fn backup_lock() -> RelPath {
    path("backup.lock")
}

/// Content that a backup or restore is writing; its lock allows only one at a time.
pub(crate) fn backup_content_temp(kind: AttachmentKind) -> RelPath {
    path(&format!("{}/.tmp-backup", content_dir(kind).as_str()))
}

/// A settings file that the user keeps in the data directory.
pub(crate) fn settings() -> RelPath {
    path("config.toml")
}

pub(crate) fn settings_temp() -> RelPath {
    path(".tmp-settings")
}

/// The folder of one kind of content.
pub(crate) fn content_dir(kind: AttachmentKind) -> RelPath {
    path(match kind {
        AttachmentKind::Snapshot => "snapshots",
        AttachmentKind::Blob => "blobs",
        AttachmentKind::Workflow => "workflows/pinned",
    })
}

fn content_suffix(kind: AttachmentKind) -> &'static str {
    match kind {
        AttachmentKind::Snapshot | AttachmentKind::Workflow => ".json",
        AttachmentKind::Blob => "",
    }
}

pub(crate) fn content(kind: AttachmentKind, digest: Sha256) -> RelPath {
    path(&format!("{}/{}{}", content_dir(kind).as_str(), digest.hex(), content_suffix(kind)))
}

/// The digest in the name of a content file.
pub(crate) fn content_digest(kind: AttachmentKind, name: &str) -> Option<Sha256> {
    Sha256::from_hex(name.strip_suffix(content_suffix(kind))?).ok()
}

/// Content being written. The name holds the session id and a number, so that under the session's lock the next write
/// overwrites an interrupted one and leftovers cannot pile up.
pub(crate) fn content_temp(kind: AttachmentKind, id: SessionId, number: usize) -> RelPath {
    path(&format!("{}/.tmp-{}-{number}", content_dir(kind).as_str(), id.body()))
}

/// A session being imported. The name is not an id, so no reader takes it for a session. The import lock allows only
/// one at a time, and the next import removes what a killed one left.
pub(crate) fn import() -> RelPath {
    path("sessions/.tmp-import")
}

pub(crate) fn import_events() -> RelPath {
    path("sessions/.tmp-import/events")
}

pub(crate) fn import_manifest() -> RelPath {
    path("sessions/.tmp-import/manifest.jsonl")
}

/// A segment of the session being imported, named as in its manifest.
pub(crate) fn in_import(relative: &str) -> Option<RelPath> {
    RelPath::parse(&format!("sessions/.tmp-import/{relative}"))
}

/// Content of an import being written.
pub(crate) fn import_content_temp(kind: AttachmentKind) -> RelPath {
    path(&format!("{}/.tmp-import", content_dir(kind).as_str()))
}

/// Held while a session is imported.
pub(crate) fn import_lock() -> RelPath {
    path("import.lock")
}

/// Marks a folder in which a sync failed.
pub(crate) fn suspect(folder: &RelPath) -> RelPath {
    path(&format!("{}/.suspect", folder.as_str()))
}

/// Whether we may have given this name: what people add under other names is theirs.
pub(crate) fn may_be_ours(name: &str) -> bool {
    RelPath::parse(name).is_some()
}

/// Whether an interrupted write left it; never truth.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(".tmp-")
}

/// Whether this name marks a failed sync.
pub(crate) fn is_suspect_mark(name: &str) -> bool {
    name == ".suspect"
}

/// Every folder that must exist before the first append, parents first. The keys folder is created with the keys:
/// writing without tokens needs none.
pub(crate) fn base_dirs() -> [RelPath; 5] {
    ["sessions", "snapshots", "blobs", "workflows", "workflows/pinned"].map(path)
}

pub(crate) fn keys_dir() -> RelPath {
    path("keys")
}

pub(crate) const KEYRING: &str = "keys/keyring.json";

pub(crate) fn keyring() -> RelPath {
    path(KEYRING)
}

/// Where `keys new` moves an unusable keyring.
pub(crate) fn keyring_aside(number: u64) -> RelPath {
    path(&format!("keys/keyring.unusable-{number}"))
}

/// Where a backup keeps earlier keys that a store replaced.
pub(crate) fn keyring_replaced(number: u64) -> RelPath {
    path(&format!("keys/keyring.replaced-{number}"))
}

/// Where a folder in the place of the HTTP secret is moved.
pub(crate) fn http_secret_aside(number: u64) -> RelPath {
    path(&format!("keys/http-secret.unusable-{number}"))
}

pub(crate) fn is_key_aside(name: &str) -> bool {
    let asides = ["keyring.unusable-", "keyring.replaced-", "http-secret.unusable-", PASSKEYS_ASIDE];
    asides.iter().any(|aside| name.starts_with(aside))
}

/// The secret of the HTTP transport.
pub(crate) fn http_secret() -> RelPath {
    path("keys/http-secret")
}

pub(crate) fn http_secret_temp() -> RelPath {
    path("keys/.tmp-http-secret")
}

/// The digests of access tokens.
pub(crate) fn access_tokens() -> RelPath {
    path("keys/access-tokens.json")
}

pub(crate) fn access_tokens_temp() -> RelPath {
    path("keys/.tmp-access-tokens")
}

pub(crate) fn keyring_temp() -> RelPath {
    path("keys/.tmp-keyring")
}

/// The passkey log.
pub(crate) fn passkeys() -> RelPath {
    path("keys/passkeys.jsonl")
}

pub(crate) fn passkeys_temp() -> RelPath {
    path("keys/.tmp-passkeys")
}

/// Names the last line of the passkey log.
pub(crate) fn passkeys_head() -> RelPath {
    path("keys/passkeys.head")
}

pub(crate) fn passkeys_head_temp() -> RelPath {
    path("keys/.tmp-passkeys-head")
}

/// A damaged passkey log, moved aside by a reset.
pub(crate) fn passkeys_aside(log: Sha256) -> RelPath {
    path(&format!("keys/{PASSKEYS_ASIDE}{}", &log.hex()[..16]))
}

pub(crate) const PASSKEYS_ASIDE: &str = "passkeys.damaged-";

pub(crate) fn keyring_lock() -> RelPath {
    path("keys/.lock")
}

pub(crate) fn activity() -> RelPath {
    path("activity")
}

pub(crate) fn activity_temp() -> RelPath {
    path(".tmp-activity")
}

/// How far activity numbers may have been handed out.
pub(crate) fn activity_reserved() -> RelPath {
    path("activity.reserved")
}

pub(crate) fn activity_reserved_temp() -> RelPath {
    path(".tmp-activity.reserved")
}

/// The name to use if something else has the ordinary one.
pub(crate) fn spare(taken: &RelPath) -> RelPath {
    path(&format!("{}.spare", taken.as_str()))
}

pub(crate) fn activity_lock() -> RelPath {
    path("activity.lock")
}

/// Shared while content is written, exclusive while garbage is swept.
pub(crate) fn store_lock() -> RelPath {
    path("store.lock")
}

/// What hooks observed and no advance has recorded yet.
pub(crate) fn observed() -> RelPath {
    path("observed")
}

pub(crate) fn observed_run(session: SessionId, run: RunId) -> RelPath {
    path(&format!("observed/{session}-{run}.jsonl"))
}

/// The same file while an advance records it.
pub(crate) fn observed_taken(session: SessionId, run: RunId) -> RelPath {
    path(&format!("observed/{session}-{run}.taken"))
}

pub(crate) fn observed_temp(session: SessionId, run: RunId) -> RelPath {
    path(&format!("observed/.tmp-{}-{}", session.body(), run.body()))
}

/// The list of running servers.
pub(crate) fn servers() -> RelPath {
    path("servers")
}

pub(crate) fn server(id: ServerId) -> RelPath {
    path(&format!("servers/{id}.json"))
}

pub(crate) fn server_temp(id: ServerId) -> RelPath {
    path(&format!("servers/.tmp-{}", id.body()))
}

/// Held while the server runs.
pub(crate) fn server_lock(id: ServerId) -> RelPath {
    path(&format!("servers/{id}.lock"))
}

/// Which run each chat works on.
pub(crate) fn chats() -> RelPath {
    path("chats")
}

pub(crate) fn chat(key: ChatKey) -> RelPath {
    path(&format!("chats/{}.json", key.hex()))
}

/// Contains the process id: two hooks of one chat may run at once.
pub(crate) fn chat_temp(key: ChatKey, process: u32) -> RelPath {
    path(&format!("chats/.tmp-{}-{process}", key.hex()))
}

pub(crate) fn logs() -> RelPath {
    path("logs")
}

/// A server's current log and its predecessor. They sort by the server's start time.
pub(crate) fn server_logs(started: &Timestamp, id: ServerId) -> (RelPath, RelPath) {
    let digits: String = started.as_str().chars().filter(char::is_ascii_digit).collect();
    (path(&format!("logs/{digits}-{id}.jsonl")), path(&format!("logs/{digits}-{id}.old.jsonl")))
}
