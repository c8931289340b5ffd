//! `keys show` and `keys rotate`, next to servers that have the old keys in memory.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::scene::{advance, home, start, unfinished};
use crate::wording::assert_text;

#[test]
fn keys_are_shown_only_by_fingerprint() {
    let home = home();
    unfinished(&home);
    let shown = home.run(&["store", "keys", "show", "--json"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let first = shown.json();
    let current = first["keys"]["current"]["fingerprint"].as_str().unwrap().to_owned();
    assert_eq!(current.len(), 16);
    assert_eq!(
        first,
        json!({
            "file": "keys/keyring.json", "onlyForYou": true, "keys": { "current": { "fingerprint": current } },
        })
    );
    assert_eq!(home.run(&["store", "keys", "rotate"]).code, 2, "rotation asks a person");
    assert!(home.typed(&["store", "keys", "rotate"], "no").code != 0);
    assert_eq!(home.run(&["store", "keys", "show", "--json"]).json(), first);

    let rotated = home.run(&["store", "keys", "rotate", "--yes", "--json"]).json();
    assert_eq!(rotated["keys"]["previous"]["fingerprint"], json!(current));
    assert_eq!(rotated["noLongerAccepted"], Value::Null);
    assert!(home.typed(&["store", "keys", "rotate"], "rotate").code == 0);
    let last = home.run(&["store", "keys", "rotate", "--yes", "--json"]).json();
    assert!(last["noLongerAccepted"]["fingerprint"].is_string());
    let written: Value =
        serde_json::from_slice(&fs::read(home.data().join("keys/keyring.json")).unwrap()).unwrap();
    let said = home.run(&["store", "keys", "show"]);
    for key in ["current", "previous"] {
        assert!(!said.out.contains(written[key].as_str().unwrap()), "a key was printed");
    }
}

/// Broke: the question was part of the JSON's stream.
#[test]
fn a_question_is_not_part_of_the_json_output() {
    let home = home();
    unfinished(&home);
    let rotate = ["store", "keys", "rotate", "--json"];
    let refused = home.typed_with_output_in_file(&rotate, "no");
    assert!(refused.code != 0, "{refused:?}");
    assert_eq!(refused.json()["error"]["code"], "VALIDATION_ERROR", "{refused:?}");
    let rotated = home.typed_with_output_in_file(&rotate, "rotate");
    assert_eq!(rotated.code, 0, "{rotated:?}");
    assert!(rotated.json()["keys"]["previous"].is_object(), "{rotated:?}");
    assert_text(&home, "question_of_a_rotation", &rotated.err.replace('\r', ""));
}

#[test]
fn keys_accessible_to_others_are_refused() {
    let home = home();
    unfinished(&home);
    let keys = home.data().join("keys");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o755)).unwrap();
    for command in [&["store", "keys", "show", "--json"][..], &["store", "keys", "rotate", "--yes", "--json"]]
    {
        let refused = home.run(command);
        assert_eq!((refused.code, &refused.json()["error"]["code"]), (1, &json!("STORE_KEYRING_UNUSABLE")));
    }
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(home.run(&["store", "keys", "show"]).code, 0);
}

#[test]
fn a_damaged_key_is_named_and_an_older_keyring_is_accepted() {
    let home = home();
    unfinished(&home);
    let file = home.data().join("keys/keyring.json");
    let mut keyring: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let key = keyring["current"].as_str().unwrap().to_owned();
    let first = if key.starts_with('A') { "B" } else { "A" };
    keyring["current"] = json!(format!("{first}{}", &key[1..]));
    fs::write(&file, keyring.to_string()).unwrap();
    let refused = home.run(&["store", "keys", "show", "--json"]);
    assert_eq!((refused.code, &refused.json()["error"]["code"]), (1, &json!("STORE_KEYRING_UNUSABLE")));
    assert_eq!(home.run(&["doctor"]).code, 1);

    keyring["current"] = json!(key);
    keyring.as_object_mut().unwrap().remove("check");
    fs::write(&file, keyring.to_string()).unwrap();
    assert_eq!(home.run(&["store", "keys", "show"]).code, 0);
}

