//! A home of its own for the program: folders, environment, an ordinary user and limits.
//!
//! Root may read and write everything, so permission cases prove nothing as root. When the tests run as root, every
//! command runs as the user `nobody` instead. A command that hangs is killed, and one that wants too much memory fails.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::Ran;
use crate::mcp_client::McpClient;

/// The user and group `nobody` on every Linux.
pub const NOBODY: u32 = 65_534;
/// A command that takes longer hangs.
const SECONDS_MAX: &str = "60";
/// Private memory of one command; an idle server takes a few MB.
const DATA_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Whom the program runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The user who runs the tests, who is not root.
    Ourselves,
    /// The tests run as root; commands run as `nobody`.
    Nobody,
    /// The tests run as root and cannot become anybody else.
    OnlyRoot,
}

impl User {
    /// Finds out who can be had on this machine.
    pub fn find() -> Self {
        let me = fs::metadata("/proc/self").map(|process| process.uid());
        if me.is_ok_and(|user| user != 0) {
            return Self::Ourselves;
        }
        let mut other = Command::new("setpriv");
        other.args(as_nobody()).arg("true").stderr(Stdio::null());
        if other.status().is_ok_and(|status| status.success()) { Self::Nobody } else { Self::OnlyRoot }
    }

    /// Whether a file without permissions is closed to this user.
    pub fn respects_permissions(self) -> bool {
        match self {
            Self::Ourselves | Self::Nobody => true,
            Self::OnlyRoot => false,
        }
    }
}

fn as_nobody() -> Vec<String> {
    let id = NOBODY.to_string();
    vec!["--reuid".to_owned(), id.clone(), "--regid".to_owned(), id, "--clear-groups".to_owned()]
}

/// One home: `home`, `data`, `workflows` and `project` beneath a root that the caller owns.
#[derive(Clone, Debug)]
pub struct Home {
    program: PathBuf,
    root: PathBuf,
    user: User,
}

impl Home {
    /// Makes the folders.
    pub fn create(program: &Path, root: &Path, user: User) -> Self {
        let home = Self::existing(program, root, user);
        for folder in [root.to_owned(), home.home(), home.data(), home.workflows(), home.project()] {
            fs::create_dir_all(&folder).expect("the folder can be made");
            home.give(&folder);
        }
        home
    }

    /// A home that was copied from another.
    pub fn existing(program: &Path, root: &Path, user: User) -> Self {
        Self { program: program.to_owned(), root: root.to_owned(), user }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub fn workflows(&self) -> PathBuf {
        self.root.join("workflows")
    }

    pub fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    pub fn user(&self) -> User {
        self.user
    }

    /// Makes a file or folder the property of the user who runs the program.
    pub fn give(&self, path: &Path) {
        if self.user == User::Nobody {
            std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).expect("root may give files away");
        }
    }

    /// Writes a file that belongs to the user, with the folders above it.
    pub fn write(&self, path: &Path, text: &str) {
        let folder = path.parent().expect("a file is in a folder");
        if !folder.exists() {
            fs::create_dir_all(folder).expect("the folder can be made");
            for above in folder.ancestors().take_while(|above| *above != self.root) {
                self.give(above);
            }
        }
        fs::write(path, text).expect("the file can be written");
        self.give(path);
    }

    /// A copy of all of it, owners, permissions and links included.
    pub fn copy_to(&self, root: &Path) -> Self {
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(&self.root).arg(root);
        assert!(copy.status().is_ok_and(|status| status.success()), "cp copies {}", self.root.display());
        Self::existing(&self.program, root, self.user)
    }

    /// `wrapper program arguments` as the user of this home, with its environment and its limits.
    pub fn command_in(&self, wrapper: &[&str], arguments: &[&str]) -> Command {
        let mut words: Vec<String> = Vec::new();
        if self.user == User::Nobody {
            words.push("setpriv".to_owned());
            words.extend(as_nobody());
        }
        words.extend(["timeout", "--signal=KILL", SECONDS_MAX].map(str::to_owned));
        words.extend(["prlimit".to_owned(), format!("--data={DATA_BYTES_MAX}")]);
        words.extend(wrapper.iter().map(|word| (*word).to_owned()));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(&self.program).args(arguments).env_clear();
        command
            // Not the caller's: a WorkRail installed there is not the one under test.
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home())
            .env("WORKRAIL_DATA_DIR", self.data())
            .env("WORKFLOW_STORAGE_PATH", self.workflows())
            .env("CLAUDE_PROJECT_DIR", self.project())
            .current_dir(self.project());
        command
    }

    /// Runs a command to its end; a killed one has the code that a shell would show.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_in(&[], arguments)
    }

    pub fn run_in(&self, wrapper: &[&str], arguments: &[&str]) -> Ran {
        let output = self.command_in(wrapper, arguments).stdin(Stdio::null()).output();
        let output = output.expect("the command starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran { code: output.status.code().unwrap_or(137), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Starts a server and completes the handshake; an error says how it ended.
    pub fn server(&self) -> Result<McpClient, String> {
        self.server_in(&[])
    }

    pub fn server_in(&self, wrapper: &[&str]) -> Result<McpClient, String> {
        let mut command = self.command_in(wrapper, &["mcp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        McpClient::from_command(command)
    }
}
