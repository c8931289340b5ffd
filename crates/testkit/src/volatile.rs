//! Output that differs from run to run, and the names that a snapshot shows instead.

use workrail_core::label::RunLabel;

use crate::home::Home;

/// Regular expressions and what replaces their matches. The order matters: longer forms come first.
pub const PATTERNS: [(&str, &str); 21] = [
    (r"\b(st|ack|chk|ses)\.v\d\.(\[[^\]]+\]|[^.\s]+)\.[0-9a-z]{20,}", "[$1 token]"),
    (r"sha256:[0-9a-f]{64}", "[sha256]"),
    (r"\b[0-9a-f]{64}\b", "[digest]"),
    (r"\b(session|run|node)_[0-9a-z]{9,}", "[$1]"),
    (r"\bsess_[0-9a-z]{9,}", "[session]"),
    (r"\b(evt|gap|attempt|out|trace|bundle|snap)_[0-9a-z]{9,}", "[$1]"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z)?", "[time]"),
    (r"\d{4}-\d\d-\d\d\b", "[day]"),
    (r"\b\d+(\.\d+)? (ms|s|seconds?|minutes?)\b", "[span]"),
    (r"\b\d+(\.\d+)? (bytes|B|KB|MB|KiB|MiB|GiB)\b", "[size]"),
    (r#""(\w*[bB]ytes|pid|elapsedMs)": \d+"#, "\"$1\": 0"),
    (r"\(([0-9a-f]{7,40})\)", "([commit])"),
    (r"\((bundled, [\d.]+), [0-9a-f]{8}\)", "($1, [hash])"),
    (r"\b[0-9a-f]{16}\b", "[fingerprint]"),
    // A backup is named after the path of its file.
    (r"(/backups/[\w.-]+)-[0-9a-f]{12}\b", "$1-[path]"),
    (r"\blocalhost:\d+", "localhost:[port]"),
    (r"started (by|from) [\w.-]+ \(process \d+\)", "started $1 [program] (process [id])"),
    (r"· \d\d:\d\d:\d\d ·", "· [clock] ·"),
    (r"git version [\d.]+", "git version [version]"),
    // Columns are as wide as their widest label.
    (r"(\S) {2,}", "$1  "),
    (r"(?m)[ \t]+$", ""),
];

/// The text with placeholders for the folders of a home, the version and the labels of runs.
pub fn replaced(text: &str, home: &Home) -> String {
    let folder = home.root().parent().expect("a home is in a folder");
    without_labels(text)
        .replace(&*home.program().to_string_lossy(), "[program]")
        .replace(&*home.home().to_string_lossy(), "[home]")
        .replace(&*home.root().to_string_lossy(), "[root]")
        .replace(&*folder.to_string_lossy(), "[folder]")
        .replace(env!("CARGO_PKG_VERSION"), "[version]")
}

/// Labels of runs that no test named: imported copies get their own ids.
fn without_labels(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '-';
    let mut done = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        done.push_str(before);
        done.push_str(if RunLabel::parse(word).is_ok() { "[new run]" } else { word });
        rest = after;
    }
    done.push_str(rest);
    done
}
