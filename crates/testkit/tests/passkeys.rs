//! Which recorded proofs count: decisions that were forged, copied or moved prove nothing (G97, G98).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use serde_json::json;
use workrail_core::passkey::{
    AssertionError, AssertionRefusal, NewKey, Passkeys, ProofError, RecordedIn, SignerOrigin, Statement,
    Trust, check_recorded, registered,
};
use workrail_model::approval::ApprovalDecision;
use workrail_model::digest::Sha256;
use workrail_model::id::{NodeId, RunId};
use workrail_model::name::{PrincipalName, StepId};
use workrail_model::passkey::{
    Assertion, Binary, KeyName, Nonce, OriginText, PasskeyChange, PasskeyProof, SignedChallenge,
};
use workrail_model::time::Timestamp;
use workrail_testkit::authenticator::{Authenticator, FormFields};

const ORIGIN: &str = "http://localhost:4717";

fn now() -> Timestamp {
    serde_json::from_value(json!("2026-01-31T23:59:00.000Z")).unwrap()
}

fn field(fields: &FormFields, name: &str) -> String {
    fields.iter().find(|(other, _)| *other == name).unwrap().1.clone()
}

fn nonce(byte: u8) -> Nonce {
    Nonce::new([byte; 32]).unwrap()
}

fn new_key(device: &Authenticator) -> NewKey {
    let challenge = Sha256::of(b"any");
    let asked = json!({ "nonce": nonce(0), "challenge": Binary::<32>::new(*challenge.as_bytes()).unwrap() });
    let made = device.make(&asked, ORIGIN);
    let bytes = |name: &str| Binary::<4096>::parse(&field(&made, name)).unwrap();
    registered(bytes("new.authenticatorData").bytes(), bytes("new.clientData").bytes(), challenge, ORIGIN)
        .unwrap()
}

fn sign(device: &mut Authenticator, statement: &Statement<'_>, nonce: Nonce) -> SignedChallenge {
    let challenge = statement.challenge(ORIGIN, &nonce);
    let asked = json!({ "nonce": nonce, "challenge": Binary::<32>::new(*challenge.as_bytes()).unwrap() });
    let signed = device.sign(&asked, ORIGIN);
    SignedChallenge {
        assertion: Assertion {
            credential_id: Binary::parse(&field(&signed, "passkey.credential")).unwrap(),
            authenticator_data: Binary::parse(&field(&signed, "passkey.authenticatorData")).unwrap(),
            client_data_json: Binary::parse(&field(&signed, "passkey.clientData")).unwrap(),
            signature: Binary::parse(&field(&signed, "passkey.signature")).unwrap(),
        },
        nonce,
        origin: OriginText::new(ORIGIN).unwrap(),
    }
}

/// A log and what it says.
#[derive(Clone, Default)]
struct Log {
    bytes: Vec<u8>,
}

impl Log {
    fn keys(&self) -> Passkeys {
        Passkeys::fold(&self.bytes).unwrap()
    }

    fn append(&mut self, change: PasskeyChange) {
        let line = self.keys().line(change, now()).unwrap();
        self.bytes.extend(line);
    }

    fn enrol(&mut self, name: &str, key: NewKey, agreed: Option<SignedChallenge>) {
        self.append(enrolled(name, key, agreed));
    }
}

fn enrolled(name: &str, key: NewKey, authorized_by: Option<SignedChallenge>) -> PasskeyChange {
    PasskeyChange::Enrolled {
        name: KeyName::new(name).unwrap(),
        owner: None,
        credential_id: key.credential,
        public_key: key.public_key,
        counter: key.counter,
        replaces: None,
        authorized_by,
    }
}

struct Decided {
    run: RunId,
    node: NodeId,
    step: StepId,
    decision: ApprovalDecision,
    submitted: Sha256,
    note: Option<&'static str>,
}

impl Decided {
    fn new() -> Self {
        Self {
            run: RunId::from_bits([1; 10]),
            node: NodeId::from_bits([2; 10]),
            step: StepId::parse("plan").unwrap(),
            decision: ApprovalDecision::Approved,
            submitted: Sha256::of(b"the plan"),
            note: None,
        }
    }

