//! The password for the database of the store: from the environment or from a private file, and nowhere else.

use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::bounded;
use crate::env_vars::{self, EnvVar};

const BYTES_MAX: u64 = 4096;

/// Why there is no password to be had where one was named. Never repeats what a file holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorePasswordError {
    #[error("the password file `{path}` cannot be read: {detail}")]
    Unreadable { path: Utf8PathBuf, detail: String },
    #[error("the password file `{path}` can be read by other users; run `chmod 600 {path}`")]
    Exposed { path: Utf8PathBuf },
    #[error("the password file `{path}` holds no line of text")]
    Empty { path: Utf8PathBuf },
}

/// The password that the environment gives, else the one in a file: the file that the environment names, else the one
/// that the address names. `None` where nobody gives one.
pub fn store_password(named_in_address: Option<&str>) -> Result<Option<String>, StorePasswordError> {
    choose(EnvVar::get, named_in_address)
}

fn choose(
    get: impl Fn(&EnvVar) -> Option<String>,
    named_in_address: Option<&str>,
) -> Result<Option<String>, StorePasswordError> {
    if let Some(password) = get(&env_vars::STORE_PASSWORD) {
        return Ok(Some(password));
    }
    let file = get(&env_vars::STORE_PASSWORD_FILE).or_else(|| named_in_address.map(str::to_owned));
    file.map(|path| from_file(Utf8Path::new(&path))).transpose()
}

fn from_file(path: &Utf8Path) -> Result<String, StorePasswordError> {
    let unreadable = |detail: String| StorePasswordError::Unreadable { path: path.to_owned(), detail };
    let facts = path.metadata().map_err(|error| unreadable(error.to_string()))?;
    if facts.mode() & 0o077 != 0 {
        return Err(StorePasswordError::Exposed { path: path.to_owned() });
    }
    // The user named it, so it may be a link, as mounted secrets are.
    let real = path.canonicalize_utf8().map_err(|error| unreadable(error.to_string()))?;
    let bytes = bounded::read(&real, BYTES_MAX).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Err(StorePasswordError::Empty { path: path.to_owned() });
    }
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(folder: &tempfile::TempDir, name: &str, text: &str, mode: u32) -> String {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn environment(variables: &[(&str, &str)]) -> impl Fn(&EnvVar) -> Option<String> {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        move |variable| {
            variables.iter().find(|(name, _)| name == variable.name).map(|(_, value)| value.clone())
        }
    }

    #[test]
    fn the_variable_wins_then_its_file_then_the_file_of_the_address() {
        let folder = tempfile::tempdir().unwrap();
        let (own, named) = (file(&folder, "own", "own\n", 0o600), file(&folder, "named", "named", 0o400));
        let both = [("WORKRAIL_STORE_PASSWORD", "given"), ("WORKRAIL_STORE_PASSWORD_FILE", &own)];
        assert_eq!(choose(environment(&both), Some(&named)), Ok(Some("given".to_owned())));
        assert_eq!(choose(environment(&both[1..]), Some(&named)), Ok(Some("own".to_owned())));
        assert_eq!(choose(environment(&[]), Some(&named)), Ok(Some("named".to_owned())));
        assert_eq!(choose(environment(&[]), None), Ok(None));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_and_its_text_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let exposed = file(&folder, "exposed", "hunter2", 0o640);
        let refused = choose(environment(&[]), Some(&exposed)).unwrap_err();
        assert!(matches!(refused, StorePasswordError::Exposed { .. }));
        assert!(!refused.to_string().contains("hunter2"));
        let empty = file(&folder, "empty", "\n", 0o600);
        assert!(matches!(choose(environment(&[]), Some(&empty)), Err(StorePasswordError::Empty { .. })));
        let missing = choose(environment(&[]), Some("/nowhere/at/all"));
        assert!(matches!(missing, Err(StorePasswordError::Unreadable { .. })));
    }
}
