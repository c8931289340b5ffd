//! Content: stored before the events that name it, found by its digest, kept once.

use workrail_model::canonical::CanonicalError;
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::EventData;
use workrail_model::id::SessionId;
use workrail_model::plan::AttachmentKind;
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore, StoreError};

use super::{StoreUnderTest, append, committed, create, ok, refusal, session_of};
use crate::history::{AdvancePayload, History, PlanParts, Step, plans};

/// No event is ever stored without its content.
pub fn unattached_content_is_refused(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let made = plans(1, &[Step::AdvanceWithArtifact]);
    let session = session_of(&made[0]);
    for parts in &made {
        let mut locked = match store.lock(session) {
            Ok(locked) => locked,
            Err(_) => ok(store.create(session)),
        };
        let before = locked.cursor();
        for kind in AttachmentKind::ALL {
            let mut lacking = parts.clone();
            lacking.attachments.retain(|attachment| attachment.kind() != kind);
            if lacking.attachments.len() == parts.attachments.len() {
                continue;
            }
            let error = refusal(locked.append(lacking.plan()));
            assert!(
                matches!(&error, StoreError::Unattached { kind: named, .. } if *named == kind),
                "{error:?}"
            );
            assert_eq!(locked.cursor(), before);
        }
        committed(ok(locked.append(parts.plan())));
    }
    assert_eq!(store.sessions(), Ok(vec![session]));
}

/// Every reference of every event leads to bytes that match its digest, also after a restart (G17).
pub fn content_reads_back_by_its_digest(subject: &impl StoreUnderTest) {
    let made = plans(1, &[Step::AdvanceWithArtifact, Step::Blocked, Step::Checkpoint]);
    let store = subject.open();
    create(&store, &made[0]);
    for parts in &made[1..] {
        append(&store, parts);
    }
    read_all_content(&store, &made);
    drop(store);
    read_all_content(&subject.open(), &made);
}

fn read_all_content(store: &impl ContentStore, made: &[PlanParts]) {
    for attachment in made.iter().flat_map(|parts| &parts.attachments) {
        let bytes = match attachment.kind() {
            AttachmentKind::Blob => stored(store.blob(attachment.blob_ref())),
            AttachmentKind::Snapshot => {
                canonical(stored(store.snapshot(attachment.snapshot_ref())).to_canonical())
            }
            AttachmentKind::Workflow => {
                canonical(stored(store.workflow(attachment.workflow_hash())).to_canonical())
            }
        };
        assert_eq!(Sha256::of(&bytes), attachment.digest());
    }
    for event in made.iter().flat_map(|parts| &parts.events) {
        for blob in event.data.blob_refs() {
            assert!(store.blob(blob).is_ok());
        }
        if let EventData::RunStarted(run) = &event.data {
            assert!(store.workflow(run.workflow_hash).is_ok());
        }
    }
}

fn stored<T>(content: Result<T, ContentError>) -> T {
    content.unwrap_or_else(|error| panic!("the content is stored: {error}"))
}

fn canonical(bytes: Result<Vec<u8>, CanonicalError>) -> Vec<u8> {
    bytes.unwrap_or_else(|error| panic!("stored content is canonical: {error}"))
}

pub fn absent_content_is_missing(subject: &impl StoreUnderTest) {
    let store = subject.open();
    create(&store, &plans(1, &[])[0]);
    let missing = |error: Option<ContentError>| assert!(matches!(error, Some(ContentError::Missing { .. })));
    missing(store.snapshot(SnapshotRef::of(b"absent")).err());
    missing(store.blob(BlobRef::of(b"absent")).err());
    missing(store.workflow(WorkflowHash::of(b"absent")).err());
}

/// A session may refer to content that another one stored, without bringing it again.
pub fn content_is_shared_between_sessions(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let mut history = History::new(1);
    let start = history.start();
    let (advance, _) = history.advance(history.root(), AdvancePayload::ARTIFACT);
    create(&store, &start);
    append(&store, &advance);

    let twin = SessionId::from_bits([0; 10]);
    create(&store, &start.in_session(twin).without_attachments());
    // Bringing it again does no harm.
    append(&store, &advance.in_session(twin));
    let made = [start, advance];
    read_all_content(&store, &made);
    let events: usize = made.iter().map(|parts| parts.events.len()).sum();
    assert_eq!(ok(store.read(twin, None)).events.len(), events);
}