    fn statement(&self) -> Statement<'_> {
        Statement::Decision {
            run: self.run,
            node: self.node,
            step: &self.step,
            submitted: Some(self.submitted),
            decision: self.decision,
            reason: self.note,
        }
    }
}

/// A decision as it is recorded in a store with one key.
fn recorded() -> (Log, Authenticator, PasskeyProof) {
    let mut device = Authenticator::new(1);
    let mut log = Log::default();
    log.enrol("Laptop", new_key(&device), None);
    let decided = Decided::new();
    let signed = sign(&mut device, &decided.statement(), nonce(7));
    let accepted = log.keys().accept(&decided.statement(), &signed).unwrap();
    log.append(accepted.used);
    (log, device, PasskeyProof { signed, run: decided.run, key: accepted.key })
}

fn here() -> RecordedIn {
    RecordedIn { run: RunId::from_bits([1; 10]), is_imported: false }
}

fn judged(
    proof: &PasskeyProof,
    decided: &Decided,
    around: RecordedIn,
    log: &Log,
) -> Result<SignerOrigin, ProofError> {
    check_recorded(proof, &decided.statement(), around, &log.keys()).map(|(_, origin)| origin)
}

#[test]
fn a_recorded_decision_is_proven() {
    let (log, _, proof) = recorded();
    assert_eq!(judged(&proof, &Decided::new(), here(), &log), Ok(SignerOrigin::EnrolledHere));
}

#[test]
fn a_forged_event_in_the_log_is_not_proven() {
    let (log, _, proof) = recorded();
    let altered: Vec<(&str, Decided)> = vec![
        ("another node", Decided { node: NodeId::from_bits([9; 10]), ..Decided::new() }),
        ("another step", Decided { step: StepId::parse("deploy").unwrap(), ..Decided::new() }),
        ("another decision", Decided { decision: ApprovalDecision::Rejected, ..Decided::new() }),
        ("other outputs", Decided { submitted: Sha256::of(b"another plan"), ..Decided::new() }),
        ("another reason", Decided { note: Some("and more"), ..Decided::new() }),
        ("another run in the statement", Decided { run: RunId::from_bits([9; 10]), ..Decided::new() }),
    ];
    for (forgery, decided) in altered {
        assert!(matches!(judged(&proof, &decided, here(), &log), Err(ProofError::Assertion(_))), "{forgery}");
    }
    let moved = RecordedIn { run: RunId::from_bits([9; 10]), is_imported: false };
    assert_eq!(
        judged(&proof, &Decided::new(), moved, &log),
        Err(ProofError::OtherRun),
        "moved to another run"
    );
}

#[test]
fn a_key_unknown_to_the_store_proves_nothing() {
    let (log, _, _) = recorded();
    // The attacker's own store, key and signature, all of it consistent.
    let mut own = Authenticator::new(9);
    let mut own_log = Log::default();
    own_log.enrol("Laptop", new_key(&own), None);
    let decided = Decided::new();
    let signed = sign(&mut own, &decided.statement(), nonce(7));
    let key = own_log.keys().accept(&decided.statement(), &signed).unwrap().key;
    let proof = PasskeyProof { signed, run: decided.run, key };
    assert_eq!(judged(&proof, &decided, here(), &log), Err(ProofError::UnknownKey));
    let imported = RecordedIn { is_imported: true, ..here() };
    assert_eq!(judged(&proof, &decided, imported, &log), Ok(SignerOrigin::Foreign), "and it opens no gate");
    // It claims to be the enrolled key.
    let genuine = log.keys();
    let mut posing = proof.clone();
    posing.key.enrolment = genuine.all()[0].entry;
    assert_eq!(judged(&posing, &decided, here(), &log), Err(ProofError::OtherKey));
    assert_eq!(judged(&posing, &decided, imported, &log), Err(ProofError::OtherKey));
}

