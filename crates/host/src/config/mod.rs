//! The user's settings: one TOML file, overridden by environment variables, edited without losing its comments.
//!
//! A file that cannot be read as it is is reported at once and never partly used (G82).

mod edit;
mod live;
mod read;

use camino::{Utf8Path, Utf8PathBuf};
use workrail_model::config::{Key, SettingValue, Settings, ValueOrigin, ValueProblem};
use workrail_model::preferences::Mode;

use crate::env_vars::{self, EnvVar};

pub use edit::{add_git, prepare, remove_git, set, unset};
pub use live::LiveConfig;

/// Settings that cannot be used, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("no home directory was found, so there is no place for the settings; name a file with --config")]
    NoHome,
    #[error("the settings `{path}` cannot be read: {detail}")]
    Unreadable { path: Utf8PathBuf, detail: String },
    #[error("the settings `{path}` cannot be written: {detail}")]
    Unwritable { path: Utf8PathBuf, detail: String },
    #[error("the settings `{path}` are not valid TOML:\n{detail}")]
    Syntax { path: Utf8PathBuf, detail: String },
    #[error("unknown setting `{key}` in `{path}`{}", suggestion(.nearest))]
    UnknownKey { path: Utf8PathBuf, key: String, nearest: Option<&'static str> },
    #[error("`{}` in `{path}`: {problem}", key.as_str())]
    WrongValue { path: Utf8PathBuf, key: Key, problem: ValueProblem },
    #[error("`{member}` in `{path}`: {problem}")]
    WrongSource { path: Utf8PathBuf, member: String, problem: ValueProblem },
    #[error("the environment variable `{name}`: {problem}")]
    WrongVariable { name: &'static str, problem: ValueProblem },
    #[error("`{name}`: {problem}")]
    WrongOption { name: &'static str, problem: ValueProblem },
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{name}`?"),
        None => {
            let known: Vec<&str> = Key::ALL.iter().map(|key| key.as_str()).collect();
            format!("; the settings are {}", known.join(", "))
        }
    }
}

/// Where the settings are, and whether the user named that path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPath {
    pub path: Utf8PathBuf,
    /// A file that the user named must exist; the default one may be missing.
    pub named: bool,
}

impl ConfigPath {
    /// The file given with `--config`, else `WORKRAIL_CONFIG`, else `XDG_CONFIG_HOME/workrail/config.toml`, else
    /// `~/.config/workrail/config.toml`.
    pub fn find(flag: Option<&Utf8Path>) -> Result<Self, ConfigError> {
        let xdg = std::env::var("XDG_CONFIG_HOME").ok();
        let home = std::env::home_dir().and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
        Self::choose(flag.map(Utf8Path::to_owned), env_vars::CONFIG.get(), xdg, home)
    }

    /// The user's own file, regardless of flags and variables: `XDG_CONFIG_HOME/workrail/config.toml`, else
    /// `~/.config/workrail/config.toml`.
    pub fn of_user() -> Result<Self, ConfigError> {
        let xdg = std::env::var("XDG_CONFIG_HOME").ok();
        let home = std::env::home_dir().and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
        Self::choose(None, None, xdg, home)
    }

    fn choose(
        flag: Option<Utf8PathBuf>,
        variable: Option<String>,
        xdg: Option<String>,
        home: Option<Utf8PathBuf>,
    ) -> Result<Self, ConfigError> {
        if let Some(path) = flag.or(variable.map(Utf8PathBuf::from)) {
            return Ok(Self { path, named: true });
        }
        // The XDG specification says to ignore a relative value.
        let base = xdg.map(Utf8PathBuf::from).filter(|path| path.is_absolute());
        let base = base.or_else(|| home.map(|home| home.join(".config"))).ok_or(ConfigError::NoHome)?;
        Ok(Self { path: base.join("workrail/config.toml"), named: false })
    }
}

/// The variable that overrides a key; not every key has one.
pub fn variable(key: Key) -> Option<&'static EnvVar> {
    let variable = match key {
        // A process that should be refused could otherwise set the variable for itself.
        Key::ApprovalsRefuseDescendants
        | Key::ApprovalsRequire
        | Key::ApprovalsRequireIn
        | Key::SourceGit => return None,
        // A project's file for an agent's program can set variables; whether forms are shown is the user's decision.
        // For the same reason the server reads these from the user's own file.
        Key::ApprovalsChat | Key::ApprovalsChatWait => return None,
        Key::DataDir => &env_vars::DATA_DIR,
        Key::ExportRedactKeys => &env_vars::REDACT_KEYS,
        Key::LogFilter => &env_vars::LOG,
        Key::Autonomy => &env_vars::AUTONOMY,
        Key::RiskPolicy => &env_vars::RISK_POLICY,
        Key::RepliesStructured => &env_vars::STRUCTURED_REPLIES,
        Key::RepliesTextInData => &env_vars::TEXT_IN_DATA,
        Key::RetentionTtl => &env_vars::RETENTION_DAYS,
        Key::SourcePaths => &env_vars::STORAGE_PATH,
        Key::SourcePlugins => &env_vars::PLUGINS,
        Key::Store => &env_vars::STORE,
        Key::TokenEncoding => &env_vars::TOKEN_ENCODING,
        Key::ToolsCheckpoint => &env_vars::ENABLE_CHECKPOINT,
        Key::ToolsExecution => &env_vars::ENABLE_V2_TOOLS,
        Key::ToolsResume => &env_vars::ENABLE_RESUME,
        Key::ToolsStartSession => &env_vars::ENABLE_START_SESSION,
    };
    Some(variable)
}

/// The variable the user probably meant.
pub fn nearest_variable(name: &str) -> Option<&'static str> {
    workrail_model::nearest::nearest(name, env_vars::ALL.iter().map(|variable| variable.name))
}

/// The settings in effect for this process; `store` is the address given on its command line.
pub fn load(config_path: Option<&ConfigPath>, store: Option<&str>) -> Result<Settings, ConfigError> {
    let mut given = config_path.map(read::file).transpose()?.unwrap_or_default();
    given.extend(from_environment(EnvVar::get)?);
    if let Some(text) = store {
        let value = Key::Store.kind().read(text);
        let value = value.map_err(|problem| ConfigError::WrongOption { name: "--store", problem })?;
        // After the variables, so that it overrides them.
        given.push((Key::Store, value, ValueOrigin::Environment));
    }
    Ok(Settings::layered(given))
}

/// What the file alone says, over the defaults: what the user wants, before anything overrides it here.
pub fn load_file(config_path: &ConfigPath) -> Result<Settings, ConfigError> {
    read::file(config_path).map(Settings::layered)
}

type GivenSettings = Vec<(Key, SettingValue, ValueOrigin)>;

fn from_environment(get: impl Fn(&EnvVar) -> Option<String>) -> Result<GivenSettings, ConfigError> {
    let mut given = Vec::new();
    if let Some(text) = get(&env_vars::DEFAULT_MODE) {
        let name = env_vars::DEFAULT_MODE.name;
        let mode = Key::Autonomy.kind().read(&text);
        mode.map_err(|problem| ConfigError::WrongVariable { name, problem })?;
        // Presets are named after their autonomy.
        if let Some(mode) = Mode::parse(&text) {
            let preset = mode.preferences();
            let text = |text: &str| SettingValue::Text(text.to_owned());
            given.push((Key::Autonomy, text(preset.autonomy.as_str()), ValueOrigin::Environment));
            given.push((Key::RiskPolicy, text(preset.risk_policy.as_str()), ValueOrigin::Environment));
        }
    }
    for key in Key::ALL {
        let Some(variable) = variable(*key) else { continue };
        if let Some(text) = get(variable) {
            let name = variable.name;
            let value = key.kind().read(&text);
            let value = value.map_err(|problem| ConfigError::WrongVariable { name, problem })?;
            given.push((*key, value, ValueOrigin::Environment));
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_then_the_variable_then_xdg_then_home() {
        let choose = |flag: Option<&str>, own: Option<&str>, xdg: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            ConfigPath::choose(flag.map(Into::into), text(own), text(xdg), Some("/h".into()))
                .map(|found| (found.path.into_string(), found.named))
        };
        assert_eq!(choose(Some("a"), Some("b"), Some("/x")), Ok(("a".to_owned(), true)));
        assert_eq!(choose(None, Some("b"), Some("/x")), Ok(("b".to_owned(), true)));
        assert_eq!(choose(None, None, Some("/x")), Ok(("/x/workrail/config.toml".to_owned(), false)));
        assert_eq!(choose(None, None, Some("x")), Ok(("/h/.config/workrail/config.toml".to_owned(), false)));
    }

    #[test]
    fn a_preset_sets_both_preferences_and_a_single_key_refines_it() {
        let settings = |variables: &[(&str, &str)]| {
            let get = |variable: &EnvVar| {
                let found = variables.iter().find(|(name, _)| *name == variable.name);
                found.map(|(_, value)| (*value).to_owned())
            };
            from_environment(get).map(Settings::layered)
        };
        let mode =
            [("WORKRAIL_DEFAULT_MODE", "full_auto_never_stop"), ("WORKRAIL_RISK_POLICY", "aggressive")];
        let found = settings(&mode).map(|settings| settings.preferences());
        let found = found.map(|found| (found.autonomy.as_str(), found.risk_policy.as_str()));
        assert_eq!(found, Ok(("full_auto_never_stop", "aggressive")));
        let refused = settings(&[("WORKRAIL_ENABLE_RESUME", "perhaps")]);
        assert!(matches!(refused, Err(ConfigError::WrongVariable { name: "WORKRAIL_ENABLE_RESUME", .. })));
    }

    #[test]
    fn every_variable_of_a_key_is_declared() {
        for (key, variable) in Key::ALL.iter().filter_map(|key| Some((key, variable(*key)?))) {
            assert!(env_vars::ALL.iter().any(|known| known.name == variable.name), "{}", key.as_str());
        }
    }
}
