//! An isolated home for the program: folders, environment, user and limits.
//!
//! Every test starts the program through a home, so that none sees the developer's settings, workflows and sessions:
//! the environment is cleared, and everything that the program looks for is beneath one folder.
//!
//! Root may read and write everything, so permission tests prove nothing as root. When the tests run as root, every
//! command of a home for [`User::find`] runs as the user `nobody` instead. Such a command is killed if it hangs, and
//! fails if it needs too much memory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use workrail_model::shell;

use crate::git;
use crate::mcp_client::{FailedStart, McpClient};

/// The user and group `nobody` on every Linux.
pub const NOBODY: u32 = 65_534;
/// A command that takes longer is considered hung.
const SECONDS_MAX: &str = "60";
/// The same for a command at a terminal, which waits for its input to end.
const TYPED_MAX: Duration = Duration::from_secs(120);
/// The limit on a command's private memory; an idle server needs a few MB.
const DATA_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The user that the program runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The user who runs the tests.
    Ourselves,
    /// The tests run as root; commands run as `nobody`.
    Nobody,
    /// The tests run as root and cannot switch to another user.
    OnlyRoot,
}

impl User {
    /// Finds out which user is available on this machine.
    pub fn find() -> Self {
        let me = fs::metadata("/proc/self").map(|process| process.uid());
        if me.is_ok_and(|user| user != 0) {
            return Self::Ourselves;
        }
        let mut other = Command::new("setpriv");
        other.args(as_nobody()).arg("true").stderr(Stdio::null());
        if other.status().is_ok_and(|status| status.success()) { Self::Nobody } else { Self::OnlyRoot }
    }

