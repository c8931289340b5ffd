//! Keeps a check from writing outside its workspace, where the kernel supports it (decision 0023).
//!
//! A best-effort guard rail against accidents: reading, the network and other processes are not restricted.

use camino::{Utf8Path, Utf8PathBuf};

/// Below the home directory: caches that common tools need to write to.
const CACHES: [&str; 21] = [
    ".cache",
    ".cargo/registry",
    ".cargo/git",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/.global-cache",
    ".rustup",
    ".npm",
    ".yarn",
    ".pnpm-store",
    ".local/share/pnpm",
    ".bun/install/cache",
    ".gradle",
    ".m2",
    ".nuget",
    ".dotnet",
    "go/pkg",
    ".bundle",
    ".gem",
    ".pub-cache",
    "Library/Caches",
];

/// Everything that a check of this workspace may write to.
pub(super) fn writable(root: &Utf8Path, repository: Option<Utf8PathBuf>) -> Vec<Utf8PathBuf> {
    let mut paths = vec![root.to_owned()];
    // In a linked worktree, the git folder is elsewhere.
    paths.extend(repository);
    paths.extend(["/tmp", "/var/tmp", "/dev"].map(Utf8PathBuf::from));
    paths.extend(Utf8PathBuf::from_path_buf(std::env::temp_dir()));
    if let Some(home) = std::env::home_dir().and_then(|home| Utf8PathBuf::from_path_buf(home).ok()) {
        paths.extend(CACHES.map(|cache| home.join(cache)));
    }
    paths
}

#[cfg(target_os = "linux")]
pub(super) mod kernel {
    use camino::Utf8PathBuf;
    use landlock::{
        ABI, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
        RulesetStatus,
    };
    use workrail_model::evidence::Confinement;

    /// All write rights of this ABI version; older kernels enforce those they know.
    const RIGHTS: ABI = ABI::V3;

    /// Confines this thread and everything it starts from now on.
    pub(in super::super) fn confine(writable: &[Utf8PathBuf]) -> Confinement {
        match restricted(writable) {
            Ok(RulesetStatus::FullyEnforced) => Confinement::Full,
            Ok(RulesetStatus::PartiallyEnforced) => Confinement::Partial,
            Ok(RulesetStatus::NotEnforced) | Err(_) => Confinement::None,
        }
    }

    fn restricted(writable: &[Utf8PathBuf]) -> Result<RulesetStatus, RulesetError> {
        let write = AccessFs::from_write(RIGHTS);
        let mut rules = Ruleset::default().handle_access(write)?.create()?;
        for path in writable {
            // A path that does not exist needs no rule.
            let Ok(opened) = PathFd::new(path) else { continue };
            let rights = if path.is_dir() { write } else { write & AccessFs::from_file(RIGHTS) };
            rules = rules.add_rule(PathBeneath::new(opened, rights))?;
        }
        Ok(rules.restrict_self()?.ruleset)
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) mod kernel {
    use camino::Utf8PathBuf;
    use workrail_model::evidence::Confinement;

    pub(in super::super) fn confine(_writable: &[Utf8PathBuf]) -> Confinement {
        Confinement::None
    }
}
