//! Where workflows come from: inside the binary, plugins, the user's folder, named folders, git repositories,
//! the workspace (G90).
//!
//! Files are passed on as found. Whether one is valid, and which owns an id, is decided elsewhere.

mod bundled;
mod change_feed;
mod exchangeable;
mod git;
mod health;
mod locate;
mod plugin;
mod refresh;
mod replace;
mod walk;
mod watch;

use std::sync::Arc;

pub use bundled::{bundled, is_bundled};
pub use exchangeable::ExchangeableSources;
pub use git::{Mirror, MirrorState, SyncError, Synced};
pub use health::{GitReport, SourceReport, SourceState};
pub use plugin::{ManifestProblem, plugin_name};
pub use refresh::refresh_in_background;
pub use replace::{ReplaceError, replace, test_script, write_named};

use camino::{Utf8Path, Utf8PathBuf};
use workrail_model::compiled::ReferenceDeclaration;
use workrail_model::config::{GitSources, Key, Settings};
use workrail_model::discovery::Precedence;
use workrail_model::limits::WORKFLOW_SOURCE_BYTES_MAX;
use workrail_ports::workflow_source::{
    BindingsFile, CandidateFile, ListingId, Located, ProblemScope, SourceError, SourceFile, SourceListing,
    SourceProblem, WorkflowFileStamp, WorkflowSource,
};
use workrail_ports::workspace::WorkspacePath;

use crate::bounded;
use crate::data_dir::data_dir;
use walk::{FolderWalk, Root};
use watch::{FolderWatch, ListingIdentity, Walked};

/// Where a workspace keeps its bindings.
const BINDINGS: &str = ".workrail/bindings.json";
/// Where a workspace keeps its workflows; the later one wins.
const PROJECT_FOLDERS: [&str; 2] = ["workflows", ".workrail/workflows"];
/// Where users keep their workflows, beneath the home directory.
const USER_FOLDER: &str = ".workrail/workflows";

#[derive(Clone, Debug, Default)]
pub struct Sources {
    user: Option<Utf8PathBuf>,
    /// Later ones win.
    custom: Vec<Utf8PathBuf>,
    plugins: Vec<Utf8PathBuf>,
    git: Vec<Mirror>,
    /// Only present in a process that answers many calls.
    watch: Option<Arc<FolderWatch>>,
}

/// A location to search.
#[derive(Clone, Debug)]
enum SourceLocation {
    Folder(Root),
    Plugin { position: usize, folder: Utf8PathBuf },
    Git(Mirror),
}

impl Sources {
    /// `home` is the user's home directory, `custom` the folders named by the user.
    pub fn new(home: Option<&Utf8Path>, custom: Vec<Utf8PathBuf>) -> Self {
        Self { user: home.map(|home| home.join(USER_FOLDER)), custom, ..Self::default() }
    }

    /// The home directory and the folders registered in the settings; a relative folder is relative to the process's
    /// working directory.
    pub fn from_settings(settings: &Settings) -> Self {
        let utf8 = |path| Utf8PathBuf::from_path_buf(path).ok();
        let here = std::env::current_dir().ok().and_then(utf8).unwrap_or_default();
        let folders = |key: Key| settings.list(key).iter().map(|path| here.join(path)).collect();
        let sources = Self::new(std::env::home_dir().and_then(utf8).as_deref(), folders(Key::SourcePaths));
        let sources = sources.with_plugins(folders(Key::SourcePlugins));
        match data_dir(settings) {
            Ok(data) => sources.with_git(&settings.git_sources(), &data),
            // Without a data directory nothing works, and every other call reports that.
            Err(_) => sources,
        }
    }

    pub fn with_plugins(self, plugins: Vec<Utf8PathBuf>) -> Self {
        Self { plugins, ..self }
    }

    /// `data` is the data directory, where fetched repositories are stored.
    pub fn with_git(self, git: &GitSources, data: &Utf8Path) -> Self {
        let git = git.iter().enumerate();
        let git = git.map(|(position, (name, source))| Mirror::new(name, source, position, data)).collect();
        Self { git, ..self }
    }

    /// For a process that answers many calls: folders are walked only after they changed.
    pub fn watched(self) -> Self {
        self.watched_up_to(watch::FOLDERS_MAX)
    }

    /// The same with another limit on watched folders; beyond it they are walked on every call.
    pub fn watched_up_to(self, folders_max: usize) -> Self {
        Self { watch: Some(Arc::new(FolderWatch::new(folders_max))), ..self }
    }

    /// The git repositories that are registered.
    pub fn mirrors(&self) -> &[Mirror] {
        &self.git
    }

    /// By precedence, and within one in order of registration.
    fn locations(&self, workspace: Option<&WorkspacePath>) -> Vec<SourceLocation> {
        let mut locations = Vec::new();
        let plugins = self.plugins.iter().enumerate();
        locations.extend(
            plugins.map(|(position, folder)| SourceLocation::Plugin { position, folder: folder.clone() }),
        );
        if let Some(user) = &self.user {
            locations.push(SourceLocation::Folder(Root::user(user)));
        }
        let custom = self.custom.iter().enumerate();
        locations.extend(custom.map(|(position, path)| SourceLocation::Folder(Root::custom(position, path))));
        locations.extend(self.git.iter().cloned().map(SourceLocation::Git));
        if let Some(workspace) = workspace {
            let workspace = Utf8Path::new(workspace.as_str());
            let folders = PROJECT_FOLDERS.iter().enumerate();
            // In the home directory, the project's folder is the user's own folder and counts as the user's.
            let folders = folders.filter(|(_, name)| self.user.as_ref() != Some(&workspace.join(name)));
            locations
                .extend(folders.map(|(position, name)| {
                    SourceLocation::Folder(Root::project(position, workspace, name))
                }));
        }
        locations
    }