    /// Whether file permissions apply to this user.
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

/// The program, or a copy of it if the user cannot reach it: a checkout in root's own folder is closed to others. All
/// tests of a build share the copy.
fn reachable(program: &Path, user: User) -> PathBuf {
    let can_start = |path: &Path| {
        let mut asked = Command::new("setpriv");
        asked.args(as_nobody()).arg("test").arg("-x").arg(path);
        asked.status().is_ok_and(|status| status.success())
    };
    if user != User::Nobody || can_start(program) {
        return program.to_owned();
    }
    let built = fs::metadata(program).expect("the program was built");
    let name = format!("workrail-under-test-{}-{}-{}", built.ino(), built.mtime(), built.mtime_nsec());
    let folder = std::env::temp_dir().join(name);
    if !folder.exists() {
        let new = TempDir::new().expect("a folder can be made");
        fs::set_permissions(new.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        fs::copy(program, new.path().join("workrail")).expect("the program can be copied");
        // Another test may have been faster, with the same bytes; then this copy is removed.
        if fs::rename(new.path(), &folder).is_ok() {
            let _ = new.keep();
        }
    }
    folder.join("workrail")
}

/// How a command ended, and what it printed.
#[derive(Debug)]
pub struct CommandRun {
    /// A killed command has the exit code that a shell would show.
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Types a line, and reads what the terminal shows until the command ends.
fn typed_into(mut terminal: Child, line: &str) -> CommandRun {
    let mut keyboard = terminal.stdin.take().expect("stdin is piped");
    writeln!(keyboard, "{line}").expect("the command reads");
    let (sender, ended) = mpsc::channel();
    // The receiver may have given up.
    thread::spawn(move || drop(sender.send(terminal.wait_with_output())));
    // At the end of its input, `script` waits for two seconds, so the keyboard stays until the command has ended.
    let output = ended.recv_timeout(TYPED_MAX).expect("the command ends after one line");
    drop(keyboard);
    CommandRun::from_output(output.expect("the command can be waited for"))
}

impl CommandRun {
    fn from_output(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code().unwrap_or(137), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The one JSON document that it printed.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Whether commands are stopped when they take too long or too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandLimits {
    /// The started process is the program itself.
    Unlimited,
    TimeAndMemory,
}

/// One home: `home`, `data`, `workflows` and `project` beneath a root.
#[derive(Clone, Debug)]
pub struct Home {
    program: PathBuf,
    root: PathBuf,
    user: User,
    limits: CommandLimits,
    /// The whole environment of every command.
    variables: BTreeMap<String, OsString>,
    /// Shared by an owning home and all homes derived from it; removed with the last of them.
    folder: Option<Arc<TempDir>>,
}

impl Home {
    /// A home in its own temporary folder, for the user who runs the tests, without limits.
    pub fn new(program: impl AsRef<Path>) -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        // Lets another user reach the files that are given to them.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("the folder is ours");
        let root = folder.path().join("root");
        let mut home = Self::create(program.as_ref(), &root, User::Ourselves);
        home.limits = CommandLimits::Unlimited;
        home.folder = Some(Arc::new(folder));
        home
    }

    /// Makes the folders beneath a root that the caller owns.
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
        let variables = [
            // Not the caller's PATH: a WorkRail installed there is not the one under test.
            ("PATH", OsString::from("/usr/bin:/bin")),
            ("HOME", root.join("home").into()),
            ("WORKRAIL_DATA_DIR", root.join("data").into()),
            ("WORKFLOW_STORAGE_PATH", root.join("workflows").into()),
            ("CLAUDE_PROJECT_DIR", root.join("project").into()),
            // A pager would wait for a user.
            ("PAGER", OsString::new()),
        ];
        Self {
            program: reachable(program, user),
            root: root.to_owned(),
            user,
            limits: CommandLimits::TimeAndMemory,
            variables: variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            folder: None,
        }
    }

    /// The same home with an additional environment variable.
    pub fn with(&self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut home = self.clone();
        home.variables.insert(name.to_owned(), value.as_ref().to_owned());
        home
    }

    /// The same home without one of its environment variables.
    pub fn without(&self, name: &str) -> Self {
        let mut home = self.clone();
        assert!(home.variables.remove(name).is_some(), "{name} is not set");
        home
    }

    /// The whole environment of its commands.
    pub fn variables(&self) -> &BTreeMap<String, OsString> {
        &self.variables
    }

    /// The same home with another data directory.
    pub fn with_data(&self, data: &Path) -> Self {
        self.with("WORKRAIL_DATA_DIR", data)
    }

    /// The same home, with everything owned by the user who runs its commands.
    pub fn given_to(&self, user: User) -> Self {
        let home = Self { user, program: reachable(&self.program, user), ..self.clone() };
        if user == User::Nobody {
            let mut give = Command::new("chown");
            give.arg("-R").arg(format!("{NOBODY}:{NOBODY}")).arg(&self.root);
            assert!(give.status().is_ok_and(|status| status.success()), "root may give files away");
        }
        home
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub fn data(&self) -> PathBuf {
        PathBuf::from(&self.variables["WORKRAIL_DATA_DIR"])
    }

    pub fn workflows(&self) -> PathBuf {
        self.root.join("workflows")
    }

    pub fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// The user's settings file, which need not exist.
    pub fn config(&self) -> PathBuf {
        self.home().join(".config/workrail/config.toml")
    }

    pub fn user(&self) -> User {
        self.user
    }

    /// Gives a file or folder to the user who runs the program.
    pub fn give(&self, path: &Path) {
        if self.user == User::Nobody {
            std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).expect("root may give files away");
        }
    }

    /// Writes a file owned by the user, creating its parent folders.
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

    /// Adds a workflow to the workflows folder, in a file named after its id.
    pub fn workflow(&self, workflow: &Value) {
        let id = workflow["id"].as_str().expect("a workflow has an id");
        let text = serde_json::to_string_pretty(workflow).expect("a value can be written");
        self.write(&self.workflows().join(format!("{id}.json")), &text);
    }

    /// Writes `team.gated`, whose first step needs an approval.
    pub fn gated_workflow(&self) {
        self.workflow(&serde_json::json!({
            "id": "team.gated", "name": "Gated", "description": "Waits for a person.", "version": "1.0.0",
            "steps": [
                { "id": "a", "title": "A", "prompt": "Do a.", "requireConfirmation": { "kind": "human_approval" } },
                { "id": "b", "title": "B", "prompt": "Do b." },
            ],
        }));
    }

    /// Writes `team.asking`, whose first step needs an answer: `targetBranch`.
    pub fn asking_workflow(&self) {
        self.workflow(&serde_json::json!({
            "id": "team.asking", "name": "Asking", "description": "Asks a person.", "version": "1.0.0",
            "steps": [
                { "id": "a", "title": "A", "prompt": "Do a.", "userDependencies": [{
                    "reason": "needs_user_choice", "choiceKind": "scope_boundary",
                    "description": "Which branch is released?", "contextKey": "targetBranch" }] },
                { "id": "b", "title": "B", "prompt": "Do b." },
            ],
        }));
    }

    /// A copy of everything, including owners, permissions and links.
    pub fn copy_to(&self, root: &Path) -> Self {
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(&self.root).arg(root);
        assert!(copy.status().is_ok_and(|status| status.success()), "cp copies {}", self.root.display());
        Self { limits: self.limits, ..Self::existing(&self.program, root, self.user) }
    }

    /// A command of the program, as this home's user, with its environment and limits.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_in(&[], arguments)
    }

    /// Runs `wrapper program arguments` the same way.
    pub fn command_in(&self, wrapper: &[&str], arguments: &[&str]) -> Command {
        let mut words = self.user_words();
        if self.limits == CommandLimits::TimeAndMemory {
            words.extend(["timeout", "--signal=KILL", SECONDS_MAX, "prlimit"].map(OsString::from));
            words.push(format!("--data={DATA_BYTES_MAX}").into());
        }
        words.extend(wrapper.iter().map(OsString::from));
        words.push(self.program.clone().into());
        words.extend(arguments.iter().map(OsString::from));
        self.prepared(&words)
    }

    /// The prefix that runs a command as this home's user.
    fn user_words(&self) -> Vec<OsString> {
        match self.user {
            User::Nobody => {
                ["setpriv".to_owned()].into_iter().chain(as_nobody()).map(OsString::from).collect()
            }
            User::Ourselves | User::OnlyRoot => Vec::new(),
        }
    }

    fn prepared(&self, words: &[OsString]) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear().envs(&self.variables).current_dir(self.project());
        command
    }

    /// Runs a command to its end, with no standard input.
    pub fn run(&self, arguments: &[&str]) -> CommandRun {
        self.run_in(&[], arguments)
    }

    pub fn run_in(&self, wrapper: &[&str], arguments: &[&str]) -> CommandRun {
        let output = self.command_in(wrapper, arguments).stdin(Stdio::null()).output();
        CommandRun::from_output(output.expect("the command starts"))
    }

    /// Runs a command with these bytes on its standard input, which it need not read.
    pub fn fed_in(&self, wrapper: &[&str], arguments: &[&str], input: &[u8]) -> CommandRun {
        let mut command = self.command_in(wrapper, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let mut keyboard = child.stdin.take().expect("stdin is piped");
        let _ = keyboard.write_all(input);
        drop(keyboard);
        CommandRun::from_output(child.wait_with_output().expect("the command ends"))
    }

    /// Runs a command with additional environment variables.
    pub fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> CommandRun {
        let more = variables.iter().fold(self.clone(), |home, (name, value)| home.with(name, value));
        more.run(arguments)
    }

    /// Runs a command that must succeed.
    pub fn done(&self, arguments: &[&str]) -> CommandRun {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran
    }

    /// Runs git in a folder as this home's user, which must succeed, and returns what it printed. It sees no
    /// configuration but the home's own.
    pub fn git(&self, folder: &Path, words: &[&str]) -> String {
        git::finished(git::command(&self.user_words(), &self.home(), folder, words), b"")
    }

    /// The events of one kind in the log of a run, oldest first.
    pub fn events(&self, run: &str, kind: &str) -> Vec<Value> {
        let log = self.done(&["log", run, "--json"]).json();
        let events = log["events"].as_array().expect("a log has events").iter();
        events.filter(|event| event["kind"] == kind).cloned().collect()
    }

    /// Runs a command at a terminal and types a line into it; the output is what the terminal showed.
    pub fn typed(&self, arguments: &[&str], line: &str) -> CommandRun {
        typed_into(self.at_a_terminal(arguments), line)
    }

    /// Like `typed`, with the command's standard output in a file: `err` is what the terminal shows.
    pub fn typed_with_output_in_file(&self, arguments: &[&str], line: &str) -> CommandRun {
        let file = self.home().join("output");
        let terminal = self.at_a_terminal_with(arguments, &format!(" >'{}'", file.display()));
        let shown = typed_into(terminal, line);
        let out = fs::read_to_string(&file).expect("the shell made the file");
        CommandRun { err: shown.out, out, ..shown }
    }

    /// Starts a command at a terminal: its keyboard is the child's standard input, its screen the standard output.
    pub fn at_a_terminal(&self, arguments: &[&str]) -> Child {
        self.at_a_terminal_with(arguments, "")
    }

    fn at_a_terminal_with(&self, arguments: &[&str], redirections: &str) -> Child {
        let program = self.program.to_str().expect("the program's path is UTF-8");
        let mut whole = self.user_words();
        // No echo: it could come before or after the question.
        let script = ["script", "--quiet", "--return", "--echo", "never", "--command"];
        // A run of the tests in the background of a shell ignores Ctrl-C, and everything that it starts does.
        let options = ["env", "--default-signal=INT"].into_iter().chain(script);
        whole.extend(options.map(OsString::from));
        // `exec` replaces the shell, which would receive every Ctrl-C as well.
        let line = format!("exec {}{redirections}", shell::line([program].iter().chain(arguments)));
        whole.extend([line, "/dev/null".to_owned()].map(OsString::from));
        let mut command = self.prepared(&whole);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("`script` makes a terminal")
    }

    /// A client of a new server, which must start.
    pub fn client(&self) -> McpClient {
        let mut command = self.command(&["mcp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        McpClient::from_command(command).expect("the server starts")
    }

    /// Starts a server and completes the handshake.
    pub fn server(&self) -> Result<McpClient, FailedStart> {
        self.server_in(&[])
    }

    pub fn server_in(&self, wrapper: &[&str]) -> Result<McpClient, FailedStart> {
        let mut command = self.command_in(wrapper, &["mcp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        McpClient::from_command(command)
    }
}
