//! Where the data directory is.

use camino::Utf8PathBuf;
use workrail_model::config::{Key, Settings};

use crate::env_vars;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataDirError {
    #[error("no home directory was found; set `{name}` to an absolute path", name = env_vars::DATA_DIR.name)]
    NoHome,
}

/// The path in the settings (their variable is `WORKRAIL_DATA_DIR`), else `XDG_DATA_HOME/workrail`, else
/// `~/.local/share/workrail`.
pub fn data_dir(settings: &Settings) -> Result<Utf8PathBuf, DataDirError> {
    let xdg = std::env::var("XDG_DATA_HOME").ok();
    let home = std::env::home_dir().and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
    choose(settings.text(Key::DataDir), xdg, home)
}

fn choose(
    setting: Option<&str>,
    xdg: Option<String>,
    home: Option<Utf8PathBuf>,
) -> Result<Utf8PathBuf, DataDirError> {
    if let Some(path) = setting {
        return Ok(Utf8PathBuf::from(path));
    }
    // The XDG specification says to ignore a relative value.
    if let Some(base) = xdg.map(Utf8PathBuf::from).filter(|path| path.is_absolute()) {
        return Ok(base.join("workrail"));
    }
    home.map(|home| home.join(".local/share/workrail")).ok_or(DataDirError::NoHome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_wins() {
        let home = Some(Utf8PathBuf::from("/h"));
        assert_eq!(choose(Some("/d"), Some("/x".into()), home), Ok("/d".into()));
    }

    #[test]
    fn without_a_setting_xdg_wins_over_home() {
        let home = Some(Utf8PathBuf::from("/h"));
        assert_eq!(choose(None, Some("/x".into()), home.clone()), Ok("/x/workrail".into()));
        assert_eq!(choose(None, Some("x".into()), home), Ok("/h/.local/share/workrail".into()));
        assert_eq!(choose(None, None, None), Err(DataDirError::NoHome));
    }
}
