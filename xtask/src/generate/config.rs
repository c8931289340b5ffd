//! `docs/reference/config.md`: every setting and every environment variable.

use std::fmt::Write as _;

use workrail_host::config::variable;
use workrail_host::env_vars;
use workrail_model::config::{Applies, Key, RestartTrigger};

use crate::generated_file::{GeneratedFile, MARK};

pub(super) fn generated_file() -> GeneratedFile {
    let mut page = format!("<!-- {MARK} -->\n# Settings\n\n");
    page.push_str(
        "One file, `workrail/config.toml` in the user's config directory (`workrail config path` prints where). An \
         environment\nvariable wins over the file, the file over the default. Unknown keys and values of another kind \
         are rejected with their\nlocation. `workrail config list` shows the values in effect and what set them.\n",
    );
    for key in Key::ALL {
        // Writing to a String cannot fail.
        write!(page, "\n## `{}`\n\n{}\n\n", key.as_str(), key.what()).expect("string write");
        page.push_str("| takes | default | variable | a change takes effect |\n| --- | --- | --- | --- |\n");
        let default = match key.default() {
            None => key.when_unset().to_owned(),
            Some(value) => format!("`{}`", value.to_json()),
        };
        let applies = match key.applies() {
            Applies::Live => "at once".to_owned(),
            Applies::AtRestart(RestartTrigger::Process) => "when a server starts".to_owned(),
            Applies::AtRestart(trigger) => format!("when a server starts: it changes {}", trigger.what()),
        };
        let takes = key.kind().what();
        let variable =
            variable(*key).map_or_else(|| "none".to_owned(), |variable| format!("`{}`", variable.name));
        writeln!(page, "| {takes} | {default} | {variable} | {applies} |").expect("string write");
    }
    page.push_str("\n## Other variables\n\n| variable | what |\n| --- | --- |\n");
    let of_a_key =
        |name: &str| Key::ALL.iter().any(|key| variable(*key).is_some_and(|variable| variable.name == name));
    for known in env_vars::ALL.iter().filter(|known| !of_a_key(known.name)) {
        writeln!(page, "| `{}` | {} |", known.name, known.what).expect("string write");
    }
    GeneratedFile { path: "docs/reference/config.md".to_owned(), content: page }
}
