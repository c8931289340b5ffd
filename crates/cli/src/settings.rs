//! The settings of this process: their file and their values, read when first needed.
//!
//! Commands that fix the settings must run while they are invalid, so nothing reads them too early.

use std::sync::{Arc, OnceLock};

use camino::{Utf8Path, Utf8PathBuf};
use workrail_host::config::{self, ConfigError, ConfigPath, LiveConfig};
use workrail_host::sources::Sources;
use workrail_model::approval::RequiredProof;
use workrail_model::config::{Key, Settings};
use workrail_ports::environment::{ApprovalSettings, DefaultPreferences};

use crate::outcome::Failure;

static CONFIG_ARGUMENT: OnceLock<Option<Utf8PathBuf>> = OnceLock::new();
static STORE_ARGUMENT: OnceLock<Option<String>> = OnceLock::new();
static CURRENT: OnceLock<Result<CurrentSettings, ConfigError>> = OnceLock::new();

#[derive(Clone, Debug)]
pub(crate) struct CurrentSettings {
    /// `None` for a user without a home directory, whose settings come only from the environment.
    pub(crate) config_path: Option<ConfigPath>,
    pub(crate) settings: Settings,
}

impl CurrentSettings {
    /// The preferences of runs without a choice of their own, as the file has them at that moment.
    pub(crate) fn default_preferences(&self) -> Arc<dyn DefaultPreferences> {
        match &self.config_path {
            Some(config_path) => Arc::new(LiveConfig::new(config_path.clone(), self.settings.clone())),
            None => Arc::new(self.settings.preferences()),
        }
    }
}

/// Stores the arguments of `--config` and `--store`; called once, before anything reads settings.
pub(crate) fn set_arguments(config: Option<Utf8PathBuf>, store: Option<String>) {
    // Only `main` calls this, once.
    let _ = CONFIG_ARGUMENT.set(config);
    let _ = STORE_ARGUMENT.set(store);
}

/// The address given with `--store`.
pub(crate) fn named_store() -> Option<&'static str> {
    STORE_ARGUMENT.get().and_then(Option::as_deref)
}

pub(crate) fn config_path() -> Result<ConfigPath, ConfigError> {
    ConfigPath::find(CONFIG_ARGUMENT.get().and_then(Option::as_deref).map(Utf8Path::new))
}

/// The settings in effect.
pub(crate) fn current() -> Result<&'static CurrentSettings, Failure> {
    CURRENT.get_or_init(read).as_ref().map_err(unusable)
}

/// The settings, read again: the file may have changed since this process started.
pub(crate) fn fresh() -> Result<CurrentSettings, Failure> {
    read().map_err(|error| unusable(&error))
}

fn read() -> Result<CurrentSettings, ConfigError> {
    let config_path = match config_path() {
        Err(ConfigError::NoHome) => None,
        found => Some(found?),
    };
    let settings = config::load(config_path.as_ref(), named_store())?;
    Ok(CurrentSettings { config_path, settings })
}

/// Whether a protection is on in the current settings, or in the user's own file: another file named by `--config` or
/// `WORKRAIL_CONFIG` does not switch it off.
pub(crate) fn is_on_anywhere(key: Key) -> Result<bool, Failure> {
    if fresh()?.settings.is_on(key) {
        return Ok(true);
    }
    Ok(of_user_file()?.is_some_and(|settings| settings.is_on(key)))
}

/// What approvals need by the current settings: the stricter of those in effect and the user's own file. Unreadable
/// settings require the most.
#[derive(Debug)]
pub(crate) struct LiveApprovals;

impl ApprovalSettings for LiveApprovals {
    fn required_proof(&self) -> RequiredProof {
        let in_effect = fresh().map(|current| current.settings.required_proof());
        let of_user_file = of_user_file()
            .map(|settings| settings.map_or(RequiredProof::default(), |settings| settings.required_proof()));
        match (in_effect, of_user_file) {
            (Ok(in_effect), Ok(of_user_file)) => in_effect.max(of_user_file),
            (Err(_), _) | (_, Err(_)) => RequiredProof::Passkey,
        }
    }

    fn passkey_folders(&self) -> Vec<String> {
        let in_effect = fresh().map(|current| current.settings).ok();
        let of_user_file = of_user_file().ok().flatten();
        let both = in_effect.iter().chain(&of_user_file);
        let lists = both.flat_map(|settings| settings.list(Key::ApprovalsRequireIn));
        lists.cloned().collect()
    }
}

/// The settings in the user's own file as it is now, whatever `--config`, `WORKRAIL_CONFIG` and other variables say;
/// `None` for a user without a home directory.
pub(crate) fn of_user_file() -> Result<Option<Settings>, Failure> {
    match ConfigPath::of_user() {
        Err(ConfigError::NoHome) => Ok(None),
        config_path => {
            let settings = config_path
                .and_then(|config_path| config::load_file(&config_path))
                .map_err(|error| unusable(&error))?;
            Ok(Some(settings))
        }
    }
}

/// The user must fix an unusable file, option or variable.
pub(crate) fn unusable(error: &ConfigError) -> Failure {
    Failure::Usage(match error {
        ConfigError::WrongOption { name, .. } | ConfigError::WrongVariable { name, .. } => {
            let next = match *name {
                "--store" | "WORKRAIL_STORE" => {
                    "Give the password in `WORKRAIL_STORE_PASSWORD`, or in a file that `password_file=/PATH` in the address or \
                     `WORKRAIL_STORE_PASSWORD_FILE` names."
                }
                _ => "Correct or unset the variable.",
            };
            format!("{error}.\n{next}")
        }
        ConfigError::NoHome
        | ConfigError::Unreadable { .. }
        | ConfigError::Unwritable { .. }
        | ConfigError::Syntax { .. }
        | ConfigError::UnknownKey { .. }
        | ConfigError::WrongValue { .. }
        | ConfigError::WrongSource { .. } => {
            format!(
                "{error}\n`workrail config edit` opens the file, `workrail config path` prints where it is."
            )
        }
    })
}

/// The workflow sources in the settings.
pub(crate) fn sources() -> Result<Sources, Failure> {
    current().map(|current| Sources::from_settings(&current.settings))
}
