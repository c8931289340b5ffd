//! Every limit of the durable formats and the protocol, in one place, each with its reason.
//!
//! Limits are UTF-8 bytes, never characters (G4): bytes are what disks, pipes and clients count.

/// Largest integer a JSON number may have: beyond it a double loses digits, and so would the hash.
pub const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// Appended, exactly like this, wherever text was truncated.
pub const TRUNCATION_MARKER: &str = "\n\n[TRUNCATED]";

/// Notes kept inside an event; the full text is in the content-addressed store.
pub const NOTES_EVENT_BYTES_MAX: usize = 4096;
/// Notes accepted at all: a step's report, not a document dump.
pub const NOTES_BYTES_MAX: usize = 256 * 1024;

/// More blockers than this in a report teach nothing.
pub(crate) const BLOCKERS_MAX: usize = 10;
pub(crate) const BLOCKER_MESSAGE_BYTES_MAX: usize = 512;
pub const BLOCKER_FIX_BYTES_MAX: usize = 1024;

/// One sentence or two; the evidence is linked, not copied.
pub const SUMMARY_BYTES_MAX: usize = 512;
/// A step id and a name; a long step id is shortened.
pub const GAP_CAUSE_BYTES_MAX: usize = 256;

pub const TRACE_ENTRIES_MAX: usize = 25;
pub(crate) const TRACE_REFS_MAX: usize = 10;
pub(crate) const TRACE_EVENT_BYTES_MAX: usize = 8192;

/// Observation values are identity anchors (a branch name), not telemetry.
pub(crate) const OBSERVATION_BYTES_MAX: usize = 80;

/// Context is inputs and routing state, not a payload bag; measured as canonical JSON bytes.
pub const CONTEXT_BYTES_MAX: usize = 256 * 1024;
/// Deeper values are refused before they can exhaust a stack.
pub const JSON_DEPTH_MAX: usize = 64;
/// Context is part of events and snapshots, which must stay readable themselves.
pub(crate) const CONTEXT_DEPTH_MAX: usize = JSON_DEPTH_MAX - 8;

/// Dedupe keys are indexed per session; the limit keeps that index small.
pub(crate) const DEDUPE_KEY_BYTES_MAX: usize = 256;

/// A plan is one segment, so the rotation thresholds cap a plan.
pub const PLAN_EVENTS_MAX: usize = 1000;
pub const SEGMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Enough for about 300,000 plans of 850 bytes, three times the 100,000 steps that are proven; a longer manifest is
/// refused before it is read into memory.
pub const MANIFEST_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Snapshots contain only interpreter state: a number of steps and the loops around the pending one.
pub const SNAPSHOT_BYTES_MAX: u64 = 1024 * 1024;
/// One artifact, stored reply or long note.
pub const BLOB_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// A compiled workflow contains every prompt, schema and reference text.
pub const PINNED_WORKFLOW_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Derived and rebuildable: a larger cache is dropped, not read.
pub const CACHE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The index of all sessions: a few kilobytes for each of a hundred thousand.
pub const INDEX_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// One session in that index; a larger summary is not stored, and the session is read instead.
pub const INDEX_RECORD_BYTES_MAX: usize = 1024 * 1024;
pub const KEYRING_BYTES_MAX: u64 = 4096;
/// Every enrolment and every use of a passkey is a line of some hundred bytes.
pub const PASSKEY_LOG_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// "MacBook, left finger".
pub(crate) const PASSKEY_NAME_BYTES_MAX: usize = 64;
/// The name and version of a client, or the name of a machine; it is part of every record.
pub(crate) const ACTOR_TEXT_BYTES_MAX: usize = 64;
/// All access tokens of a store, some 300 bytes each.
pub const ACCESS_TOKENS_BYTES_MAX: u64 = 1024 * 1024;
/// Access tokens of a store that are neither expired nor revoked.
pub const ACCESS_TOKENS_MAX: usize = 1000;
/// What a person asked of a session: a few closed values, and for each run a passkey's signature on them.
pub const CONTROL_BYTES_MAX: u64 = 1024 * 1024;

