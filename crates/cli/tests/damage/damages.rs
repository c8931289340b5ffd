//! Every kind of damage, and whether a file is still intact.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use workrail_testkit::home::{Home, NOBODY, User};

use crate::files::{Role, Target};
use crate::template::Template;

/// More than the program may read into memory.
const HUGE_BYTES: u64 = 8 << 30;
/// Neither the program's user nor root.
const STRANGER: u32 = 65_533;
pub(crate) const FOREIGN: &str = "foreign.txt";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    Missing,
    Empty,
    CutByOne,
    CutHalf,
    /// One bit, at this many eighths of the file.
    Flipped(u64),
    Garbage,
    Zeros,
    Swapped,
    /// A folder in place of a file, or a file in place of a folder.
    OtherKind,
    LinkToNothing,
    LinkToItself,
    LinkToEndless,
    /// A link to the intact original, elsewhere.
    LinkToOriginal,
    Unreadable,
    ReadOnly,
    WrongOwner,
    Huge,
    Appended,
    DuplicatedLine,
    ForeignBeside,
    Pipe,
}

pub(crate) const ALL: [Damage; 26] = [
    Damage::Missing,
    Damage::Empty,
    Damage::CutByOne,
    Damage::CutHalf,
    Damage::Flipped(0),
    Damage::Flipped(1),
    Damage::Flipped(3),
    Damage::Flipped(5),
    Damage::Flipped(7),
    Damage::Flipped(8),
    Damage::Garbage,
    Damage::Zeros,
    Damage::Swapped,
    Damage::OtherKind,
    Damage::LinkToNothing,
    Damage::LinkToItself,
    Damage::LinkToEndless,
    Damage::LinkToOriginal,
    Damage::Unreadable,
    Damage::ReadOnly,
    Damage::WrongOwner,
    Damage::Huge,
    Damage::Appended,
    Damage::DuplicatedLine,
    Damage::ForeignBeside,
    Damage::Pipe,
];

impl Damage {
    pub(crate) fn name(self) -> String {
        if let Self::Flipped(eighths) = self {
            return format!("bit flipped at {eighths}/8");
        }
        format!("{self:?}").to_lowercase()
    }

    /// Whether only a change of permissions brings the file back.
    pub(crate) fn is_forbidden(self) -> bool {
        matches!(self, Self::Unreadable | Self::WrongOwner)
    }

    /// Whether no process can lock such a file: it is not a plain file, or may not be opened for writing.
    pub(crate) fn blocks_a_lock(self) -> bool {
        match self {
            Self::OtherKind
            | Self::LinkToNothing
            | Self::LinkToItself
            | Self::LinkToEndless
            | Self::LinkToOriginal
            | Self::Unreadable
            | Self::ReadOnly
            | Self::WrongOwner
            | Self::Pipe => true,
            Self::Missing
            | Self::Empty
            | Self::CutByOne
            | Self::CutHalf
            | Self::Flipped(_)
            | Self::Garbage
            | Self::Zeros
            | Self::Swapped
            | Self::Huge
            | Self::Appended
            | Self::DuplicatedLine
            | Self::ForeignBeside => false,
        }
    }

    /// Whether this damage is possible for such a target on this machine.
    pub(crate) fn fits(self, target: &Target, home: &Home) -> bool {
        let path = home.root().join(&target.path);
        let found = fs::symlink_metadata(&path).unwrap();
        match self {
            Self::CutByOne
            | Self::CutHalf
            | Self::Flipped(_)
            | Self::Garbage
            | Self::Zeros
            | Self::DuplicatedLine => found.is_file() && found.len() > 0,
            Self::Huge | Self::Appended => found.is_file(),
            Self::Empty => found.is_dir() || found.len() > 0,
            Self::Swapped => target.twin.is_some(),
            Self::Unreadable => home.user().respects_permissions(),
            Self::ReadOnly => home.user().respects_permissions(),
            Self::WrongOwner => home.user() == User::Nobody,
            Self::Missing
            | Self::OtherKind
            | Self::LinkToNothing
            | Self::LinkToItself
            | Self::LinkToEndless
            | Self::LinkToOriginal
            | Self::ForeignBeside
            | Self::Pipe => true,
        }
    }

