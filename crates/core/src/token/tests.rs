//! What the token encodings promise: fixed bytes, and only those bytes.

use std::collections::BTreeSet;

use proptest::prelude::*;
use test_case::test_case;
use workrail_model::error::ErrorCode;

use super::*;
use crate::label::LABEL_CHARS_MAX;

/// The longest `v2` token.
const SHORT_TOKEN_CHARS_MAX: usize = "ack.v2.".len() + LABEL_CHARS_MAX + ".".len() + v2::BODY_CHARS;

fn key() -> SigningKey {
    SigningKey::new(std::array::from_fn(|position| position as u8))
}

fn keyring() -> Keyring {
    Keyring { current: key(), previous: None }
}

fn counted(from: u8) -> [u8; 10] {
    std::array::from_fn(|position| from + position as u8)
}

fn session() -> SessionId {
    SessionId::from_bits(counted(0x10))
}

fn facts() -> NodeFacts {
    NodeFacts {
        node: NodeId::from_bits(counted(0x30)),
        run: RunId::from_bits(counted(0x20)),
        node_event: EventIndex::new(1_234_567).unwrap(),
        created_by: EventId::from_bits(counted(0x40)),
        workflow: WorkflowHash::of(b"workflow"),
    }
}

fn attempt() -> AttemptId {
    AttemptId::from_bits(0x1234_5678_9abc)
}

fn target(kind: TokenKind) -> MintTarget {
    let (session, at, attempt) = (session(), facts(), attempt());
    match kind {
        TokenKind::State => MintTarget::State { session, at },
        TokenKind::Ack => MintTarget::Ack { session, at, attempt },
        TokenKind::Checkpoint => MintTarget::Checkpoint { session, at, attempt },
        TokenKind::Session => MintTarget::Session { session },
    }
}

/// Parsed, verified and resolved in a log that contains the one node it may be about.
fn followed(text: &str) -> Result<ResolvedToken, TokenError> {
    resolve(&accepted(text, &keyring())?, &OneNode(facts()))
}

fn accepted(text: &str, keyring: &Keyring) -> Result<VerifiedToken, TokenError> {
    decode(text)?.verify(keyring)
}

/// The log of one session that holds exactly one node.
struct OneNode(NodeFacts);

impl NodeLookup for OneNode {
    fn by_id(&self, node: NodeId) -> Option<NodeFacts> {
        (self.0.node == node).then_some(self.0)
    }

    fn by_event(&self, index: EventIndex) -> Option<NodeFacts> {
        (self.0.node_event == index).then_some(self.0)
    }
}

/// A truncated or restored log can continue differently; what a token was minted for is then gone (G34).
#[test_case(TokenKind::State)]
#[test_case(TokenKind::Ack)]
#[test_case(TokenKind::Checkpoint)]
fn a_token_of_a_replaced_history_does_not_fit_the_new_one(kind: TokenKind) {
    let text = mint(&target(kind), TokenEncoding::V2, &key());
    let replaced = NodeFacts { created_by: EventId::from_bits([7; 10]), ..facts() };
    let refused = resolve(&accepted(&text, &keyring()).unwrap(), &OneNode(replaced)).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::TokenBadSignature);
}

// The vectors come from a second implementation, written from the specification alone.
#[test_case(TokenKind::State, TokenEncoding::V1, concat!(
        "st.v1.eyJub2RlSWQiOiJub2RlXzYwcms0Y3NtNm12M2VlMXMiLCJydW5JZCI6InJ1bl80MGdqNDhzNDRtazJlYT",
        "E5Iiwic2Vzc2lvbklkIjoic2Vzc18yMDhoNDRybTJtYjFlNjBzIiwidG9rZW5LaW5kIjoic3RhdGUiLCJ0b2tlbl",
        "ZlcnNpb24iOjEsIndvcmtmbG93SGFzaCI6InNoYTI1NjpkYTdmNzM5ZjYyNzE5ODQ2NWVlYWI1MzdhNmY3YTQzNW",
        "RjNGEwYzMzMmY5ZTRhODQ2MjI5M2ViM2Y0YWI3ZWUwIn0.n6LDwbCiDXdpoVg3eOHvYGlA9YoLxmgNWiFo_2Dz9F",
        "I",
    ); "state v1")]
