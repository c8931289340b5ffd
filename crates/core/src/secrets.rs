//! Which context keys hold secrets: one list for reports, titles and redacted exports (G81).

use workrail_model::config::SECRET_KEYS;

/// Whether the value under a key is never shown. Reports and lists use the built-in list; an export uses
/// the patterns of its own setting, whose default is the same list.
pub fn is_secret(key: &str) -> bool {
    let key = comparable_key(key);
    SECRET_KEYS.iter().any(|pattern| fits(pattern, &key))
}

/// A key or pattern, normalised for comparison: `API_Key`, `api-key` and `apiKey` are the same.
pub(crate) fn comparable_key(key: &str) -> String {
    key.chars().filter(|c| !matches!(c, '_' | '-' | '.' | ' ')).flat_map(char::to_lowercase).collect()
}

/// Whether a pattern matches the whole text. Each `*` takes as little as possible; the last one takes the rest.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_keys_are_recognised_however_they_are_spelled() {
        for key in [
            "api_Key",
            "authToken",
            "DB_PASSWORD",
            "auth",
            "oauth.client",
            "Auth-Header",
            "jwt",
            "session_cookie",
            "private-key",
            "AWS_ACCESS_KEY",
            "passPhrase",
            "basicAuth",
            "Authorization",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for key in ["author", "authors", "branch", "private_repo", "goal", "keyboard", ""] {
            assert!(!is_secret(key), "{key}");
        }
    }

    #[test]
    fn the_built_in_patterns_are_normalised() {
        for pattern in SECRET_KEYS {
            assert_eq!(pattern, comparable_key(pattern));
        }
    }
}
