//! Whether a file can still be used after damage.

use std::fs;
use std::path::Path;

use serde_json::Value;
use workrail_testkit::home::Home;

use crate::files::Target;
use crate::template::Template;

/// Whether the keyring is a plain file with the same keys, whatever the formatting.
pub(crate) fn is_same_keyring(template: &Template, target: &Target, home: &Home) -> bool {
    let keys = |root: &Path| -> Option<Value> {
        let path = root.join(&target.path);
        let is_small = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() < 4096);
        is_small.then(|| fs::read(path).ok())?.and_then(|bytes| serde_json::from_slice(&bytes).ok())
    };
    keys(home.root()).is_some_and(|found| Some(found) == keys(template.home.root()))
}

/// Whether this could be the HTTP transport's secret. A different secret cannot be detected.
pub(crate) fn is_well_formed_secret(target: &Target, home: &Home) -> bool {
    let path = home.root().join(&target.path);
    let Ok(found) = fs::symlink_metadata(&path) else { return true };
    let of_secret = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    found.is_file()
        && found.len() < 4096
        && fs::read_to_string(path)
            .is_ok_and(|text| text.trim_end().len() == 43 && text.trim_end().chars().all(of_secret))
}

/// Whether an interrupted write of its last group could have left the manifest like this.
pub(crate) fn only_last_group_is_lost(template: &Template, target: &Target, home: &Home) -> bool {
    let path = home.root().join(&target.path);
    if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() < 1 << 20) {
        return false;
    }
    let (whole, left) = (fs::read(template.home.root().join(&target.path)).unwrap(), fs::read(path).unwrap());
    let text = String::from_utf8_lossy(&whole).into_owned();
    let last_group = text.rfind("{\"bytes\":").unwrap();
    left.len() >= last_group
        && left.len() <= whole.len()
        && left[..last_group] == whole[..last_group]
        && left[last_group..].iter().zip(&whole[last_group..]).all(|(new, old)| new == old || *new == 0)
        && left != whole
}
