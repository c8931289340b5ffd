//! The user's own credential helpers for https (G91).
//!
//! Git reads no configuration when it fetches. The user's credential settings are read beforehand, only from the user's
//! and the system's files, and passed on unchanged. A repository has no say in it.

use std::process::{Command, Stdio};

use super::program::PASSED;

/// More credential settings than this are not a sensible configuration.
const SETTINGS_MAX: usize = 64;
/// Where a user may keep their configuration.
const CONFIG_LOCATIONS: [&str; 3] = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"];

/// Names and values in the order in which git would read them.
pub(super) fn settings() -> Vec<(String, String)> {
    ["--system", "--global"].into_iter().flat_map(of_scope).take(SETTINGS_MAX).collect()
}

fn of_scope(scope: &str) -> Vec<(String, String)> {
    let mut command = Command::new("git");
    command.env_clear();
    for name in PASSED.iter().chain(&CONFIG_LOCATIONS) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.args(["config", scope, "--includes", "-z", "--get-regexp", r"^credential\."]);
    // Not in a repository, so that none can add settings.
    command.current_dir("/").stdin(Stdio::null()).stderr(Stdio::null());
    // Without git or such settings there is nothing to pass on.
    let Ok(output) = command.output() else { return Vec::new() };
    if !output.status.success() {
        return Vec::new();
    }
    parsed(&output.stdout)
}

/// Each is `name LF value NUL`; a name without a value means true.
fn parsed(printed: &[u8]) -> Vec<(String, String)> {
    let entries = printed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let pairs = entries.filter_map(|entry| {
        let text = std::str::from_utf8(entry).ok()?;
        let (name, value) = text.split_once('\n').unwrap_or((text, "true"));
        name.starts_with("credential.").then(|| (name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_credential_settings_are_kept_in_order() {
        let printed = b"credential.helper\ncache\0credential.https://example.com.username\nme\0core.x\ny\0credential.usehttppath\0";
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            parsed(printed),
            [
                pair("credential.helper", "cache"),
                pair("credential.https://example.com.username", "me"),
                pair("credential.usehttppath", "true"),
            ]
        );
    }
}
