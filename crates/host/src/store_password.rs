//! The secrets of a database store, namely its password and the key that encrypts its signing keys: read from the
//! environment or from a private file, and nowhere else.

use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use data_encoding::{BASE64, BASE64URL_NOPAD};

use crate::bounded;
use crate::env_vars::{self, EnvVar};

const BYTES_MAX: u64 = 4096;

/// Why the password or the key could not be obtained. Never repeats a file's content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorePasswordError {
    #[error("the secret in the file `{path}` cannot be read: {detail}")]
    Unreadable { path: Utf8PathBuf, detail: String },
    #[error("`{path}` is not a regular file; name a file of mode 0600 whose first line is the secret")]
    NotAFile { path: Utf8PathBuf },
    #[error("the secret in the file `{path}` can be read by other users; run `chmod 600 {path}`")]
    Exposed { path: Utf8PathBuf },
    /// Not shown: it may be the secret itself, in the wrong variable.
    #[error("`{variable}` must be the absolute path of a file; what it says now is none")]
    NotAPath { variable: &'static str },
    #[error("the file `{path}` holds no line of text")]
    Empty { path: Utf8PathBuf },
    #[error("the key of the store must be 32 bytes in base64; `openssl rand -base64 32` makes one")]
    NotAKey,
}

/// The password in the environment, else in a file: the one that the environment names, else the one that the address
/// names. `None` if no password is given.
pub fn store_password(named_in_address: Option<&str>) -> Result<Option<String>, StorePasswordError> {
    choose(EnvVar::get, &PASSWORD, named_in_address)
}

/// The key that encrypts the signing keys in the database, by the same rules.
pub fn store_key(named_in_address: Option<&str>) -> Result<Option<[u8; 32]>, StorePasswordError> {
    choose(EnvVar::get, &KEY, named_in_address)?.map(|text| key_of(&text)).transpose()
}

fn key_of(text: &str) -> Result<[u8; 32], StorePasswordError> {
    let encodings = [BASE64, BASE64URL_NOPAD];
    let decoded = encodings.iter().find_map(|encoding| encoding.decode(text.trim().as_bytes()).ok());
    decoded.and_then(|bytes| bytes.try_into().ok()).ok_or(StorePasswordError::NotAKey)
}

/// Where the environment gives a secret: directly, or in a file.
struct SecretVariables {
    secret: EnvVar,
    file: EnvVar,
}

const PASSWORD: SecretVariables =
    SecretVariables { secret: env_vars::STORE_PASSWORD, file: env_vars::STORE_PASSWORD_FILE };
const KEY: SecretVariables = SecretVariables { secret: env_vars::STORE_KEY, file: env_vars::STORE_KEY_FILE };

fn choose(
    get: impl Fn(&EnvVar) -> Option<String>,
    named: &SecretVariables,
    named_in_address: Option<&str>,
) -> Result<Option<String>, StorePasswordError> {
    if let Some(secret) = get(&named.secret) {
        return Ok(Some(secret));
    }
    if let Some(path) = get(&named.file) {
        return match Utf8Path::new(&path) {
            path if path.is_absolute() => from_file(path).map(Some),
            _ => Err(StorePasswordError::NotAPath { variable: named.file.name }),
        };
    }
    named_in_address.map(|path| from_file(Utf8Path::new(path))).transpose()
}

fn from_file(path: &Utf8Path) -> Result<String, StorePasswordError> {
    let unreadable = |detail: String| StorePasswordError::Unreadable { path: path.to_owned(), detail };
    let facts = path.metadata().map_err(|error| unreadable(error.to_string()))?;
    if !facts.is_file() {
        return Err(StorePasswordError::NotAFile { path: path.to_owned() });
    }
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
        assert_eq!(choose(environment(&both), &PASSWORD, Some(&named)), Ok(Some("given".to_owned())));
        assert_eq!(choose(environment(&both[1..]), &PASSWORD, Some(&named)), Ok(Some("own".to_owned())));
        assert_eq!(choose(environment(&[]), &PASSWORD, Some(&named)), Ok(Some("named".to_owned())));
        assert_eq!(choose(environment(&[]), &PASSWORD, None), Ok(None));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_and_its_text_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let exposed = file(&folder, "exposed", "hunter2", 0o640);
        let refused = choose(environment(&[]), &PASSWORD, Some(&exposed)).unwrap_err();
        assert!(matches!(refused, StorePasswordError::Exposed { .. }));
        assert!(!refused.to_string().contains("hunter2"));
        let empty = file(&folder, "empty", "\n", 0o600);
        assert!(matches!(
            choose(environment(&[]), &PASSWORD, Some(&empty)),
            Err(StorePasswordError::Empty { .. })
        ));
        for place in [folder.path().to_str().unwrap(), "/dev/null"] {
            let refused = choose(environment(&[]), &PASSWORD, Some(place));
            assert_eq!(refused, Err(StorePasswordError::NotAFile { path: place.into() }));
        }
        let missing = choose(environment(&[]), &PASSWORD, Some("/nowhere/at/all"));
        assert!(matches!(missing, Err(StorePasswordError::Unreadable { .. })));
    }

    /// Broke: a secret in the variable of its file was repeated as a path that does not exist.
    #[test]
    fn a_secret_in_the_variable_of_its_file_is_not_repeated() {
        let refused = choose(environment(&[("WORKRAIL_STORE_KEY_FILE", "hunter2")]), &KEY, None).unwrap_err();
        assert_eq!(refused, StorePasswordError::NotAPath { variable: "WORKRAIL_STORE_KEY_FILE" });
        assert!(!refused.to_string().contains("hunter2"));
    }

    #[test]
    fn a_key_has_32_bytes_in_either_base64() {
        let standard = "//////////////////////////////////////////8=";
        assert_eq!(key_of(standard), Ok([255; 32]));
        assert_eq!(key_of("__________________________________________8"), Ok([255; 32]));
        for text in ["", "short", "//////////////////////////////////////////8=AA=="] {
            assert_eq!(key_of(text), Err(StorePasswordError::NotAKey), "{text}");
        }
    }
}
