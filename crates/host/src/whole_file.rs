//! Replaces a file at once, so that no reader and no crash finds half of it.

use std::io::{self, Write};

use camino::{Utf8Path, Utf8PathBuf};

/// Writes the file, making its folder; it keeps its permissions, and a link keeps pointing where it does.
pub(crate) fn write(path: &Utf8Path, text: &str) -> io::Result<()> {
    write_like(path, text, path)
}

/// The same, with the permissions of another file.
pub(crate) fn write_like(path: &Utf8Path, text: &str, like: &Utf8Path) -> io::Result<()> {
    let path = path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
    let folder = match path.parent() {
        Some(folder) if !folder.as_str().is_empty() => folder.to_owned(),
        Some(_) | None => Utf8PathBuf::from("."),
    };
    std::fs::create_dir_all(&folder)?;
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(text.as_bytes())?;
    if let Ok(metadata) = std::fs::metadata(like) {
        file.as_file().set_permissions(metadata.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(())
}

/// Puts bytes in place at once, and leaves it to `sync_all_in` to make them last.
pub(crate) fn write_unsynced(path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("a file lies in a folder"))?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Makes everything that was written into a folder last.
pub(crate) fn sync_all_in(folder: &Utf8Path) -> io::Result<()> {
    let opened = std::fs::File::open(folder)?;
    // One call instead of thousands, where the system has it.
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(&opened)?;
    #[cfg(not(target_os = "linux"))]
    for entry in std::fs::read_dir(folder)? {
        std::fs::File::open(entry?.path())?.sync_all()?;
    }
    opened.sync_all()
}