#[test]
fn a_damaged_http_secret_is_named_and_replaced() {
    let home = home();
    unfinished(&home);
    let file = home.data().join("keys/http-secret");
    fs::create_dir(&file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(home.run(&["doctor"]).code, 1);
    assert_eq!(home.run(&["store", "keys", "http-secret"]).code, 1);
    assert_eq!(home.run(&["store", "keys", "http-secret", "--new", "--yes"]).code, 0);
    assert_eq!(home.run(&["store", "keys", "http-secret"]).code, 0);
    assert!(home.data().join("keys/http-secret.unusable-1").is_dir());
}

#[test]
fn servers_from_before_and_after_a_rotation_accept_each_others_tokens() {
    let home = home();
    let mut before = home.client();
    let old = start(&mut before);
    let other = start(&mut before);
    assert_eq!(home.run(&["store", "keys", "rotate", "--yes"]).code, 0);
    let mut after = home.client();
    let new = start(&mut after);
    let look =
        |reply: &workrail_testkit::mcp_client::ToolReply| json!({ "stateToken": reply.string("stateToken") });

    let taken = after.call("continue_workflow", look(&old));
    assert!(!taken.is_error, "the previous key is accepted: {}", taken.text);
    let taken = before.call("continue_workflow", look(&new));
    assert!(!taken.is_error, "a running server takes the new key over: {}", taken.text);
    assert!(!advance(&mut before, &old).is_error, "its own tokens of before stay good");
    assert!(!advance(&mut after, &new).is_error);

    // The running server now signs with the new key: its tokens survive one more rotation.
    let minted = before.call("continue_workflow", look(&other));
    assert_eq!(home.run(&["store", "keys", "rotate", "--yes"]).code, 0);
    let mut last = home.client();
    assert!(!last.call("continue_workflow", look(&minted)).is_error);
    let ended = last.call("continue_workflow", look(&other));
    assert_eq!(ended.code(), "TOKEN_BAD_SIGNATURE", "two rotations end a token: {}", ended.text);
    let ended = before.call("continue_workflow", look(&other));
    assert_eq!(ended.code(), "TOKEN_BAD_SIGNATURE", "for a server of before as well: {}", ended.text);
    let started = start(&mut before);
    assert_eq!(home.run(&["store", "keys", "rotate", "--yes"]).code, 0);
    let taken = last.call("continue_workflow", look(&started));
    assert!(!taken.is_error, "it was signed with the key of its time: {}", taken.text);
    let forged = format!("{}0", &other.string("stateToken")[..other.string("stateToken").len() - 1]);
    let refused = before.call("continue_workflow", json!({ "stateToken": forged }));
    assert!(refused.is_error, "looking at the keys again does not make a wrong token right");
}

/// A reply without the signatures of its tokens, and the tokens themselves.
fn unsigned(reply: &workrail_testkit::mcp_client::ToolReply) -> (String, Vec<String>) {
    let mut tokens = Vec::new();
    let mut text = String::new();
    for piece in reply.raw.split_inclusive(['"', ' ', '`', '\\', ',']) {
        let token = piece.trim_end_matches(['"', ' ', '`', '\\', ',']);
        let kept = if ["st.v1.", "ack.v1.", "chk.v1."].iter().any(|kind| token.starts_with(kind)) {
            token.rfind('.')
        } else if ["st.v2.", "ack.v2.", "chk.v2."].iter().any(|kind| token.starts_with(kind)) {
            // Thirty characters name the position; the other thirteen are the signature.
            Some(token.len() - 13)
        } else {
            None
        };
        match kept {
            Some(kept) => {
                tokens.push(token.to_owned());
                text.push_str(&token[..kept]);
                text.push_str(&piece[token.len()..]);
            }
            None => text.push_str(piece),
        }
    }
    (text, tokens)
}

#[test]
fn a_replay_after_a_rotation_differs_only_in_the_signatures_of_its_tokens() {
    for encoding in ["v1", "v2"] {
        let home = home().with("WORKRAIL_TOKEN_ENCODING", encoding);
        let mut client = home.client();
        let first = client.call("start_workflow", json!({ "workflowId": "wr.small_change" }));
        let call =
            json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": "looked at it" } });
        let answer = client.call("continue_workflow", call.clone());
        assert!(!answer.is_error, "{}", answer.text);
        let (recorded, old) = unsigned(&answer);
        assert!(old.len() >= 3, "{encoding}: {old:?}");

        assert_eq!(home.run(&["store", "keys", "rotate", "--yes"]).code, 0);
        let mut later = home.client();
        for client in [&mut client, &mut later] {
            let replayed = client.call("continue_workflow", call.clone());
            let (again, new) = unsigned(&replayed);
            assert_eq!(again, recorded, "{encoding}: more than signatures differ");
            assert!(old.iter().zip(&new).all(|(old, new)| old != new), "{encoding}: {old:?} {new:?}");
            let looked =
                client.call("continue_workflow", json!({ "stateToken": replayed.string("stateToken") }));
            assert!(!looked.is_error, "{encoding}: {}", looked.text);
        }
        // Tokens signed again survive the next rotation, earlier ones do not.
        let replayed = later.call("continue_workflow", call.clone());
        assert_eq!(home.run(&["store", "keys", "rotate", "--yes"]).code, 0);
        let state = |reply: &workrail_testkit::mcp_client::ToolReply| json!({ "stateToken": reply.string("stateToken") });
        assert!(!later.call("continue_workflow", state(&replayed)).is_error, "{encoding}");
        assert_eq!(later.call("continue_workflow", state(&answer)).code(), "TOKEN_BAD_SIGNATURE");
        assert_eq!(later.call("continue_workflow", call).code(), "TOKEN_BAD_SIGNATURE");
    }
}
