//! Settings that take effect while a server runs: the file is read again when it has changed.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use workrail_model::config::Settings;
use workrail_model::preferences::Preferences;
use workrail_ports::environment::DefaultPreferences;

use super::{ConfigPath, load};

/// The file's current settings; while it cannot be read, the last known ones apply.
#[derive(Debug)]
pub struct LiveConfig {
    config_path: ConfigPath,
    seen: Mutex<(LastRead, Settings)>,
}

/// The file as it was when it was last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastRead {
    Never,
    /// `None` if there was no file.
    At(Option<ConfigStamp>),
}

type ConfigStamp = (u64, Option<SystemTime>);

impl LiveConfig {
    /// `settings` were read from the file, which may have changed since, so their first use reads it again.
    pub fn new(config_path: ConfigPath, settings: Settings) -> Self {
        Self { config_path, seen: Mutex::new((LastRead::Never, settings)) }
    }

    pub(crate) fn settings(&self) -> Settings {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken before the file is read: a change in between is found by the next call.
        let now = LastRead::At(stamp(&self.config_path));
        if seen.0 != now {
            if let Ok(settings) = load(Some(&self.config_path), None) {
                seen.1 = settings;
            }
            // A broken file is not read again until it changes.
            seen.0 = now;
        }
        seen.1.clone()
    }
}

impl DefaultPreferences for LiveConfig {
    fn default_preferences(&self) -> Preferences {
        self.settings().preferences()
    }
}

fn stamp(config_path: &ConfigPath) -> Option<ConfigStamp> {
    let metadata = std::fs::metadata(&config_path.path).ok()?;
    Some((metadata.len(), metadata.modified().ok()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use workrail_model::preferences::Autonomy;

    use super::*;
    use crate::config::load_file;

    /// Broke: the file was stamped after it had been read, so a change in between was never seen.
    #[test]
    fn a_change_between_reading_the_settings_and_watching_them_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::from_path_buf(folder.path().join("config.toml")).unwrap();
        let config_path = ConfigPath { path, named: true };
        let write = |autonomy: Autonomy| {
            fs::write(&config_path.path, format!("preferences.autonomy = \"{}\"\n", autonomy.as_str()))
                .unwrap();
        };
        write(Autonomy::Guided);
        let settings = load_file(&config_path).unwrap();
        write(Autonomy::FullAutoNeverStop);
        let live = LiveConfig::new(config_path.clone(), settings);
        assert_eq!(live.default_preferences().autonomy, Autonomy::FullAutoNeverStop);
        write(Autonomy::Guided);
        assert_eq!(live.default_preferences().autonomy, Autonomy::Guided);
    }
}