#[test_case(TokenKind::State, TokenEncoding::V2, "st.v2.indigo-tench.208h44rm2mb1e60s15nm70000000005vve01750rshj"; "state v2")]
#[test_case(TokenKind::Ack, TokenEncoding::V1, concat!(
        "ack.v1.eyJhdHRlbXB0SWQiOiJhdHRlbXB0X2o2aGI3aDZudyIsIm5vZGVJZCI6Im5vZGVfNjByazRjc202bXYzZ",
        "WUxcyIsInJ1bklkIjoicnVuXzQwZ2o0OHM0NG1rMmVhMTkiLCJzZXNzaW9uSWQiOiJzZXNzXzIwOGg0NHJtMm1iM",
        "WU2MHMiLCJ0b2tlbktpbmQiOiJhY2siLCJ0b2tlblZlcnNpb24iOjF9.TYqOEn00uOQgSEu-U0WO_iDGrxBKQ1Sa",
        "2QA_Vd39MLg",
    ); "ack v1")]
#[test_case(TokenKind::Ack, TokenEncoding::V2, "ack.v2.indigo-tench.208h44rm2mb1e60s15nm7j6hb7h6nwhxzg2hm3sdmfm"; "ack v2")]
#[test_case(TokenKind::Checkpoint, TokenEncoding::V1, concat!(
        "chk.v1.eyJhdHRlbXB0SWQiOiJhdHRlbXB0X2o2aGI3aDZudyIsIm5vZGVJZCI6Im5vZGVfNjByazRjc202bXYzZ",
        "WUxcyIsInJ1bklkIjoicnVuXzQwZ2o0OHM0NG1rMmVhMTkiLCJzZXNzaW9uSWQiOiJzZXNzXzIwOGg0NHJtMm1iM",
        "WU2MHMiLCJ0b2tlbktpbmQiOiJjaGVja3BvaW50IiwidG9rZW5WZXJzaW9uIjoxfQ.IVlwentWn1zBzmic_CSnOO",
        "IblmNfB5TktSz7KYAcZ2E",
    ); "checkpoint v1")]
#[test_case(TokenKind::Checkpoint, TokenEncoding::V2, "chk.v2.indigo-tench.208h44rm2mb1e60s15nm7j6hb7h6nwbvhcmfjtqhyda"; "checkpoint v2")]
#[test_case(TokenKind::Session, TokenEncoding::V1, concat!(
        "ses.v1.eyJzZXNzaW9uSWQiOiJzZXNzXzIwOGg0NHJtMm1iMWU2MHMiLCJ0b2tlbktpbmQiOiJzZXNzaW9uIiwid",
        "G9rZW5WZXJzaW9uIjoxfQ.O5ykYBJg2gmb4wyceO9hglTJGvMjm5ISlnibyRoPUms",
    ); "session v1")]
#[test_case(TokenKind::Session, TokenEncoding::V2, "ses.v2.winter-dragon.208h44rm2mb1e60s00000000000000mdga75yqzz2fe"; "session v2")]
fn tokens_match_the_golden_vectors(kind: TokenKind, encoding: TokenEncoding, expected: &str) {
    assert_eq!(mint(&target(kind), encoding, &key()), expected);
    let resolved = resolve(&accepted(expected, &keyring()).unwrap(), &OneNode(facts())).unwrap();
    assert_eq!(resolved.target(), &target(kind));
}

/// Every text that one typo makes of a token.
fn slips(token: &str, symbols: &str) -> BTreeSet<String> {
    let characters: Vec<char> = token.chars().collect();
    let mut mangled = BTreeSet::new();
    let mut keep = |changed: &[char]| mangled.insert(changed.iter().collect::<String>());
    for position in 0..=characters.len() {
        for symbol in symbols.chars() {
            let mut inserted = characters.clone();
            inserted.insert(position, symbol);
            keep(&inserted);
            if position < characters.len() {
                let mut replaced = characters.clone();
                replaced[position] = symbol;
                keep(&replaced);
            }
        }
        keep(&characters[..position]);
        if position < characters.len() {
            let mut removed = characters.clone();
            let symbol = removed.remove(position);
            keep(&removed);
            let mut recased = characters.clone();
            recased[position] = if symbol.is_ascii_lowercase() {
                symbol.to_ascii_uppercase()
            } else {
                symbol.to_ascii_lowercase()
            };
            keep(&recased);
        }
        if position + 1 < characters.len() {
            let mut swapped = characters.clone();
            swapped.swap(position, position + 1);
            keep(&swapped);
        }
    }
    mangled.remove(token);
    mangled
}

