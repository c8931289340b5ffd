//! Replaces a file atomically, so that no reader and no crash finds half of it.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};

/// Writes the file and creates its folder; permissions are kept, and a link keeps pointing to its target.
pub(crate) fn write(path: &Utf8Path, text: &str) -> io::Result<()> {
    write_like(path, text, path)
}

/// Unlike `write`, keeps nothing of what is in its place: not its permissions, and a link itself is replaced. Only the
/// owner may read the new file.
pub(crate) fn write_anew(path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
    written_in(&folder_of(path), bytes, None)?.persist(path)?;
    Ok(())
}

/// Like `write`, with the permissions of another file.
pub(crate) fn write_like(path: &Utf8Path, text: &str, like: &Utf8Path) -> io::Result<()> {
    put(path, text.as_bytes(), like)
}

/// Like `write`, for a text that contains a secret: only the owner may read the file, whatever its permissions were, and
/// the folders that it needs are theirs alone.
pub(crate) fn write_private(path: &Utf8Path, text: &str) -> io::Result<()> {
    create_private_folder(&folder_of(path))?;
    replace(path, text.as_bytes(), None)
}

/// Like `write`, for a project's file: every user may read it, whatever its permissions were.
pub(crate) fn write_public(path: &Utf8Path, text: &str) -> io::Result<()> {
    replace(path, text.as_bytes(), Some(Permissions::from_mode(0o644)))
}

/// Unlike `write`, requires that the file exists, replaces a link instead of following it, and makes the new name
/// survive a crash.
pub(crate) fn replace_not_following(path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
    let permissions = std::fs::symlink_metadata(path)?.permissions();
    let folder = folder_of(path);
    written_in(&folder, bytes, Some(permissions))?.persist(path)?;
    File::open(&folder)?.sync_all()
}

fn put(path: &Utf8Path, bytes: &[u8], like: &Utf8Path) -> io::Result<()> {
    replace(path, bytes, std::fs::metadata(like).ok().map(|metadata| metadata.permissions()))
}

/// A new file is readable by its owner alone unless other permissions are given.
fn replace(path: &Utf8Path, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let path = path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
    let folder = folder_of(&path);
    std::fs::create_dir_all(&folder)?;
    written_in(&folder, bytes, permissions)?.persist(&path)?;
    Ok(())
}

/// Creates a folder, and those above it, that only the owner may enter; existing ones are left as they are.
pub(crate) fn create_private_folder(folder: &Utf8Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn folder_of(path: &Utf8Path) -> Utf8PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_str().is_empty() => folder.to_owned(),
        Some(_) | None => Utf8PathBuf::from("."),
    }
}

fn written_in(
    folder: &Utf8Path,
    bytes: &[u8],
    permissions: Option<Permissions>,
) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    Ok(file)
}