    pub(crate) fn apply(self, target: &Target, home: &Home) {
        let path = home.root().join(&target.path);
        let is_folder = path.is_dir();
        match self {
            Self::Missing => remove(&path),
            Self::Empty if is_folder => {
                remove(&path);
                folder(home, &path);
            }
            Self::Empty => rewrite(&path, |_| Vec::new()),
            Self::CutByOne => rewrite(&path, |bytes| bytes[..bytes.len() - 1].to_vec()),
            Self::CutHalf => rewrite(&path, |bytes| bytes[..bytes.len() / 2].to_vec()),
            Self::Flipped(eighths) => rewrite(&path, |mut bytes| {
                let at = (bytes.len() as u64 * eighths / 8).min(bytes.len() as u64 - 1) as usize;
                bytes[at] ^= 1 << (eighths % 7);
                bytes
            }),
            Self::Garbage => {
                rewrite(&path, |bytes| bytes.iter().map(|byte| byte.wrapping_mul(167)).collect())
            }
            Self::Zeros => rewrite(&path, |bytes| vec![0; bytes.len()]),
            Self::Swapped => {
                remove(&path);
                copy(&home.root().join(target.twin.as_ref().unwrap()), &path);
            }
            Self::OtherKind => {
                remove(&path);
                if is_folder { home.write(&path, "a file") } else { folder(home, &path) }
            }
            Self::LinkToNothing => link(home, &path, Path::new("nothing-is-here")),
            Self::LinkToItself => link(home, &path, &path),
            Self::LinkToEndless => link(home, &path, Path::new("/dev/zero")),
            Self::LinkToOriginal => {
                let elsewhere = home.home().join("moved");
                fs::rename(&path, &elsewhere).unwrap();
                symlink(&elsewhere, &path).unwrap();
                home.give(&path);
            }
            Self::Unreadable => permit(&path, 0),
            Self::ReadOnly => permit(&path, if is_folder { 0o500 } else { 0o400 }),
            Self::WrongOwner => std::os::unix::fs::lchown(&path, Some(STRANGER), Some(STRANGER)).unwrap(),
            Self::Huge => fs::File::options().write(true).open(&path).unwrap().set_len(HUGE_BYTES).unwrap(),
            Self::Appended => rewrite(&path, |mut bytes| {
                bytes.extend_from_slice(b"{\"garbage\":true}\n");
                bytes
            }),
            Self::DuplicatedLine => rewrite(&path, |bytes| {
                let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
                [&bytes[..end], &bytes].concat()
            }),
            Self::ForeignBeside => {
                let place = if is_folder { &path } else { path.parent().unwrap() };
                home.write(&place.join(FOREIGN), "somebody else's");
            }
            Self::Pipe => {
                remove(&path);
                assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
                home.give(&path);
            }
        }
    }

    /// Restores the original.
    pub(crate) fn undo(self, target: &Target, template: &Template, home: &Home) {
        let (original, path) = (template.home.root().join(&target.path), home.root().join(&target.path));
        if self == Self::ForeignBeside {
            return;
        }
        // A folder with changed permissions is intact, and commands may have written into it.
        if matches!(self, Self::Unreadable | Self::ReadOnly | Self::WrongOwner) && original.is_dir() {
            permit(&path, fs::metadata(&original).unwrap().mode());
            home.give(&path);
            return;
        }
        remove(&path);
        copy(&original, &path);
    }

    /// Whether the program still has what it had: the same bytes, in a plain file or folder that it may read.
    pub(crate) fn harms(self, target: &Target, template: &Template, home: &Home) -> bool {
        let (original, path) = (template.home.root().join(&target.path), home.root().join(&target.path));
        let (Ok(old), Ok(new)) = (fs::symlink_metadata(&original), fs::symlink_metadata(&path)) else {
            return true;
        };
        if old.file_type() != new.file_type() {
            return true;
        }
        if home.user() == User::Nobody && new.uid() != NOBODY || new.mode() & 0o400 == 0 {
            return true;
        }
        // The contents of a lock or a mark mean nothing.
        if target.role == Role::Lock || target.name == "keep" {
            return new.len() > old.len() + (1 << 20);
        }
        // A keyring without its line end has the same keys; so it is with the others.
        let parsed = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).ok();
        if ["keyring", "access tokens", "backup marker"].contains(&target.name)
            && new.len() < 4096
            && parsed(&path).is_some()
        {
            return parsed(&path) != parsed(&original);
        }
        // The same holds for the name of a line.
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default().trim_end().to_owned();
        if target.name == "passkey head" && new.len() < 4096 {
            return text(&path) != text(&original);
        }
        match old.is_dir() {
            true => matches!(self, Self::Empty | Self::Swapped),
            false => old.len() != new.len() || fs::read(original).unwrap() != fs::read(path).unwrap(),
        }
    }
}

pub(crate) fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

fn folder(home: &Home, path: &Path) {
    fs::create_dir(path).unwrap();
    permit(path, 0o700);
    home.give(path);
}

fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn rewrite(path: &Path, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    fs::write(path, change(fs::read(path).unwrap())).unwrap();
}

fn link(home: &Home, path: &Path, to: &Path) {
    remove(path);
    symlink(to, path).unwrap();
    home.give(path);
}
