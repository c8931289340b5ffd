//! Commands that serve clients, hosts and shells, and the demo.

use crate::stage::Stage;

#[test]
fn demo() {
    let stage = Stage::new();
    let folder = stage.home().root().join("home/tmp");
    stage.home().write(&folder.join("kept.txt"), "");
    stage.say_with("TMPDIR", folder.to_str().unwrap(), &["demo"]);
    stage.compare("demo");
}

#[test]
fn servers() {
    let stage = Stage::new();
    stage.say_first_line(&["mcp", "--http", "127.0.0.1:0"]);
    stage.say(&["mcp", "--http", "nowhere"]);
    stage.say_first_line(&["serve", "--listen", "127.0.0.1:0"]);
    stage.say(&["serve"]);
    stage.say_first_line(&["console", "--port", "0", "--no-open"]);
    stage.say(&["console", "--port", "many"]);
    stage.compare("servers");
}

#[test]
fn hosts_and_shells() {
    let stage = Stage::new();
    stage.say(&["hook", "claude-code", "Stop"]);
    stage.say(&["hook", "emacs", "Stop"]);
    stage.say(&["plugin", "render", "claude-code", "plugin"]);
    stage.say_both(&["plugin", "render", "claude-code", "plugin"]);
    stage.say(&["plugin", "render", "claude-code", "other", "--json"]);
    stage.say(&["plugin", "render", "emacs", "plugin"]);
    stage.say_both(&["setup", "man", "man"]);
    stage.say(&["setup", "completions", "tcsh"]);
    stage.compare("hosts_and_shells");
}
