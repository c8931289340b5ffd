//! Repositories in every state that git leaves them in, and in some that it does not.

use std::fs;

use super::*;

const SHA: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "89abcdef0123456789abcdef0123456789abcdef";

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> Utf8PathBuf {
        Utf8Path::from_path(self.folder.path()).unwrap().canonicalize_utf8().unwrap()
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Branch, commit and root hash of a folder below.
    fn observe(&self, below: &str) -> (Option<String>, Option<String>, Option<Sha256>) {
        let path = self.root().join(below);
        let observed = GitObserver::default().observe(&WorkspacePath::parse(path.as_str()).unwrap());
        let text = |key| match observed.values.get(&key) {
            Some(ObservationValue::ShortString(text)) => Some(text.to_string()),
            Some(ObservationValue::GitSha1(text)) => Some(text.to_string()),
            Some(ObservationValue::Sha256(_)) | None => None,
        };
        let root = match observed.values.get(&ObservationKey::RepoRootHash) {
            Some(ObservationValue::Sha256(digest)) => Some(*digest),
            Some(ObservationValue::ShortString(_) | ObservationValue::GitSha1(_)) | None => None,
        };
        (text(ObservationKey::GitBranch), text(ObservationKey::GitHeadSha), root)
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_branch_with_a_loose_ref_is_seen_from_any_depth() {
    let scene = Scene::new();
    scene.write(".git/HEAD", "ref: refs/heads/feature/x\n").write(".git/refs/heads/feature/x", SHA);
    fs::create_dir_all(scene.root().join("a/b")).unwrap();
    let root = Sha256::of(scene.root().as_str().as_bytes());
    for below in ["", "a/b"] {
        assert_eq!(scene.observe(below), (some("feature/x"), some(SHA), Some(root)));
    }
}

#[test]
fn a_packed_ref_is_found_and_a_loose_one_wins() {
    let scene = Scene::new();
    let packed = format!(
        "# pack-refs with: peeled fully-peeled sorted \n{OTHER} refs/heads/main-2\n^{OTHER}\n{SHA} refs/heads/main\n"
    );
    scene.write(".git/HEAD", "ref: refs/heads/main\n").write(".git/packed-refs", packed);
    assert_eq!(scene.observe("").1, some(SHA));
    scene.write(".git/refs/heads/main", format!("{OTHER}\n"));
    assert_eq!(scene.observe("").1, some(OTHER));
}

#[test]
fn a_detached_head_has_no_branch_and_an_unborn_branch_no_commit() {
    let scene = Scene::new();
    scene.write(".git/HEAD", format!("{SHA}\n"));
    assert_eq!((scene.observe("").0, scene.observe("").1), (None, some(SHA)));
    scene.write(".git/HEAD", "ref: refs/heads/main\n");
    assert_eq!((scene.observe("").0, scene.observe("").1), (some("main"), None));
}

#[test]
fn a_worktree_has_its_own_head_and_root_and_shares_the_refs() {
    let scene = Scene::new();
    scene
        .write("main/.git/HEAD", "ref: refs/heads/main\n")
        .write("main/.git/refs/heads/side", SHA)
        .write("main/.git/worktrees/side/HEAD", "ref: refs/heads/side\n")
        .write("main/.git/worktrees/side/commondir", "../..\n")
        .write("side/.git", format!("gitdir: {}/main/.git/worktrees/side\n", scene.root()));
    let root = Sha256::of(scene.root().join("side").as_str().as_bytes());
    assert_eq!(scene.observe("side"), (some("side"), some(SHA), Some(root)));
    // Relative, as git writes it for submodules.
    scene.write("side/.git", "gitdir: ../main/.git/worktrees/side\n");
    assert_eq!(scene.observe("side"), (some("side"), some(SHA), Some(root)));
}

#[test]
fn a_folder_that_is_not_a_repository_shows_nothing() {
    let scene = Scene::new();
    fs::create_dir_all(scene.root().join(".git")).unwrap();
    assert_eq!(scene.observe(""), (None, None, None));
    assert_eq!(scene.observe("missing"), (None, None, None));
}

#[test]
fn hostile_contents_are_left_out() {
    let long = format!("ref: refs/heads/{}\n", "a".repeat(81));
    let cases: [&[u8]; 11] = [
        b"ref: refs/heads/../../../../etc/passwd\n",
        b"ref: /etc/passwd\n",
        b"ref: refs/heads/.invalid\n",
        b"ref: refs/heads/a\x1b[31m\n",
        b"ref: refs/heads/a\0b\n",
        b"ref: refs/heads/a b\n",
        b"\xff\xfe",
        b"",
        long.as_bytes(),
        &[b'a'; 8192],
        b"0123456789ABCDEF0123456789ABCDEF01234567\n",
    ];
    for head in cases {
        let scene = Scene::new();
        scene.write(".git/HEAD", head);
        let (branch, commit, _) = scene.observe("");
        assert_eq!((branch, commit), (None, None), "{:?}", String::from_utf8_lossy(head));
    }
}

#[test]
fn a_name_at_the_limit_is_kept() {
    let scene = Scene::new();
    let name = "a".repeat(80);
    scene.write(".git/HEAD", format!("ref: refs/heads/{name}\n"));
    assert_eq!(scene.observe("").0, Some(name));
}

#[test]
fn links_pipes_and_refs_in_circles_do_not_hang() {
    let scene = Scene::new();
    scene.write(".git/HEAD", "ref: refs/heads/a\n").write(".git/refs/heads/a", "ref: refs/heads/b\n");
    scene.write(".git/refs/heads/b", "ref: refs/heads/a\n");
    assert_eq!((scene.observe("").0, scene.observe("").1), (some("a"), None));

    let piped = Scene::new();
    fs::create_dir_all(piped.root().join(".git")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let kind = rustix::fs::FileType::Fifo;
    let pipe = piped.root().join(".git/HEAD");
    rustix::fs::mknodat(rustix::fs::CWD, pipe.as_std_path(), kind, mode, 0).unwrap();
    let (branch, commit, _) = piped.observe("");
    assert_eq!((branch, commit), (None, None));

    let linked = Scene::new();
    fs::create_dir_all(linked.root().join(".git")).unwrap();
    std::os::unix::fs::symlink("HEAD", linked.root().join(".git/HEAD")).unwrap();
    let (branch, commit, _) = linked.observe("");
    assert_eq!((branch, commit), (None, None));
}

#[test]
fn the_clients_folder_wins_if_it_exists() {
    let scene = Scene::new();
    let root = scene.root();
    let here = Utf8Path::new("/here");
    let chosen = |claimed: Option<&str>| choose(claimed, Some(here)).map(|path| path.to_string());
    assert_eq!(chosen(Some(root.as_str())), Some(root.to_string()));
    for unusable in [None, Some("relative"), Some("/nowhere/at/all")] {
        assert_eq!(chosen(unusable), some("/here"));
    }
    assert_eq!(choose(None, None), None);
}

#[test]
fn the_folder_of_git_is_below_the_root_or_that_of_a_worktree() {
    let scene = Scene::new();
    scene.write("own/.git/HEAD", "ref: refs/heads/main\n");
    assert_eq!(git_folder(&scene.root().join("own")), Some(scene.root().join("own/.git")));
    scene.write("elsewhere/HEAD", "x").write("own/.git/commondir", "../../elsewhere\n");
    assert_eq!(git_folder(&scene.root().join("own")), None, "a file of the workspace names another folder");

    scene.write("main/.git/HEAD", "ref: refs/heads/main\n");
    scene.write("main/.git/worktrees/side/HEAD", "ref: refs/heads/side\n");
    scene.write("main/.git/worktrees/side/commondir", "../..\n");
    scene.write("side/.git", format!("gitdir: {}\n", scene.root().join("main/.git/worktrees/side")));
    assert_eq!(git_folder(&scene.root().join("side")), None, "the repository does not know the worktree");
    let back = format!("{}\n", scene.root().join("side/.git"));
    scene.write("main/.git/worktrees/side/gitdir", back);
    assert_eq!(git_folder(&scene.root().join("side")), Some(scene.root().join("main/.git")));
}
