//! The store's sources access the operating system's files only inside the disk adapter (proof of G10-G14).

use std::path::{Path, PathBuf};

/// Names that only `src/disk` may use; a call elsewhere would escape the crash proofs and the monitor.
const BANNED: [&str; 5] = ["std::fs", "std::os::unix", "std::os::fd", "rustix", "tempfile"];

#[expect(clippy::disallowed_methods, reason = "this test reads the crate's own sources, not a store")]
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("the crate has its sources") {
        let path = entry.expect("a listed source").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "this test reads the crate's own sources, not a store")]
fn only_the_disk_adapter_names_std_fs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 10, "the scan found only {} files", files.len());
    let mut offences = Vec::new();
    let mut adapters = 0;
    for path in files {
        let within = path.strip_prefix(&root).expect("found beneath src");
        if within.starts_with("disk") || within == Path::new("disk.rs") {
            adapters += 1;
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("sources are UTF-8");
        for (number, line) in text.lines().enumerate() {
            if let Some(word) = BANNED.iter().find(|word| line.contains(**word)) {
                offences.push(format!("{}:{}: {word}", within.display(), number + 1));
            }
        }
    }
    assert!(adapters > 0, "the disk adapter moved: this test must follow it");
    assert_eq!(offences, Vec::<String>::new(), "outside src/disk");
}
