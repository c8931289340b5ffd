//! Editing workflow files: only what was loaded is replaced, and only in sources that are the user's (G100).

use std::fs;

use serde_json::json;
use workrail_testkit::home::Home;

use crate::harness::{Answer, Console, home};

/// The address of the editor of a workflow.
fn editor(console: &Console, id: &str) -> String {
    let page = console.page(&format!("/workflows/{id}")).body;
    let rest = page.split("href=\"/edit/").nth(1).unwrap_or_else(|| panic!("no editor: {page}"));
    format!("/edit/{}", rest.split('"').next().unwrap())
}

/// Sends the form of the editor with another text.
fn send(console: &Console, address: &str, action: &str, text: &str) -> Answer {
    let page = console.page(address);
    let body = form_urlencoded(&[
        ("token", &page.field("token")),
        ("seen", &page.field("seen")),
        ("action", action),
        ("text", text),
    ]);
    console.post(address, &body)
}

fn form_urlencoded(pairs: &[(&str, &str)]) -> String {
    let encoded = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            })
            .collect()
    };
    pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}

fn workflow(id: &str, prompt: &str) -> String {
    let value = json!({
        "id": id, "name": "Edited", "description": "To be edited.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": prompt }],
    });
    format!("{value:#}\n")
}

/// A home with one workflow that is edited; its file.
fn with_workflow() -> (Home, std::path::PathBuf) {
    let home = home();
    home.workflow(&json!({
        "id": "team.edited", "name": "Edited", "description": "To be edited.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    }));
    let file = find(home.root(), "team.edited.json");
    (home, file)
}

fn find(folder: &std::path::Path, name: &str) -> std::path::PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false if entry.file_name() == name => return entry.path(),
                false => {}
            }
        }
    }
    panic!("no {name}");
}

#[test]
fn a_text_is_saved_where_it_was_loaded_and_keeps_its_line_ends() {
    let (home, file) = with_workflow();
    let console = Console::open(&home);
    let address = editor(&console, "team.edited");
    let text = workflow("team.edited", "Do it well.");
    let saved = send(&console, &address, "save", &text.replace('\n', "\r\n"));
    assert_eq!(
        (saved.status, saved.header("location")),
        (303, Some(format!("{address}?done=saved").as_str()))
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn nothing_is_saved_that_would_not_run_or_is_not_the_users() {
    let (home, file) = with_workflow();
    let console = Console::open(&home);
    let address = editor(&console, "team.edited");
    let before = fs::read(&file).unwrap();
    for (text, said) in [
        ("{ \"id\": ".to_owned(), "The workflow has errors"),
        (workflow("edited", "Do a."), "has no namespace"),
        (workflow("wr.edited", "Do a."), "wr."),
        (workflow("team.plain", "Do a."), "Another file has the id"),
    ] {
        let refused = send(&console, &address, "save", &text);
        assert_eq!(refused.status, 200, "{refused:?}");
        assert!(
            refused.body.contains(said) && refused.body.contains("Not saved."),
            "{said}: {}",
            refused.body
        );
        assert_eq!(fs::read(&file).unwrap(), before, "{said}");
    }
    let bundled = editor(&console, "wr.small_change");
    let refused = send(&console, &bundled, "save", &workflow("team.other", "Do a."));
    assert!(refused.body.contains("This source is read-only"), "{}", refused.body);
}

#[test]
fn a_file_that_changed_meanwhile_is_not_overwritten() {
    let (home, file) = with_workflow();
    let console = Console::open(&home);
    let address = editor(&console, "team.edited");
    let page = console.page(&address);
    let other = workflow("team.edited", "Changed elsewhere.");
    fs::write(&file, &other).unwrap();
    let text = workflow("team.edited", "Changed here.");
    let body = form_urlencoded(&[
        ("token", &page.field("token")),
        ("seen", &page.field("seen")),
        ("action", "save"),
        ("text", &text),
    ]);
    let refused = console.post(&address, &body);
    assert!(refused.body.contains("changed on disk"), "{}", refused.body);
    assert!(refused.body.contains("Changed here."), "what was typed is kept");
    assert_eq!(fs::read_to_string(&file).unwrap(), other);
}

#[cfg(unix)]
#[test]
fn a_link_is_not_followed_out_of_the_source() {
    let (home, file) = with_workflow();
    let console = Console::open(&home);
    let address = editor(&console, "team.edited");
    let page = console.page(&address);
    let outside = home.root().join("outside.json");
    fs::rename(&file, &outside).unwrap();
    std::os::unix::fs::symlink(&outside, &file).unwrap();
    let before = fs::read(&outside).unwrap();
    let body = form_urlencoded(&[
        ("token", &page.field("token")),
        ("seen", &page.field("seen")),
        ("action", "save"),
        ("text", &workflow("team.edited", "Out.")),
    ]);
    let refused = console.post(&address, &body);
    assert_ne!(refused.status, 303, "{refused:?}");
    assert_eq!(fs::read(&outside).unwrap(), before);
}

#[test]
fn an_unknown_key_or_a_missing_token_reaches_no_file() {
    let (home, _) = with_workflow();
    let console = Console::open(&home);
    let unknown = format!("/edit/{}", "0".repeat(64));
    assert_eq!(console.get(&unknown).status, 404);
    for path in ["/edit/team.edited", "/edit/..%2Fpasswd", "/edit/"] {
        assert_eq!(console.get(path).status, 404, "{path}");
    }
    let address = editor(&console, "team.edited");
    for path in [address.clone(), format!("{address}/check")] {
        assert_eq!(console.post(&path, "action=save&text=x").status, 403, "{path}");
    }
}

#[test]
fn checking_answers_with_the_parts_that_change() {
    let (home, _) = with_workflow();
    let console = Console::open(&home);
    let address = editor(&console, "team.edited");
    let page = console.page(&address);
    let body = form_urlencoded(&[
        ("token", &page.field("token")),
        ("seen", &page.field("seen")),
        ("text", "{ \"id\": \"team.edited\", \"<b>\": 1 }"),
        ("at", "3"),
    ]);
    let checked = console.post(&format!("{address}/check"), &body);
    assert_eq!(checked.status, 200, "{checked:?}");
    assert!(checked.body.starts_with("<div class=\"numbers\" id=\"numbers\""), "{}", checked.body);
    assert!(!checked.body.contains("<b>") && checked.body.contains("&lt;b&gt;"), "{}", checked.body);
    assert!(!checked.body.contains("<html"), "only the parts");
}
