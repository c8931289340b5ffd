//! The passkey log in a database: appended to by one writer at a time, and reported when it is missing (G98). The use of
//! a passkey is recorded with the decision that it signed, or not at all (G97).

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use workrail_model::digest::Sha256;
use workrail_model::limits::PASSKEY_LOG_BYTES_MAX;
use workrail_ports::passkeys::{PasskeyLog, PasskeyLogError, PasskeyReader, StoredPasskeys};
use workrail_ports::session_store::{LockedSession, SessionStore};
use workrail_testkit::history::{Step, plans};

use support::{TestDatabase, open};

fn head(line: &[u8]) -> Option<Vec<u8>> {
    Some(Sha256::of(line).to_string().into_bytes())
}

#[test]
fn a_line_is_appended_only_to_the_log_that_was_read() {
    let Some(database) = TestDatabase::new() else { return };
    let (store, other) = (open(&database.address()), open(&database.address()));
    let empty = store.passkey_log().unwrap();
    assert_eq!(empty, StoredPasskeys::default());
    store.append_passkey(&empty, b"one\n").unwrap();
    assert_eq!(other.append_passkey(&empty, b"lost\n"), Err(PasskeyLogError::Changed));

    let seen = other.passkey_log().unwrap();
    assert_eq!(seen, StoredPasskeys { log: b"one\n".to_vec(), head: head(b"one") });
    other.append_passkey(&seen, b"two\n").unwrap();
    // The same length as what was read, but another log.
    let forged = StoredPasskeys { log: b"one\nowt\n".to_vec(), head: None };
    assert_eq!(store.append_passkey(&forged, b"three\n"), Err(PasskeyLogError::Changed));
    drop((store, other));
    let expected = StoredPasskeys { log: b"one\ntwo\n".to_vec(), head: head(b"two") };
    assert_eq!(open(&database.address()).passkey_log(), Ok(expected));
}

#[test]
fn a_full_log_is_left_unchanged() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    store.append_passkey(&StoredPasskeys::default(), b"one\n").unwrap();
    let seen = store.passkey_log().unwrap();
    let mut line = vec![b'x'; usize::try_from(PASSKEY_LOG_BYTES_MAX).unwrap() - seen.log.len()];
    line.push(b'\n');
    assert_eq!(store.append_passkey(&seen, &line), Err(PasskeyLogError::Full));
    assert_eq!(store.passkey_log(), Ok(seen));
}

#[test]
fn the_last_line_survives_a_deleted_log() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    store.append_passkey(&StoredPasskeys::default(), b"one\n").unwrap();
    database.cluster.sql(&database.name, "DELETE FROM workrail.passkey_log");
    let expected = StoredPasskeys { log: Vec::new(), head: head(b"one") };
    assert_eq!(store.passkey_log(), Ok(expected));
}

#[test]
fn a_damaged_log_is_moved_aside_and_its_intact_part_kept() {
    let Some(database) = TestDatabase::new() else { return };
    let store = open(&database.address());
    store.append_passkey(&StoredPasskeys::default(), b"sound\n").unwrap();
    database.cluster.sql(&database.name, "UPDATE workrail.passkey_log SET bytes = bytes || 'torn'");
    let damaged = store.passkey_log().unwrap();
    let stale = StoredPasskeys { head: None, ..damaged.clone() };
    assert_eq!(store.replace_passkeys(&stale, 6, b"reset\n"), Err(PasskeyLogError::Changed));

    store.replace_passkeys(&damaged, 6, b"reset\n").unwrap();
    let expected = StoredPasskeys { log: b"sound\nreset\n".to_vec(), head: head(b"reset") };
    assert_eq!(store.passkey_log(), Ok(expected));
    let aside = "SELECT convert_from(bytes, 'UTF8') FROM workrail.passkey_log_aside";
    assert_eq!(database.cluster.sql(&database.name, aside), "sound\ntorn");
}

#[test]
fn the_use_of_a_passkey_is_recorded_with_the_append_of_the_session_that_is_held() {
    let Some(database) = TestDatabase::new() else { return };
    let (store, other) = (open(&database.address()), open(&database.address()));
    let made = plans(1, &[Step::Advance; 2]);
    let session = made[0].events[0].session_id;
    store.create(session).unwrap().append(made[0].plan()).unwrap();

    // Nothing is appended: the same assertion can be used again.
    let mut locked = store.lock(session).unwrap();
    store.append_passkey(&StoredPasskeys::default(), b"refused\n").unwrap();
    assert_eq!(other.passkey_log(), Ok(StoredPasskeys::default()), "not before the append");
    let stale = plans(1, &[Step::Advance; 2]).pop().unwrap();
    assert!(locked.append(stale.plan()).is_err(), "it does not continue the log");
    drop(locked);
    assert_eq!(store.passkey_log(), Ok(StoredPasskeys::default()));

    let mut locked = store.lock(session).unwrap();
    store.append_passkey(&StoredPasskeys::default(), b"used\n").unwrap();
    // A log that has changed is refused without giving up the session.
    let changed = store.append_passkey(&StoredPasskeys::default(), b"twice\n");
    assert_eq!(changed, Err(PasskeyLogError::Changed));
    locked.append(made[1].plan()).unwrap();
    drop(locked);
    let expected = StoredPasskeys { log: b"used\n".to_vec(), head: head(b"used") };
    assert_eq!(other.passkey_log(), Ok(expected));
}