#[test]
fn every_typo_in_a_short_token_is_rejected() {
    let symbols = "0123456789abcdefghijklmnopqrstuvwxyz.-_ AZ\u{e9}\u{0}";
    for kind in TokenKind::ALL {
        let token = mint(&target(kind), TokenEncoding::V2, &key());
        let mangled = slips(&token, symbols);
        assert!(mangled.len() > 64 * 36);
        // Spaces around a short token and capitals in it are not typos.
        for text in mangled.into_iter().filter(|text| text.trim().to_ascii_lowercase() != token) {
            let code = followed(&text).expect_err(&text).code();
            let refused = [
                ErrorCode::TokenInvalidFormat,
                ErrorCode::TokenBadSignature,
                ErrorCode::TokenUnsupportedVersion,
            ];
            assert!(refused.contains(&code), "{text} gives {code:?}");
        }
    }
}

#[test]
fn quotes_around_a_token_and_capitals_in_a_short_one_do_not_count() {
    for kind in TokenKind::ALL {
        let short = mint(&target(kind), TokenEncoding::V2, &key());
        let long = mint(&target(kind), TokenEncoding::V1, &key());
        for token in [&short, &long] {
            for text in [format!("\"{token}\""), format!("`{token}` "), format!("\n '{token}'")] {
                assert_eq!(followed(&text), followed(token), "{text}");
            }
        }
        assert_eq!(followed(&short.to_ascii_uppercase()), followed(&short));
        assert!(followed(&long.to_ascii_uppercase()).is_err());
    }
}

#[test]
fn every_typo_in_a_long_token_is_rejected() {
    for kind in TokenKind::ALL {
        let token = mint(&target(kind), TokenEncoding::V1, &key());
        for text in slips(&token, "059AQZaqz-_.=+/ ").into_iter().filter(|text| text.trim() != token) {
            assert!(followed(&text).is_err(), "{text}");
        }
    }
}

#[test_case(TokenEncoding::V1)]
#[test_case(TokenEncoding::V2)]
fn a_prefix_of_another_kind_is_rejected(encoding: TokenEncoding) {
    for kind in TokenKind::ALL {
        let token = mint(&target(kind), encoding, &key());
        let rest = token.strip_prefix(kind.prefix()).unwrap();
        for other in TokenKind::ALL.into_iter().filter(|other| *other != kind) {
            let swapped = format!("{}{rest}", other.prefix());
            assert!(followed(&swapped).is_err(), "{swapped}");
        }
    }
}

#[test]
fn another_label_is_rejected_though_it_is_a_real_one() {
    let token = mint(&target(TokenKind::Ack), TokenEncoding::V2, &key());
    let label = target(TokenKind::Ack).label();
    for other in RunLabel::all().filter(|other| *other != label).step_by(97) {
        let swapped = token.replace(&label.to_string(), &other.to_string());
        let error = accepted(&swapped, &keyring()).unwrap_err();
        assert_eq!(error, TokenError::BadSignature { label: Some(other) });
    }
}

#[test]
fn the_previous_key_is_accepted_and_no_older_one() {
    let fresh = |byte| SigningKey::new([byte; 32]);
    for encoding in [TokenEncoding::V1, TokenEncoding::V2] {
        let token = mint(&target(TokenKind::Ack), encoding, &key());
        let once = keyring().rotated(fresh(1));
        assert!(accepted(&token, &once).is_ok());
        let error = accepted(&token, &once.rotated(fresh(2))).unwrap_err();
        assert_eq!(error.code(), ErrorCode::TokenBadSignature);
    }
}

#[test]
fn all_short_tokens_fit_64_characters() {
    for label in RunLabel::all() {
        for kind in TokenKind::ALL {
            let token = v2::mint(&target(kind).short(), label, Some(facts().created_by), &key());
            assert!(token.len() <= SHORT_TOKEN_CHARS_MAX, "{token}");
        }
    }
    assert_eq!(SHORT_TOKEN_CHARS_MAX, 64);
}

#[test]
fn an_index_beyond_the_short_form_is_minted_long() {
    let at = NodeFacts { node_event: EventIndex::ZERO.plus(EVENT_INDEX_MAX + 1), ..facts() };
    let token = mint(&MintTarget::State { session: session(), at }, TokenEncoding::V2, &key());
    assert!(token.starts_with("st.v1."), "{token}");
}