/// Paths that an event lists; more are counted, or kept in the content store.
pub const EVIDENCE_PATHS_MAX: usize = 50;
/// A longer path is counted, not listed.
pub const EVIDENCE_PATH_BYTES_MAX: usize = 512;
/// A command as the host's hook saw it.
pub(crate) const EVIDENCE_COMMAND_BYTES_MAX: usize = 1024;
/// The end of a check's output, in the event and in a blocker's reply.
pub const EVIDENCE_TAIL_BYTES_MAX: usize = 2048;
/// An observed command's output, as far as its hook keeps it.
pub(crate) const EVIDENCE_OUTPUT_BYTES_MAX: usize = 8 * 1024;
/// The program and arguments of a check.
pub const EVIDENCE_ARGUMENTS_MAX: usize = 64;
pub const EVIDENCE_ARGUMENT_BYTES_MAX: usize = 1024;
/// What is kept of a check's output: the beginning shows what ran, the end what failed.
pub(crate) const CHECK_OUTPUT_HEAD_BYTES_MAX: usize = 32 * 1024;
pub(crate) const CHECK_OUTPUT_TAIL_BYTES_MAX: usize = 96 * 1024;
/// The time limit of a check if its step sets none: most test suites are done by then, and nobody waits longer for a
/// step.
pub const CHECK_TIMEOUT_DEFAULT_MS: u64 = 10 * 60 * 1000;
/// Checks of one step.
pub const CHECKS_PER_STEP_MAX: usize = 10;
/// The project's checks file: about a thousand checks.
pub const CHECKS_FILE_BYTES_MAX: u64 = 64 * 1024;
/// The file of trusted checks: about five thousand of them.
pub const TRUST_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// What hooks saw of a run and no advance has recorded yet. A hook drops what no longer fits.
pub const OBSERVATIONS_BYTES_MAX: u64 = 256 * 1024;
/// Observations that one advance records; the rest is left for the next one.
pub const OBSERVATIONS_PER_ADVANCE_MAX: usize = 100;
/// Runs with pending observations; the least recently written file is evicted first.
pub const OBSERVED_RUNS_MAX: usize = 256;

/// Event indexes fit in 25 bits so that a short token can name a node by the index of its event.
pub const EVENT_INDEX_MAX: u64 = (1 << 25) - 1;

/// Writers wait this long for a session lock before they answer "try again".
pub const LOCK_WAIT_MS_MAX: u64 = 2000;
/// How long a lock error asks the caller to wait.
pub const LOCK_RETRY_AFTER_MS: u64 = 1000;
/// How long a temporary I/O error asks the caller to wait.
pub const IO_RETRY_AFTER_MS: u64 = 2000;

/// An authored workflow file; existing files have the same limit.
pub const WORKFLOW_SOURCE_BYTES_MAX: u64 = 1_000_000;
/// How much bindings, templates, features and inherited texts may add to a file while it is compiled: a few bytes
/// repeated thousands of times must not become gigabytes.
pub const COMPILED_EXPANSION_BYTES_MAX: usize = 4 * 1024 * 1024;
pub const TITLE_BYTES_MAX: usize = 512;
/// One step's text as an agent reads it, values filled in, measured as a JSON string: a stored reply contains it
/// twice and must fit in a blob. More than an agent can read at once, and checked before it is written.
pub const RENDERED_STEP_BYTES_MAX: usize = 1024 * 1024;
/// A goal names the work; it is shown in lists.
pub const GOAL_BYTES_MAX: usize = 512;
/// A search consists of a few words.
pub const QUERY_BYTES_MAX: usize = 1_000;
/// An idempotency key: room for any uuid or ticket name.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;

/// Values in one item of a bundle (an event, a snapshot, a workflow): a short text must not become a huge tree.
pub const BUNDLE_ITEM_VALUES_MAX: u64 = 1 << 19;
/// One member of a bundle's envelope: who made it, what was left out.
pub const BUNDLE_MEMBER_BYTES_MAX: u64 = 1024 * 1024;
/// Snapshots, workflows and blobs of one bundle: a step makes a snapshot and a stored reply, so a session of
/// 100,000 steps fits twice.
pub const BUNDLE_SECTIONS_MAX: usize = 1 << 19;
/// How far an import may raise the activity counter: more calls than anyone makes, and far from its maximum.
pub const ACTIVITY_LEAP_MAX: u64 = 1 << 32;
