//! Folders and lock files that are blocked by something of the same name, or that this user may not use (G22).

use std::time::Duration;

use workrail_model::id::SessionId;
use workrail_model::plan::AttachmentKind;
use workrail_ports::file_system::{FileKind, FileSystem, FsErrorKind, LockMode, RelPath};
use workrail_ports::upkeep::{Obstacle, ObstacleReach};

use crate::layout;

pub(crate) const IN_PLACE_OF_FOLDER: &str = "a file or a link exists where this folder should be";

pub(crate) fn all<F: FileSystem>(fs: &F) -> Vec<Obstacle> {
    let mut found: Vec<Obstacle> = Vec::new();
    for folder in layout::base_dirs() {
        let is_beneath = |known: &Obstacle| folder.as_str().starts_with(&format!("{}/", known.path));
        // Anything beneath an unusable folder says nothing new.
        if !found.iter().any(is_beneath) {
            found.extend(folder_obstacle(fs, &folder));
        }
    }
    if has_lost_sessions(fs) {
        found.push(Obstacle {
            path: layout::sessions().to_string(),
            problem: "this folder is missing, but the store holds content of sessions",
            fix: "Move the folder back into the data directory, or run `workrail store restore BACKUP`. Start no run and \
                  no server before that: they create an empty folder, and then `workrail store gc` deletes the content."
                .to_owned(),
            reach: ObstacleReach::Store,
        });
    }
    let entries = fs.list(&layout::sessions()).unwrap_or_default();
    let named = entries.iter().filter_map(|entry| Some((entry.kind, SessionId::parse(&entry.name).ok()?)));
    let (folders, others): (Vec<_>, Vec<_>) = named.partition(|(kind, _)| *kind == FileKind::Directory);
    let in_place_of = |folder, session| {
        in_place_of_folder(&folder, &format!(" {session}"), ObstacleReach::Session(session))
    };
    found.extend(others.into_iter().map(|(_, session)| in_place_of(layout::session(session), session)));
    let events = folders.iter().map(|(_, session)| (layout::events(*session), *session));
    let is_other = |path: &RelPath| fs.stat(path).is_ok_and(|stat| stat.kind != FileKind::Directory);
    let events = events.filter(|(folder, _)| is_other(folder));
    found.extend(events.map(|(folder, session)| in_place_of(folder, session)));
    found.extend(AttachmentKind::ALL.into_iter().flat_map(|kind| links_to_content(fs, kind)));
    found
        .extend([layout::activity(), layout::activity_reserved()].iter().filter_map(|file| denied(fs, file)));
    let session_locks = folders
        .into_iter()
        .map(|(_, session)| (layout::session_lock(session), ObstacleReach::Session(session)));
    let locks = [layout::store_lock(), layout::import_lock(), layout::backup_lock()];
    let locks = locks.map(|lock| (lock, ObstacleReach::Store)).into_iter().chain(session_locks);
    found.extend(locks.filter_map(|(lock, reach)| lock_obstacle(fs, &lock, reach)));
    found
}

/// Something else has the name of a folder of ours. It is not followed: a link may lead anywhere. `restored` names what
/// of a backup brings the folder back.
fn in_place_of_folder(folder: &RelPath, restored: &str, reach: ObstacleReach) -> Obstacle {
    let path = folder.to_string();
    let fix = format!(
        "If `{path}` is a link, replace it with the folder that it leads to. Otherwise move it out of the data directory, then \
         run `workrail store restore BACKUP{restored}`."
    );
    Obstacle { path, problem: IN_PLACE_OF_FOLDER, fix, reach }
}

/// Links and pipes with the names of content files. What a link leads to may be intact.
fn links_to_content<F: FileSystem>(fs: &F, kind: AttachmentKind) -> Vec<Obstacle> {
    let entries = fs.list(&layout::content_dir(kind)).unwrap_or_default().into_iter();
    let others = entries.filter(|entry| entry.kind == FileKind::Other);
    let digests = others.filter_map(|entry| layout::content_digest(kind, &entry.name));
    let obstacle = |digest| {
        let path = layout::content(kind, digest).to_string();
        let fix = format!(
            "If `{path}` is a link, replace it with the file that it leads to. Otherwise move it out of the data directory, \
             then run `workrail store restore BACKUP`."
        );
        let problem = "a link or a pipe is in the place of this file";
        Obstacle { path, problem, fix, reach: ObstacleReach::ContentFile }
    };
    digests.map(obstacle).collect()
}

/// A file of the activity counter that this user may not read.
fn denied<F: FileSystem>(fs: &F, path: &RelPath) -> Option<Obstacle> {
    let error = fs.read(path, 0, 0).err()?;
    (error.kind == FsErrorKind::PermissionDenied).then(|| Obstacle {
        fix: format!(
            "Run `chmod u+rw` on `{path}` in the data directory, or `chown` if another user owns it."
        ),
        path: path.to_string(),
        problem: "this user may not use this file",
        reach: ObstacleReach::NewRecords,
    })
}

/// Whether the folder of all sessions is missing although there is content. Once it exists again, empty, it looks
/// like a store whose sessions were all deleted.
pub(crate) fn has_lost_sessions<F: FileSystem>(fs: &F) -> bool {
    let is_missing = fs.stat(&layout::sessions()).is_err_and(|error| error.kind == FsErrorKind::NotFound);
    let holds_content = |kind| {
        let entries = fs.list(&layout::content_dir(kind)).unwrap_or_default();
        entries.iter().any(|entry| layout::content_digest(kind, &entry.name).is_some())
    };
    is_missing && AttachmentKind::ALL.into_iter().any(holds_content)
}

/// What prevents the use of this folder, if anything.
pub(crate) fn folder_obstacle<F: FileSystem>(fs: &F, folder: &RelPath) -> Option<Obstacle> {
    match fs.stat(folder) {
        Ok(stat) if stat.kind != FileKind::Directory => {
            return Some(in_place_of_folder(folder, "", ObstacleReach::Store));
        }
        Ok(_) => {}
        Err(error) if error.kind != FsErrorKind::PermissionDenied => return None,
        Err(_) => {}
    }
    let is_denied = fs.list(folder).is_err_and(|error| error.kind == FsErrorKind::PermissionDenied);
    is_denied.then(|| Obstacle {
        fix: format!(
            "Run `chmod u+rwx` on `{folder}` in the data directory, or `chown` if another user owns it."
        ),
        path: folder.to_string(),
        problem: "this user may not use this folder",
        reach: ObstacleReach::Store,
    })
}

fn lock_obstacle<F: FileSystem>(fs: &F, lock: &RelPath, reach: ObstacleReach) -> Option<Obstacle> {
    let path = lock.to_string();
    if fs.stat(lock).ok()?.kind != FileKind::Regular {
        let fix =
            format!("Move `{path}` out of the data directory; the next write creates the lock file again.");
        let problem = "a folder or a link has the name of a lock file";
        return Some(Obstacle { path, problem, fix, reach });
    }
    match fs.lock(lock, LockMode::Shared, Duration::ZERO) {
        Err(error) if error.kind == FsErrorKind::PermissionDenied => {
            let fix = format!("Run `chmod u+rw` on `{path}` in the data directory.");
            Some(Obstacle {
                path,
                problem: "this user may not open this lock file, so nothing can be written",
                fix,
                reach,
            })
        }
        Err(_) | Ok(_) => None,
    }
}