    fn walked(&self, workspace: Option<&WorkspacePath>) -> Walked {
        let mut listing = SourceListing::default();
        for (name, content) in bundled::ALL {
            listing.files.push(CandidateFile {
                precedence: Precedence::Bundled,
                folder_position: 0,
                reference: (*name).to_owned(),
                location: format!("{}{name}", bundled::LOCATION_PREFIX),
                package: None,
                // Content inside the binary never changes.
                stamp: Some(WorkflowFileStamp([content.len() as u64, 0, 0, 0])),
            });
        }
        if let Some(path) = workspace.filter(|path| !Utf8Path::new(path.as_str()).is_dir()) {
            let text = "the workspace is not a readable folder".to_owned();
            let fix = "send the absolute path of the folder you work in as `workspacePath`";
            listing.problems.push(problem(Precedence::Project, path.as_str(), text, fix));
        }
        let mut walk = FolderWalk::new(&mut listing);
        for location in self.locations(workspace) {
            match location {
                SourceLocation::Folder(root) => {
                    walk.root(&root);
                }
                SourceLocation::Plugin { position, folder } => {
                    plugin::walk(&mut walk, position, &folder);
                }
                SourceLocation::Git(mirror) => mirror.list_into(walk.listing()),
            }
        }
        let folders = std::mem::take(&mut walk.folders);
        let completeness = walk.completeness;
        Walked { listing, folders, completeness }
    }

    /// The identity of the folders themselves; their content is watched.
    fn identity(&self, workspace: Option<&WorkspacePath>) -> ListingIdentity {
        let mut parts: Vec<Utf8PathBuf> = workspace.map(|path| path.as_str().into()).into_iter().collect();
        for location in self.locations(workspace) {
            match location {
                SourceLocation::Folder(root) => parts.extend(root.parts()),
                SourceLocation::Plugin { folder, .. } => parts.push(folder),
                SourceLocation::Git(mirror) => parts.push(mirror.watched_file()),
            }
        }
        parts.iter().map(|part| watch::identity(part)).collect()
    }
}

impl WorkflowSource for Sources {
    fn list(&self, workspace: Option<&WorkspacePath>) -> SourceListing {
        match &self.watch {
            None => self.walked(workspace).listing,
            Some(watch) => watch.list(key(workspace), || self.identity(workspace), || self.walked(workspace)),
        }
    }

    fn unchanged_listing(&self, workspace: Option<&WorkspacePath>) -> Option<ListingId> {
        self.watch.as_ref()?.unchanged_listing(key(workspace), || self.identity(workspace))
    }

    fn read(&self, file: &CandidateFile) -> Result<Vec<u8>, SourceError> {
        if let Some(content) = bundled::content(&file.location) {
            return Ok(content.as_bytes().to_vec());
        }
        if let Some(read) = self.git.iter().find_map(|mirror| mirror.read(file)) {
            return read;
        }
        bounded::read(Utf8Path::new(&file.location), WORKFLOW_SOURCE_BYTES_MAX)
            .map_err(|error| unreadable(&file.reference, &error, error.to_string()))
    }

    fn bindings(&self, workspace: Option<&WorkspacePath>) -> Result<Option<BindingsFile>, SourceError> {
        let Some(workspace) = workspace else { return Ok(None) };
        let path = Utf8Path::new(workspace.as_str()).join(BINDINGS);
        match bounded::read(&path, WORKFLOW_SOURCE_BYTES_MAX) {
            Ok(bytes) => Ok(Some(BindingsFile { reference: BINDINGS.to_owned(), bytes })),
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(unreadable(BINDINGS, &error, error.to_string())),
        }
    }

    fn locate(
        &self,
        declaration: &ReferenceDeclaration,
        source: &SourceFile,
        workspace: Option<&WorkspacePath>,
    ) -> Located {
        locate::locate(declaration, source, workspace)
    }
}

/// The key of a workspace; an empty text for none, since no path is empty.
fn key(workspace: Option<&WorkspacePath>) -> &str {
    workspace.map_or("", WorkspacePath::as_str)
}

/// Records that something was found and cannot be used.
fn problem(precedence: Precedence, reference: &str, problem: String, fix: &str) -> SourceProblem {
    let (reference, fix) = (reference.to_owned(), fix.to_owned());
    SourceProblem { precedence, reference, problem, fix, scope: ProblemScope::Named }
}

/// A file that cannot be read, either at all or only now.
fn unreadable(reference: &str, error: &std::io::Error, detail: String) -> SourceError {
    let reference = reference.to_owned();
    if bounded::is_shortage(error) {
        SourceError::Interrupted { reference, detail: error.to_string() }
    } else {
        SourceError::Unreadable { reference, detail }
    }
}