#[test]
fn a_signature_the_console_never_accepted_is_not_proven() {
    let (log, mut device, proof) = recorded();
    // A fake console obtained the signature; the real one never saw it.
    let decided = Decided { note: Some("phished"), ..Decided::new() };
    let signed = sign(&mut device, &decided.statement(), nonce(8));
    let phished = PasskeyProof { signed, ..proof };
    assert_eq!(judged(&phished, &decided, here(), &log), Err(ProofError::NotInLog));
}

#[test]
fn keys_change_only_with_the_signature_of_a_key() {
    let (log, mut device, _) = recorded();
    let mut other = Authenticator::new(2);
    let refused = log.keys().line(enrolled("Agent", new_key(&other), None), now());
    assert!(refused.is_err(), "nobody agreed");
    let key = new_key(&other);
    let statement = Statement::Enrol {
        owner: None,
        name: "Agent",
        credential: &key.credential,
        public_key: &key.public_key,
        replaces: None,
    };
    let own_word = sign(&mut other, &statement, nonce(3));
    assert!(log.keys().line(enrolled("Agent", key.clone(), Some(own_word)), now()).is_err(), "its own word");
    let word = sign(&mut device, &statement, nonce(4));
    assert!(
        log.keys().line(enrolled("Other name", key.clone(), Some(word.clone())), now()).is_err(),
        "another name"
    );
    let mut log = log;
    log.enrol("Agent", key.clone(), Some(word.clone()));
    assert_eq!(log.keys().all()[1].trust, Trust::Agreed);
    // Removed, and enrolled again with the same signature.
    let removal = sign(&mut device, &Statement::Remove { credential: &key.credential }, nonce(5));
    log.append(PasskeyChange::Removed { credential_id: key.credential.clone(), authorized_by: removal });
    assert!(log.keys().line(enrolled("Agent", key, Some(word)), now()).is_err(), "a word is used once");
    let decided = Decided::new();
    let late = sign(&mut other, &decided.statement(), nonce(6));
    assert_eq!(log.keys().accept(&decided.statement(), &late), Err(AssertionRefusal::RemovedKey));
}

#[test]
fn a_changed_missing_added_or_moved_line_is_damage() {
    let (mut log, mut device, _) = recorded();
    for place in 0..3 {
        let decided = Decided::new();
        let signed = sign(&mut device, &decided.statement(), nonce(20 + place));
        let used = log.keys().accept(&decided.statement(), &signed).unwrap().used;
        log.append(used);
    }
    let text = String::from_utf8(log.bytes).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let joined = |lines: &[&str]| format!("{}\n", lines.join("\n"));
    let mut swapped = lines.clone();
    swapped.swap(1, 2);
    let damages = [
        ("changed", text.replacen("Laptop", "Laptoq", 1)),
        ("left out", joined(&[&lines[..1], &lines[2..]].concat())),
        ("twice", joined(&[&lines[..2], &lines[1..]].concat())),
        ("moved", joined(&swapped)),
        ("without its end", text.trim_end().to_owned()),
        ("a later version", text.replacen("\"v\":1", "\"v\":2", 1)),
        ("no JSON", format!("{text}hello\n")),
    ];
    for (damage, log) in damages {
        assert_ne!(log, text, "{damage}");
        assert!(Passkeys::fold(log.as_bytes()).is_err(), "{damage}");
    }
    assert!(Passkeys::fold(text.as_bytes()).is_ok());
}

#[test]
fn counters_go_up_and_a_reset_is_remembered() {
    let (mut log, mut device, _) = recorded();
    device.counter = 0;
    let decided = Decided { note: Some("again"), ..Decided::new() };
    let signed = sign(&mut device, &decided.statement(), nonce(9));
    assert_eq!(log.keys().accept(&decided.statement(), &signed), Err(AssertionRefusal::CounterWentBack));
    log.append(PasskeyChange::Reset { damaged: None });
    assert!(!log.keys().has_any());
    log.enrol("Agent", new_key(&Authenticator::new(9)), None);
    let keys = log.keys();
    assert_eq!((keys.all()[1].trust, keys.resets().len()), (Trust::AfterReset, 1));
    let mut others = enrolled("Other", new_key(&Authenticator::new(10)), None);
    if let PasskeyChange::Enrolled { owner, .. } = &mut others {
        *owner = Some(PrincipalName::parse("ada").unwrap());
    }
    log.append(others);
    assert_eq!(log.keys().all()[2].trust, Trust::AfterReset, "for an owner who had no key before, too");
}