#[test_case("", TokenProblem::Parts { found: 1 }; "empty")]
#[test_case("st.v2.indigo-tench", TokenProblem::Parts { found: 3 }; "cut before the body")]
#[test_case("sst.v2.indigo-tench.0", TokenProblem::Prefix; "unknown kind")]
#[test_case("st.2.indigo-tench.0", TokenProblem::Version; "no version")]
#[test_case("st.v2.indigo-trench.0", TokenProblem::Label; "misspelt label")]
#[test_case("st.v2.indigo-tench.0", TokenProblem::BodyLength { found: 1 }; "cut body")]
#[test_case("st.v1.e30=.AA", TokenProblem::Payload; "padding")]
#[test_case("st.v1.e30.AA", TokenProblem::SignatureForm; "short signature")]
fn every_problem_has_its_own_error(text: &str, expected: TokenProblem) {
    let Err(TokenError::InvalidFormat { problem, .. }) = decode(text) else { panic!("{text}") };
    assert_eq!(problem, expected);
}

#[test]
fn other_versions_are_unsupported_not_malformed() {
    let error = decode("st.v3.indigo-tench.0").unwrap_err();
    let label = RunLabel::parse("indigo-tench").ok();
    assert_eq!(error, TokenError::UnsupportedVersion { version: "v3".to_owned(), label });
}

#[test]
fn a_huge_text_is_refused_unread_with_its_label() {
    let text = format!("st.v2.indigo-tench.{}", "\u{e9}".repeat(1 << 20));
    let Err(TokenError::InvalidFormat { problem, label }) = decode(&text) else { panic!() };
    assert_eq!(problem, TokenProblem::TooLong { found: text.len() });
    assert_eq!(label, Some(target(TokenKind::State).label()));
}

#[test_case("ST.V2.INDIGO-TENCH.208H44RM", true; "capitals")]
#[test_case("`st.v2.indigo-tench.208h44rm`", true; "quoted")]
#[test_case("indigo-tench", true; "label alone")]
#[test_case("st.v2.indig-tench.208h44rm", false; "misspelt")]
#[test_case("st.v1.e30.AA", false; "long token")]
fn a_damaged_token_still_shows_its_label(text: &str, readable: bool) {
    let Err(TokenError::InvalidFormat { label, .. }) = decode(text) else { panic!("{text}") };
    assert_eq!(label, readable.then(|| target(TokenKind::State).label()));
}

/// Signs an arbitrary payload, to see what is refused although it is genuine.
fn signed_payload(prefix: &str, payload: &str) -> String {
    let encode = |bytes: &[u8]| data_encoding::BASE64URL_NOPAD.encode(bytes);
    format!("{prefix}.v1.{}.{}", encode(payload.as_bytes()), encode(&signature(&key(), payload.as_bytes())))
}

#[test_case(r#"{"tokenVersion":1,"tokenKind":"session","sessionId":"sess_208h44rm2mb1e60s"}"#; "unsorted")]
#[test_case(r#"{"sessionId":"sess_208h44rm2mb1e60s","tokenKind":"session","tokenVersion": 1}"#; "space")]
#[test_case(r#"{"sessionId":"sess_208h44rm2mb1e60s","tokenKind":"session","tokenVersion":1.0}"#; "other number")]
#[test_case(r#"{"sessionId":"sess_208h44rm2mb1e60s","tokenKind":"session","tokenVersion":2}"#; "other version")]
#[test_case(r#"{"attemptId":null,"sessionId":"sess_208h44rm2mb1e60s","tokenKind":"session","tokenVersion":1}"#; "null")]
#[test_case(r#"{"sessionId":"sess_208h44rm2mb1e60s","tokenKind":"session","tokenVersion":1,"x":1}"#; "extra")]
#[test_case(r#"{"sessionId":"sess_208h44rm2mb1e60s","tokenKind":"state","tokenVersion":1}"#; "missing fields")]
#[test_case(r#"[]"#; "no object")]
fn a_signed_payload_that_is_not_canonical_is_refused(payload: &str) {
    let error = decode(&signed_payload("ses", payload)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::TokenInvalidFormat);
}

#[test]
fn the_node_must_be_in_the_log() {
    let elsewhere =
        NodeFacts { node: NodeId::from_bits([9; 10]), node_event: EventIndex::new(3).unwrap(), ..facts() };
    for encoding in [TokenEncoding::V1, TokenEncoding::V2] {
        let token = accepted(&mint(&target(TokenKind::Ack), encoding, &key()), &keyring()).unwrap();
        let error = resolve(&token, &OneNode(elsewhere)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::TokenUnknownNode);
    }
}

