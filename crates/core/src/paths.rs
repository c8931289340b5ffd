//! Texts that are paths, of this or another operating system.

/// Whether a text is an absolute path, on this or another operating system.
pub(crate) fn is_absolute(text: &str) -> bool {
    let drive =
        |bytes: &[u8]| matches!(bytes, [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    text.starts_with(['/', '\\']) || text.starts_with("file:") || drive(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("/home/someone/w.json", true)]
    #[test_case("C:\\Users\\someone\\w.json", true)]
    #[test_case("c:/w.json", true)]
    #[test_case("\\\\server\\share\\w.json", true)]
    #[test_case("file:///w.json", true)]
    #[test_case("workflows/w.json", false)]
    #[test_case("bundled/wr.small_change.json", false)]
    #[test_case("", false)]
    fn absolute(text: &str, expected: bool) {
        assert_eq!(is_absolute(text), expected);
    }
}