#[test]
fn a_response_that_no_console_or_authenticator_makes_is_refused() {
    type Change = fn(&mut Authenticator);
    let changes: [(&str, Change, AssertionError); 8] = [
        (
            "in a frame of another site",
            |own| own.client_data = vec![("crossOrigin", json!(true))],
            AssertionError::CrossOrigin,
        ),
        (
            "in a frame that names the page around it",
            |own| own.client_data = vec![("topOrigin", json!("http://evil.example"))],
            AssertionError::CrossOrigin,
        ),
        (
            "the client data of a new key",
            |own| own.client_data = vec![("type", json!("webauthn.create"))],
            AssertionError::OtherType,
        ),
        (
            "a challenge with padding",
            |own| own.client_data = vec![("challenge", json!("AAAA="))],
            AssertionError::OtherChallenge,
        ),
        ("copied, and not to be copied", |own| own.more_flags = 0x10, AssertionError::AuthenticatorData),
        ("a new key in an assertion", |own| own.more_flags = 0x40, AssertionError::AuthenticatorData),
        ("bytes that no flag announces", |own| own.trailing = vec![0xa0], AssertionError::AuthenticatorData),
        (
            "another relying party",
            |own| own.relying_party = "localhos".to_owned(),
            AssertionError::OtherRelyingParty,
        ),
    ];
    let (log, device, _) = recorded();
    let decided = Decided::new();
    for (case, change, problem) in changes {
        let mut device = device.clone();
        change(&mut device);
        let signed = sign(&mut device, &decided.statement(), nonce(9));
        assert_eq!(
            log.keys().accept(&decided.statement(), &signed),
            Err(AssertionRefusal::Assertion(problem)),
            "{case}"
        );
    }
    // What later browsers and synced keys add does not matter here.
    let mut device = device;
    device.client_data =
        vec![("other_keys_can_be_added_here", json!("do not compare")), ("origin", json!(ORIGIN))];
    device.more_flags = 0x18;
    let signed = sign(&mut device, &decided.statement(), nonce(9));
    assert!(log.keys().accept(&decided.statement(), &signed).is_ok());
}

#[test]
fn only_an_es256_key_on_p256_is_enrolled() {
    let challenge = Sha256::of(b"any");
    let asked = json!({ "nonce": nonce(0), "challenge": Binary::<32>::new(*challenge.as_bytes()).unwrap() });
    let device = Authenticator::new(1);
    let made = device.make(&asked, ORIGIN);
    let data = Binary::<4096>::parse(&field(&made, "new.authenticatorData")).unwrap().bytes().to_vec();
    let client_data = Binary::<4096>::parse(&field(&made, "new.clientData")).unwrap().bytes().to_vec();
    let key_at = data.len() - 77;
    let changed = |place: usize, byte: u8| {
        let mut data = data.clone();
        data[place] = byte;
        registered(&data, &client_data, challenge, ORIGIN)
    };
    assert!(registered(&data, &client_data, challenge, ORIGIN).is_ok());
    for (case, place, byte) in [
        ("RSA", key_at + 2, 0x03),
        ("ES384", key_at + 4, 0x27),
        ("P-384", key_at + 6, 0x02),
        ("a point that is not on the curve", data.len() - 1, data[data.len() - 1] ^ 1),
        ("a credential id that ends elsewhere", key_at - 21, 0xff),
    ] {
        assert!(changed(place, byte).is_err(), "{case}");
    }
    for cut in [0, 36, 37, 60, data.len() - 1] {
        assert!(registered(&data[..cut], &client_data, challenge, ORIGIN).is_err(), "{cut} bytes");
    }
    let mut longer = device;
    longer.trailing = vec![0xa0];
    let made = longer.make(&asked, ORIGIN);
    let data = Binary::<4096>::parse(&field(&made, "new.authenticatorData")).unwrap();
    assert!(
        registered(data.bytes(), &client_data, challenge, ORIGIN).is_err(),
        "bytes that no flag announces"
    );
}

