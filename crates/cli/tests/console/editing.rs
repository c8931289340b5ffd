//! Editing workflow files: only the loaded file is replaced, and only in the user's own sources (G100).

use std::fs;

use serde_json::json;
use workrail_model::digest::Sha256;
use workrail_testkit::home::Home;
use workrail_testkit::page;

use crate::harness::{Console, Response, home};
use crate::wording::assert_text;

/// The address of the editor of a workflow.
fn editor(console: &Console, id: &str) -> String {
    let page = console.page(&format!("/workflows/{id}")).body;
    let rest = page.split("href=\"/edit/").nth(1).unwrap_or_else(|| panic!("no editor: {page}"));
    format!("/edit/{}", rest.split('"').next().unwrap())
}

/// Sends the editor's form with another text, as after its review.
fn send(console: &Console, address: &str, action: &str, text: &str) -> Response {
    send_from(console, &console.page(address), address, action, text)
}

/// Like `send`, from a page that was loaded before.
fn send_from(console: &Console, page: &Response, address: &str, action: &str, text: &str) -> Response {
    let reviewed = Sha256::of(text.replace("\r\n", "\n").as_bytes()).to_string();
    let body = form_urlencoded(&[
        ("token", &page.field("token")),
        ("seen", &page.field("seen")),
        ("action", action),
        ("reviewed", &reviewed),
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

/// A home with one workflow to edit; also returns its file.
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

/// The editor's reason for not saving.
fn refusal(answer: &Response) -> String {
    page::alert(&answer.body).unwrap_or_else(|| panic!("it was saved: {}", answer.words()))
}

#[test]
fn a_text_is_saved_where_it_was_loaded_and_keeps_its_line_endings() {
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
fn a_text_that_would_not_run_or_is_not_the_users_is_not_saved() {
    let (home, file) = with_workflow();
    let console = Console::open(&home);
    let address = editor(&console, "team.edited");
    let before = fs::read(&file).unwrap();
    for (text, why) in [
        ("{ \"id\": ".to_owned(), "broken"),
        (workflow("edited", "Do a."), "without_a_namespace"),
        (workflow("wr.edited", "Do a."), "in_our_namespace"),
        (workflow("team.plain", "Do a."), "of_another_file"),
    ] {
        let refused = send(&console, &address, "save", &text);
        assert_eq!(refused.status, 200, "{refused:?}");
        assert_text(&home, &format!("console_edit_{why}"), &refusal(&refused));
        assert_eq!(fs::read(&file).unwrap(), before, "{why}");
    }
    let bundled = editor(&console, "wr.small_change");
    let refused = send(&console, &bundled, "save", &workflow("team.other", "Do a."));
    assert_text(&home, "console_edit_of_a_bundled_workflow", &refusal(&refused));
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
    let refused = send_from(&console, &page, &address, "save", &text);
    assert_text(&home, "console_edit_of_a_changed_file", &refusal(&refused));
    let typed = "\"prompt\": \"Changed here.\",";
    assert!(refused.words().lines().any(|line| line == typed), "what was typed is kept: {}", refused.body);
    assert_eq!(fs::read_to_string(&file).unwrap(), other);

    // After reviewing the changes against the current file, the user may save.
    let compared = send_from(&console, &page, &address, "rebase", &text);
    let shown = changed_lines(&compared);
    assert!(shown.contains(&"−Changed elsewhere.".to_owned()), "{shown:?}");
    assert!(shown.contains(&"+Changed here.".to_owned()), "{shown:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), other, "comparing saves nothing");
    assert_eq!(send_from(&console, &compared, &address, "save", &text).status, 303);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

/// The prompts that a review shows, with their signs.
fn changed_lines(page: &Response) -> Vec<String> {
    let rows = page.body.split("<tr class=\"only-").skip(1).filter_map(|row| {
        let sign = if row.starts_with('a') { '−' } else { '+' };
        let prompt = row.split("&quot;prompt&quot;: &quot;").nth(1)?.split("&quot;").next()?;
        Some(format!("{sign}{prompt}"))
    });
    rows.collect()
}

#[test]
fn a_text_is_saved_only_after_its_changes_were_shown() {
    let (home, file) = with_workflow();
    let console = Console::open(&home);
    let address = editor(&console, "team.edited");
    let before = fs::read(&file).unwrap();
    let (first, second) = (workflow("team.edited", "Do one."), workflow("team.edited", "Do two."));
    let shown = send(&console, &address, "review", &first);
    assert_eq!(
        (shown.status, changed_lines(&shown)),
        (200, vec!["−Do a.".to_owned(), "+Do one.".to_owned()])
    );
    // Edited after the review: the text would no longer be the one that was shown.
    let page = console.page(&address);
    let body = form_urlencoded(&[
        ("token", &page.field("token")),
        ("seen", &page.field("seen")),
        ("action", "save"),
        ("reviewed", &shown.field("reviewed")),
        ("text", &second),
    ]);
    let again = console.post(&address, &body);
    assert_eq!(
        (again.status, changed_lines(&again)),
        (200, vec!["−Do a.".to_owned(), "+Do two.".to_owned()])
    );
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_ne!(again.field("reviewed"), shown.field("reviewed"));
}

#[test]
fn a_text_survives_the_loss_of_its_file() {
    let (home, file) = with_workflow();
    let console = Console::open(&home);
    let address = editor(&console, "team.edited");
    let page = console.page(&address);
    fs::remove_file(&file).unwrap();
    let refused = send_from(&console, &page, &address, "save", &workflow("team.edited", "Hours of work."));
    assert_eq!(refused.status, 404, "{refused:?}");
    assert_text(&home, "console_edit_of_a_file_that_is_gone", &refused.words());
    assert!(!file.exists(), "nothing is made");
}

#[test]
fn a_key_names_the_same_file_after_another_source_was_removed() {
    // The variable would override the registered sources.
    let home = home().without("WORKFLOW_STORAGE_PATH");
    let folders = ["first", "second", "third"].map(|name| home.root().join(name));
    for folder in &folders {
        let name = folder.file_name().unwrap().to_str().unwrap();
        home.write(&folder.join("own.json"), &workflow(&format!("team.{name}"), "Do a."));
        home.done(&["workflow", "sources", "add", "folder", folder.to_str().unwrap()]);
    }
    let console = Console::open(&home);
    let address = editor(&console, "team.second");
    home.done(&["workflow", "sources", "remove", folders[0].to_str().unwrap()]);
    drop(console);
    let console = Console::open(&home);
    let text = workflow("team.second", "Do it in the second folder.");
    assert_eq!(send(&console, &address, "save", &text).status, 303);
    assert_eq!(fs::read_to_string(folders[1].join("own.json")).unwrap(), text);
    assert_eq!(fs::read_to_string(folders[2].join("own.json")).unwrap(), workflow("team.third", "Do a."));
}

#[test]
fn oversized_or_binary_texts_are_refused_and_a_long_line_is_shown_in_part() {
    let (home, file) = with_workflow();
    let console = Console::open(&home);
    let address = editor(&console, "team.edited");
    let before = fs::read(&file).unwrap();
    let long = send(&console, &address, "save", &workflow("team.edited", &"a".repeat(1_000_000)));
    assert_eq!(long.status, 409, "{}", long.status);
    let page = console.page(&address);
    let body = form_urlencoded(&[("token", &page.field("token")), ("seen", &page.field("seen"))]);
    let not_text = console.post(&address, &format!("{body}&action=save&text=%FF"));
    assert_eq!(not_text.status, 400, "{not_text:?}");
    // One line with many problems: each shows its surroundings.
    let steps: Vec<String> =
        (0..300).map(|at| format!("{{\"id\":\"s{at}\",\"promt\":\"{}\"}}", "x".repeat(1000))).collect();
    let line = format!("{{\"id\":\"team.edited\",\"steps\":[{}]}}", steps.join(","));
    let checked = console.post(
        &format!("{address}/check"),
        &format!("{body}&text={}", form_urlencoded(&[("", &line)]).trim_start_matches('=')),
    );
    assert_eq!(checked.status, 200);
    assert!(checked.body.len() < line.len(), "{} bytes", checked.body.len());
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_write_protected_file_is_not_replaced() {
    use std::os::unix::fs::PermissionsExt as _;
    let (home, file) = with_workflow();
    let console = Console::open(&home);
    let address = editor(&console, "team.edited");
    let before = fs::read(&file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let refused = send(&console, &address, "save", &workflow("team.edited", "Do b."));
    assert_text(&home, "console_edit_of_a_protected_file", &refusal(&refused));
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_copy_opens_its_editor() {
    let (home, _) = with_workflow();
    let console = Console::open(&home);
    let page = console.page("/workflows/wr.small_change");
    let body = form_urlencoded(&[("token", &page.field("token")), ("id", "my.small_change")]);
    let copied = console.post("/workflows/wr.small_change/copy", &body);
    let address = copied.header("location").unwrap().to_owned();
    assert!(address.starts_with("/edit/"), "{address}");
    let copy = console.page(&address);
    assert!(copy.body.contains("&quot;my.small_change&quot;"), "{}", copy.body);
}

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
    let refused = send_from(&console, &page, &address, "save", &workflow("team.edited", "Out."));
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
fn checking_returns_the_parts_that_change() {
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
