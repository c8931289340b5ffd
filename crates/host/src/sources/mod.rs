//! Where workflows come from: inside the binary, the user's folder, named folders, the workspace (G90).
//!
//! What is found is handed on as found. Whether it is valid, and who owns an id, is decided elsewhere.

mod bundled;
mod locate;
mod walk;

pub use bundled::{bundled, is_bundled};

use camino::{Utf8Path, Utf8PathBuf};
use workrail_model::compiled::ReferenceDeclaration;
use workrail_model::config::{Key, Settings};
use workrail_model::discovery::Precedence;
use workrail_model::limits::WORKFLOW_SOURCE_BYTES_MAX;
use workrail_ports::workflow_source::{
    BindingsFile, Candidate, Located, SourceError, SourceFile, SourceProblem, Stamp, Survey, WorkflowSource,
};
use workrail_ports::workspace::WorkspacePath;

use crate::bounded;
use walk::{Root, Walk};

/// Where a workspace keeps its bindings.
const BINDINGS: &str = ".workrail/bindings.json";
/// Where a workspace keeps its workflows; the later one wins.
const PROJECT_FOLDERS: [&str; 2] = ["workflows", ".workrail/workflows"];
/// Where a user keeps theirs, beneath the home directory.
const USER_FOLDER: &str = ".workrail/workflows";

#[derive(Clone, Debug, Default)]
pub struct Sources {
    user: Option<Utf8PathBuf>,
    /// Later ones win.
    custom: Vec<Utf8PathBuf>,
}

impl Sources {
    /// `home` is the user's home directory, `custom` the folders that the user names.
    pub fn new(home: Option<&Utf8Path>, custom: Vec<Utf8PathBuf>) -> Self {
        Self { user: home.map(|home| home.join(USER_FOLDER)), custom }
    }

    /// The home directory, and the folders that the settings name; a relative one stands beneath where the
    /// process was started.
    pub fn from_settings(settings: &Settings) -> Self {
        let utf8 = |path| Utf8PathBuf::from_path_buf(path).ok();
        let here = std::env::current_dir().ok().and_then(utf8).unwrap_or_default();
        let custom = settings.list(Key::SourcePaths).iter().map(|path| here.join(path)).collect();
        Self::new(std::env::home_dir().and_then(utf8).as_deref(), custom)
    }

    fn roots(&self, workspace: Option<&WorkspacePath>) -> Vec<Root> {
        let mut roots = Vec::new();
        if let Some(user) = &self.user {
            roots.push(Root::user(user));
        }
        roots.extend(self.custom.iter().enumerate().map(|(folder, path)| Root::custom(folder, path)));
        if let Some(workspace) = workspace {
            let workspace = Utf8Path::new(workspace.as_str());
            let folders = PROJECT_FOLDERS.iter().enumerate();
            // In the home directory the project's folder is the user's own, and stays the user's.
            let folders = folders.filter(|(_, name)| self.user.as_ref() != Some(&workspace.join(name)));
            roots.extend(folders.map(|(folder, name)| Root::project(folder, workspace, name)));
        }
        roots
    }
}

impl WorkflowSource for Sources {
    fn survey(&self, workspace: Option<&WorkspacePath>) -> Survey {
        let mut survey = Survey::default();
        for (name, content) in bundled::ALL {
            survey.files.push(Candidate {
                precedence: Precedence::Bundled,
                folder: 0,
                reference: (*name).to_owned(),
                place: format!("{}{name}", bundled::PLACE),
                package: None,
                // Inside the binary it never changes.
                stamp: Some(Stamp([content.len() as u64, 0, 0, 0])),
            });
        }
        if let Some(path) = workspace.filter(|path| !Utf8Path::new(path.as_str()).is_dir()) {
            let text = "the workspace is no folder that can be read".to_owned();
            let fix = "send the absolute path of the folder you work in as `workspacePath`";
            survey.problems.push(problem(Precedence::Project, path.as_str(), text, fix));
        }
        let mut walk = Walk::new(&mut survey);
        for root in self.roots(workspace) {
            walk.root(&root);
        }
        survey
    }

    fn read(&self, file: &Candidate) -> Result<Vec<u8>, SourceError> {
        if let Some(content) = bundled::content(&file.place) {
            return Ok(content.as_bytes().to_vec());
        }
        bounded::read(Utf8Path::new(&file.place), WORKFLOW_SOURCE_BYTES_MAX).map_err(|error| {
            SourceError::Unreadable { reference: file.reference.clone(), detail: error.to_string() }
        })
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
            Err(error) => {
                Err(SourceError::Unreadable { reference: BINDINGS.to_owned(), detail: error.to_string() })
            }
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

/// Says that something was found and cannot be used.
fn problem(precedence: Precedence, reference: &str, problem: String, fix: &str) -> SourceProblem {
    SourceProblem { precedence, reference: reference.to_owned(), problem, fix: fix.to_owned() }
}
