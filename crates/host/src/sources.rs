//! Where workflows come from: those inside the binary, and folders that the user names.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use workrail_model::event::WorkflowSourceKind;
use workrail_model::limits::WORKFLOW_SOURCE_BYTES_MAX;
use workrail_model::name::WorkflowId;
use workrail_ports::workflow_source::{SourceError, SourceFile, WorkflowSource};

/// The bundled workflows, by file name.
const BUNDLED: &[(&str, &str)] =
    &[("wr.small_change.json", include_str!("../../../workflows/wr.small_change.json"))];

/// Bundled workflows and folders; a later folder wins, a bundled `wr.` id is never shadowed.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    folders: Vec<Utf8PathBuf>,
    /// Where the work happens; its bindings are used.
    workspace: Option<Utf8PathBuf>,
}

/// Where a workspace keeps its bindings.
const BINDINGS: &str = ".workrail/bindings.json";

impl Sources {
    pub fn new(folders: Vec<Utf8PathBuf>, workspace: Option<Utf8PathBuf>) -> Self {
        Self { folders, workspace }
    }

    /// The folders named by `WORKFLOW_STORAGE_PATH`, and the process's own folder as the workspace.
    pub fn from_environment() -> Self {
        let folders = crate::env_vars::STORAGE_PATH.get().map_or_else(Vec::new, |value| {
            std::env::split_paths(&value).filter_map(|path| Utf8PathBuf::from_path_buf(path).ok()).collect()
        });
        let workspace = std::env::current_dir().ok().and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
        Self::new(folders, workspace)
    }

    /// Every file that can be read and names an id.
    fn index(&self) -> BTreeMap<WorkflowId, Found> {
        let mut index = BTreeMap::new();
        for (name, text) in BUNDLED {
            if let Some(id) = authored_id(text.as_bytes()) {
                index.insert(id, Found::Bundled { name, text });
            }
        }
        for folder in &self.folders {
            for path in json_files(folder) {
                let Some(bytes) = read_bounded(&path) else { continue };
                let Some(id) = authored_id(&bytes) else { continue };
                if id.namespace() != Some("wr") {
                    index.insert(id, Found::File { folder: folder.clone(), path });
                }
            }
        }
        index
    }
}

#[derive(Debug)]
enum Found {
    Bundled { name: &'static str, text: &'static str },
    File { folder: Utf8PathBuf, path: Utf8PathBuf },
}

impl WorkflowSource for Sources {
    fn load(&self, id: &WorkflowId) -> Result<SourceFile, SourceError> {
        let mut index = self.index();
        match index.remove(id) {
            None => Err(SourceError::NotFound { id: id.clone(), known: index.into_keys().collect() }),
            Some(Found::Bundled { name, text }) => Ok(SourceFile {
                kind: WorkflowSourceKind::Bundled,
                reference: name.to_owned(),
                bytes: text.as_bytes().to_vec(),
            }),
            Some(Found::File { folder, path }) => {
                let reference = path.strip_prefix(&folder).unwrap_or(&path).to_string();
                let bytes = read_bounded(&path).ok_or_else(|| SourceError::Unreadable {
                    reference: reference.clone(),
                    detail: "it vanished or is no longer readable".to_owned(),
                })?;
                Ok(SourceFile { kind: WorkflowSourceKind::User, reference, bytes })
            }
        }
    }

    fn bindings(&self) -> Result<Option<SourceFile>, SourceError> {
        let Some(path) = self.workspace.as_ref().map(|folder| folder.join(BINDINGS)) else { return Ok(None) };
        if !path.exists() {
            return Ok(None);
        }
        let reference = BINDINGS.to_owned();
        let bytes = read_bounded(&path).ok_or_else(|| SourceError::Unreadable {
            reference: reference.clone(),
            detail: format!("it is no readable regular file of at most {WORKFLOW_SOURCE_BYTES_MAX} bytes"),
        })?;
        Ok(Some(SourceFile { kind: WorkflowSourceKind::Project, reference, bytes }))
    }
}

fn json_files(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let Ok(entries) = folder.read_dir_utf8() else { return Vec::new() };
    let mut files: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path().to_owned())
        .filter(|path| path.extension() == Some("json"))
        .collect();
    files.sort();
    files
}

fn read_bounded(path: &Utf8Path) -> Option<Vec<u8>> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    let fits = metadata.is_file() && metadata.len() <= WORKFLOW_SOURCE_BYTES_MAX;
    fits.then(|| std::fs::read(path).ok()).flatten()
}

/// The `id` of a file, read leniently: whether the file is valid is the compiler's question.
fn authored_id(bytes: &[u8]) -> Option<WorkflowId> {
    #[derive(serde::Deserialize)]
    struct Head {
        id: String,
    }
    let head: Head = serde_json::from_slice(bytes).ok()?;
    WorkflowId::parse(&head.id).ok()
}
