//! Where the data directory is.

use camino::Utf8PathBuf;

use crate::env_vars;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataDirError {
    #[error("`{name}` must be an absolute path, it is `{found}`")]
    Relative { name: &'static str, found: String },
    #[error("no home directory was found; set `{name}` to an absolute path", name = env_vars::DATA_DIR.name)]
    NoHome,
}

/// `WORKRAIL_DATA_DIR`, else `XDG_DATA_HOME/workrail`, else `~/.local/share/workrail`.
pub fn data_dir() -> Result<Utf8PathBuf, DataDirError> {
    let xdg = std::env::var("XDG_DATA_HOME").ok();
    let home = std::env::home_dir().and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
    choose(env_vars::DATA_DIR.get(), xdg, home)
}

fn choose(
    own: Option<String>,
    xdg: Option<String>,
    home: Option<Utf8PathBuf>,
) -> Result<Utf8PathBuf, DataDirError> {
    if let Some(found) = own {
        let path = Utf8PathBuf::from(&found);
        let name = env_vars::DATA_DIR.name;
        return if path.is_absolute() { Ok(path) } else { Err(DataDirError::Relative { name, found }) };
    }
    // The XDG specification says that a relative value is to be ignored.
    if let Some(base) = xdg.map(Utf8PathBuf::from).filter(|path| path.is_absolute()) {
        return Ok(base.join("workrail"));
    }
    home.map(|home| home.join(".local/share/workrail")).ok_or(DataDirError::NoHome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_variable_wins_and_must_be_absolute() {
        let home = Some(Utf8PathBuf::from("/h"));
        assert_eq!(choose(Some("/d".into()), Some("/x".into()), home.clone()), Ok("/d".into()));
        assert!(matches!(choose(Some("d".into()), None, home), Err(DataDirError::Relative { .. })));
    }

    #[test]
    fn then_xdg_then_home() {
        let home = Some(Utf8PathBuf::from("/h"));
        assert_eq!(choose(None, Some("/x".into()), home.clone()), Ok("/x/workrail".into()));
        assert_eq!(choose(None, Some("x".into()), home), Ok("/h/.local/share/workrail".into()));
        assert_eq!(choose(None, None, None), Err(DataDirError::NoHome));
    }
}
