//! Counts, durably copies and removes whole folders (G22).
//!
//! People put files of any name and folders of any depth into ours. Every entry is seen: what cannot be visited, copied
//! or removed is an error that names it.

use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_ports::file_system::{DirEntry, FileKind, FileSystem, FsError, FsErrorKind, FsOp, RelPath};
use workrail_ports::upkeep::{Tally, UpkeepError};

use crate::content::write_temp;

/// Sessions have two levels of folders, and backups one more above them.
const DEPTH_MAX: usize = 4;
/// Deeper than anyone nests folders by hand; bounds the recursion.
const REMOVAL_DEPTH_MAX: usize = 64;

/// The path of a listed entry, or the error of one that has no exact name.
fn path_of(folder: &RelPath, entry: &DirEntry, op: FsOp) -> Result<RelPath, FsError> {
    folder.child(&entry.name).ok_or_else(|| FsError {
        op,
        path: folder.clone(),
        kind: FsErrorKind::WrongKind,
        detail: format!("the name of `{}` in it is not valid UTF-8", entry.name.escape_debug()),
    })
}

pub(crate) fn ignore_absent<T: Default>(result: Result<T, FsError>) -> Result<T, FsError> {
    match result {
        Err(error) if error.kind == FsErrorKind::NotFound => Ok(T::default()),
        other => other,
    }
}

/// Counts the files beneath a folder and their bytes.
pub(crate) fn tally<F: FileSystem>(fs: &F, folder: &RelPath) -> Result<Tally, FsError> {
    let mut sum = Tally::default();
    each_file(fs, folder, &mut |path, _| {
        if let Ok(stat) = fs.stat(path) {
            sum.add(stat.len);
        }
        Ok(())
    })?;
    Ok(sum)
}

/// Visits every entry that is not a folder, and every folder that is nested too deeply to look into; an entry that
/// vanished meanwhile is skipped.
pub(crate) fn each_file<F: FileSystem>(
    fs: &F,
    folder: &RelPath,
    visit: &mut dyn FnMut(&RelPath, FileKind) -> Result<(), FsError>,
) -> Result<(), FsError> {
    each_within_depth(fs, folder, DEPTH_MAX, visit)
}

fn each_within_depth<F: FileSystem>(
    fs: &F,
    folder: &RelPath,
    depth: usize,
    visit: &mut dyn FnMut(&RelPath, FileKind) -> Result<(), FsError>,
) -> Result<(), FsError> {
    for entry in ignore_absent(fs.list(folder))? {
        let path = path_of(folder, &entry, FsOp::Read)?;
        match entry.kind {
            FileKind::Directory if depth > 0 => each_within_depth(fs, &path, depth - 1, visit)?,
            FileKind::Directory | FileKind::Regular | FileKind::Other => visit(&path, entry.kind)?,
        }
    }
    Ok(())
}

/// Removes a folder with everything in it. Entries that another process removes at the same time are not an error.
pub(crate) fn remove<F: FileSystem>(fs: &F, folder: &RelPath) -> Result<(), FsError> {
    remove_within_depth(fs, folder, REMOVAL_DEPTH_MAX)
}

fn remove_within_depth<F: FileSystem>(fs: &F, folder: &RelPath, depth: usize) -> Result<(), FsError> {
    let mut kept = Ok(());
    for entry in ignore_absent(fs.list(folder))? {
        let removed = path_of(folder, &entry, FsOp::Remove).and_then(|path| match entry.kind {
            FileKind::Directory if depth > 0 => remove_within_depth(fs, &path, depth - 1),
            // Its parent cannot be removed either, and reports it.
            FileKind::Directory => Ok(()),
            FileKind::Regular | FileKind::Other => ignore_absent(fs.remove_file(&path)),
        });
        // The rest is removed all the same, and the first reason is reported.
        kept = kept.and(removed);
    }
    kept?;
    ignore_absent(fs.remove_dir(folder))
}

/// Copies a folder to a new one and syncs every byte and name except the new folder's own name. Any failure aborts
/// the copy: an incomplete backup is worthless.
pub(crate) fn copy<F: FileSystem>(
    fs: &F,
    from: &RelPath,
    to: &RelPath,
    leave_out: &dyn Fn(&RelPath) -> bool,
) -> Result<(), UpkeepError> {
    copy_within_depth(fs, from, to, leave_out, DEPTH_MAX)
}

fn copy_within_depth<F: FileSystem>(
    fs: &F,
    from: &RelPath,
    to: &RelPath,
    leave_out: &dyn Fn(&RelPath) -> bool,
    depth: usize,
) -> Result<(), UpkeepError> {
    fs.create_dir(to)?;
    for entry in fs.list(from)? {
        let not_copied = |detail: &str| UpkeepError::NotCopied {
            path: from.describe_child(&entry.name),
            detail: detail.to_owned(),
        };
        let (Some(source), Some(target)) = (from.child(&entry.name), to.child(&entry.name)) else {
            return Err(not_copied("its name is not valid UTF-8"));
        };
        if leave_out(&source) {
            continue;
        }
        match entry.kind {
            FileKind::Regular => {
                let bytes = fs.read(&source, 0, MANIFEST_BYTES_MAX);
                let bytes = bytes.map_err(|error| not_copied(&error.detail))?;
                write_temp(fs, &target, &bytes)?;
            }
            FileKind::Directory if depth > 0 => {
                copy_within_depth(fs, &source, &target, leave_out, depth - 1)?
            }
            FileKind::Directory => return Err(not_copied("folders are nested too deeply")),
            FileKind::Other => return Err(not_copied("it is a link or a device")),
        }
    }
    fs.sync_dir(to)?;
    Ok(())
}
