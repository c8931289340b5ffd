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
    seen: Mutex<(Option<ConfigStamp>, Settings)>,
}

type ConfigStamp = (u64, Option<SystemTime>);

impl LiveConfig {
    pub fn new(config_path: ConfigPath, settings: Settings) -> Self {
        let stamp = stamp(&config_path);
        Self { config_path, seen: Mutex::new((stamp, settings)) }
    }

    pub fn settings(&self) -> Settings {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp(&self.config_path);
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
