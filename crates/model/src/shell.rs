//! Words as a POSIX shell takes them, for commands that are shown, pasted or written to a file.

/// An argument for a shell's command line: as it is if no shell gives it another meaning, or else in single quotes.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    // zsh replaces `=name` by the path of that program.
    match !word.is_empty() && !word.starts_with('=') && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => in_quotes(word),
    }
}

fn in_quotes(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A command line of these words, the program first.
pub fn line<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let shown = |(at, word): (usize, S)| match word.as_ref() {
        program if at == 0 && is_assignment(program) => in_quotes(program),
        word => quoted(word),
    };
    words.into_iter().enumerate().map(shown).collect::<Vec<_>>().join(" ")
}

/// Whether a shell takes the first word of a command for an assignment: `A=b`, `A+=b`.
fn is_assignment(word: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_+".contains(c);
    word.split_once('=').is_some_and(|(name, _)| name.chars().all(is_of_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_a_shell_changes_are_quoted() {
        for plain in ["cargo", "--features=a,b", "/usr/bin/python3.12", "user@host:x%20y+z", "a_b-c"] {
            assert_eq!(quoted(plain), plain);
        }
        for (word, shown) in [
            ("", "''"),
            ("my notes.md", "'my notes.md'"),
            ("it's", r"'it'\''s'"),
            ("*.rs", "'*.rs'"),
            ("a;b", "'a;b'"),
            ("a&&b", "'a&&b'"),
            ("~/x", "'~/x'"),
            ("${HOME}/x", "'${HOME}/x'"),
            ("{a,b}", "'{a,b}'"),
            ("#1", "'#1'"),
            ("a\nb", "'a\nb'"),
            ("é", "'é'"),
            ("=ls", "'=ls'"),
        ] {
            assert_eq!(quoted(word), shown, "{word:?}");
        }
        assert_eq!(line(["cargo", "test", "my notes"]), "cargo test 'my notes'");
    }

    #[test]
    fn a_program_with_a_name_like_an_assignment_is_quoted() {
        assert_eq!(line(["A=b", "C=d"]), "'A=b' C=d");
        assert_eq!(line(["A+=b c"]), "'A+=b c'");
        assert_eq!(line(["env", "A=b", "cargo", "test"]), "env A=b cargo test");
        assert_eq!(line(["/opt/a=b/cargo"]), "/opt/a=b/cargo");
    }
}
