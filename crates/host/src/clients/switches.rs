//! Settings of hosts that turn all hooks off.

use camino::Utf8PathBuf;

use super::table::Switch;
use super::{Bases, Client, edit, json, toml};

/// A setting that keeps a host from running hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HooksOff {
    pub client: Client,
    pub path: Utf8PathBuf,
    /// As written in the file: `hooksConfig.enabled = false`.
    pub setting: String,
}

/// The settings with which the user has turned a client's hooks off.
pub fn hooks_off(client: Client, bases: &Bases) -> Vec<HooksOff> {
    let found = client.profile().switches.iter().filter_map(|switch| off(client, switch, bases));
    found.collect()
}

fn off(client: Client, switch: &Switch, bases: &Bases) -> Option<HooksOff> {
    let path = bases.locate(&switch.at);
    let text = edit::read(&path).ok()??;
    let text = text.trim_start_matches('\u{feff}');
    let value = match path.extension() {
        Some("toml") => toml::boolean(text, switch.path),
        Some(_) | None => json::boolean(text, switch.path),
    };
    let setting = format!("{} = {}", switch.path.join("."), switch.off);
    (value == Some(switch.off)).then_some(HooksOff { client, path, setting })
}