#[test]
fn a_counter_below_the_one_at_enrolment_is_refused() {
    let mut device = Authenticator::new(1);
    device.counter = 40;
    let mut log = Log::default();
    log.enrol("Laptop", new_key(&device), None);
    device.counter = 7;
    let decided = Decided::new();
    let signed = sign(&mut device, &decided.statement(), nonce(7));
    assert_eq!(log.keys().accept(&decided.statement(), &signed), Err(AssertionRefusal::CounterWentBack));
}

#[test]
fn the_alternative_form_of_a_signature_is_a_replay_as_well() {
    let (log, _, proof) = recorded();
    let decided = Decided::new();
    let mut signed = proof.signed.clone();
    signed.assertion.signature = Binary::new(other_form(signed.assertion.signature.bytes())).unwrap();
    assert_ne!(signed, proof.signed);
    assert_eq!(log.keys().accept(&decided.statement(), &signed), Err(AssertionRefusal::Replayed));
}

/// The second valid signature of the same message: s is replaced by the order of the curve minus s.
fn other_form(signature: &[u8]) -> Vec<u8> {
    let signature = p256::ecdsa::Signature::from_der(signature).unwrap();
    let (r, s) = signature.split_scalars();
    let other = p256::ecdsa::Signature::from_scalars(r.to_bytes(), (-*s).to_bytes()).unwrap();
    other.to_der().as_bytes().to_vec()
}

#[test]
fn a_reset_missing_from_the_record_is_not_proven() {
    let (mut log, _, _) = recorded();
    log.append(PasskeyChange::Reset { damaged: None });
    let mut fresh = Authenticator::new(3);
    log.enrol("New", new_key(&fresh), None);
    let decided = Decided { note: Some("after the reset"), ..Decided::new() };
    let signed = sign(&mut fresh, &decided.statement(), nonce(8));
    let accepted = log.keys().accept(&decided.statement(), &signed).unwrap();
    log.append(accepted.used);
    let mut proof = PasskeyProof { signed, run: decided.run, key: accepted.key };
    assert_eq!(judged(&proof, &decided, here(), &log), Ok(SignerOrigin::EnrolledHere));
    proof.key.resets = 0;
    assert_eq!(judged(&proof, &decided, here(), &log), Err(ProofError::OtherKey));
}

#[test]
fn a_truncated_deleted_or_replaced_log_is_damage() {
    let (mut log, mut device, _) = recorded();
    let decided = Decided { note: Some("again"), ..Decided::new() };
    let signed = sign(&mut device, &decided.statement(), nonce(20));
    let used = log.keys().accept(&decided.statement(), &signed).unwrap().used;
    let older = log.bytes.clone();
    log.append(used);
    let last = log.bytes.strip_suffix(b"\n").unwrap().rsplit(|byte| *byte == b'\n').next().unwrap();
    let head = format!("{}\n", Sha256::of(last)).into_bytes();
    assert!(Passkeys::read(&log.bytes, Some(&head)).is_ok());
    let mut own = Log::default();
    own.enrol("Agent", new_key(&Authenticator::new(9)), None);
    for (damage, bytes, head) in [
        ("cut off", older.clone(), Some(head.clone())),
        ("deleted", Vec::new(), Some(head.clone())),
        ("replaced", own.bytes, Some(head.clone())),
        ("without its head", log.bytes.clone(), None),
        ("with a head that is none", log.bytes.clone(), Some(b"hello".to_vec())),
    ] {
        assert!(Passkeys::read(&bytes, head.as_deref()).is_err(), "{damage}");
    }
    // A crash between the line and the head.
    let mut behind = log.clone();
    behind.append(PasskeyChange::Reset { damaged: None });
    assert!(Passkeys::read(&behind.bytes, Some(&head)).is_ok());
    // The intact part before the damage can be kept.
    let damaged = [&log.bytes[..], b"hello\n"].concat();
    let (keys, bytes) = Passkeys::sound_part(&damaged);
    assert_eq!((keys.all().len(), bytes), (1, log.bytes.len()));
}