#[test]
fn a_node_of_another_run_is_a_scope_mismatch() {
    let run = RunId::from_bits([9; 10]);
    for encoding in [TokenEncoding::V1, TokenEncoding::V2] {
        let token = accepted(&mint(&target(TokenKind::Ack), encoding, &key()), &keyring()).unwrap();
        let error = resolve(&token, &OneNode(NodeFacts { run, ..facts() })).unwrap_err();
        let (found, expected) = (RunLabel::of(facts().run), RunLabel::of(run));
        assert_eq!(error, TokenError::ScopeMismatch { part: ScopePart::Run, found, expected });
    }
}

#[test]
fn a_long_state_token_names_the_workflow_of_its_run() {
    let text = mint(&target(TokenKind::State), TokenEncoding::V1, &key());
    let other = NodeFacts { workflow: WorkflowHash::of(b"other"), ..facts() };
    let error = resolve(&accepted(&text, &keyring()).unwrap(), &OneNode(other)).unwrap_err();
    let (token, run) = (facts().workflow, other.workflow);
    assert_eq!(error, TokenError::WorkflowHashMismatch { token, run });
}

#[test]
fn two_tokens_of_one_call_must_name_one_node() {
    let resolved = |target: MintTarget, at: NodeFacts| {
        let text = mint(&target, TokenEncoding::V2, &key());
        resolve(&accepted(&text, &keyring()).unwrap(), &OneNode(at)).unwrap()
    };
    let here = facts();
    let state = resolved(target(TokenKind::State), here);
    assert_eq!(check_scope(&state, &resolved(target(TokenKind::Ack), here)), Ok(()));

    let other_session = SessionId::from_bits([9; 10]);
    let other_run = NodeFacts { run: RunId::from_bits([9; 10]), ..here };
    let other_node = NodeFacts { node: NodeId::from_bits([9; 10]), ..here };
    for (part, session, at) in [
        (ScopePart::Session, other_session, other_run),
        (ScopePart::Run, session(), other_run),
        (ScopePart::Node, session(), other_node),
    ] {
        let ack = resolved(MintTarget::Ack { session, at, attempt: attempt() }, at);
        let (found, expected) = (RunLabel::of(here.run), RunLabel::of(at.run));
        assert_eq!(check_scope(&state, &ack), Err(TokenError::ScopeMismatch { part, found, expected }));
    }
}

prop_compose! {
    fn any_facts()(
        node: [u8; 10], run: [u8; 10], event in 0..=EVENT_INDEX_MAX, created_by: [u8; 10], workflow: [u8; 4],
    ) -> NodeFacts {
        NodeFacts {
            node: NodeId::from_bits(node),
            run: RunId::from_bits(run),
            node_event: EventIndex::new(event).unwrap(),
            created_by: EventId::from_bits(created_by),
            workflow: WorkflowHash::of(&workflow),
        }
    }
}

proptest! {
    /// G32: a token refers to a position in the log, and another key's signature is refused.
    #[test]
    fn tokens_round_trip(at in any_facts(), session: [u8; 10], attempt: u64, signing: [u8; 32]) {
        let (session, attempt) = (SessionId::from_bits(session), AttemptId::from_bits(attempt));
        let key = SigningKey::new(signing);
        for target in [
            MintTarget::State { session, at },
            MintTarget::Ack { session, at, attempt },
            MintTarget::Checkpoint { session, at, attempt },
            MintTarget::Session { session },
        ] {
            for encoding in [TokenEncoding::V1, TokenEncoding::V2] {
                let text = mint(&target, encoding, &key);
                let keyring = Keyring { current: key.clone(), previous: None };
                let resolved = resolve(&accepted(&text, &keyring).unwrap(), &OneNode(at)).unwrap();
                prop_assert_eq!(resolved.target(), &target);
                prop_assert_eq!(mint(resolved.target(), encoding, &key), text.clone());

                let other_store = Keyring { current: SigningKey::new([7; 32]), previous: None };
                prop_assert_eq!(accepted(&text, &other_store).unwrap_err().code(), ErrorCode::TokenBadSignature);
            }
        }
    }

    #[test]
    fn no_text_panics_or_is_accepted(text in "(st|ack|chk|ses)?\\.?(v[0-9])?\\.?[a-z-]{0,14}\\.?\\PC{0,60}") {
        prop_assert!(accepted(&text, &keyring()).is_err());
    }
}
