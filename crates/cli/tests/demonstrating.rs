//! What `workrail demo` reads and leaves behind: nothing of the user. `texts` holds what it prints.

use workrail_testkit::home::Home;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// Neither the workflows of the user nor those of the project are part of the demo.
#[test]
fn the_demo_lists_only_bundled_workflows() {
    let home = Home::new(PROGRAM);
    let own = |id: &str| {
        serde_json::json!({
            "id": id, "name": "Change of ours", "description": "A change.", "version": "1.0.0",
            "steps": [{ "id": "work", "title": "Work", "prompt": "Change it." }],
        })
    };
    let beneath = |folder: std::path::PathBuf, id: &str| {
        home.write(&folder.join(".workrail/workflows").join(format!("{id}.json")), &own(id).to_string());
    };
    beneath(home.home(), "user.change");
    beneath(home.project(), "project.change");
    home.workflow(&own("custom.change"));
    let listed = |text: &str| text.matches("Change of ours").count();
    assert_eq!(listed(&home.done(&["workflow", "list"]).out), 3);
    assert_eq!(listed(&home.done(&["demo"]).out), 0);
}

#[test]
fn the_demo_leaves_nothing_behind() {
    let home = Home::new(PROGRAM);
    let folder = home.root().join("tmp");
    std::fs::create_dir(&folder).expect("the folder can be made");
    home.with("TMPDIR", &folder).done(&["demo"]);
    assert_eq!(std::fs::read_dir(&folder).expect("it can be read").count(), 0, "nothing is left");
    assert_eq!(std::fs::read_dir(home.data()).expect("it can be read").count(), 0, "no session was made");
}
