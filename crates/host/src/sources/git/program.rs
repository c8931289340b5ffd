//! Runs the system's `git` so that nothing but the fetch itself can happen (G91).
//!
//! No configuration except ours and the user's credential helpers; no hooks, prompts, submodules or working tree;
//! limits on time, disk space and output. The whole process group ends with it.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use workrail_model::config::GitTransport;

use crate::timed_run::end;

/// Git's error output; only its end is shown.
const STDERR_BYTES_MAX: usize = 64 * 1024;
const SHOWN_BYTES_MAX: usize = 400;
/// How often to poll a running git.
const GLANCE: Duration = Duration::from_millis(10);
/// How long to wait for the end of the output, which a helper may keep open.
const DRAIN: Duration = Duration::from_secs(2);

/// Variables that git, ssh and credential helpers may see: where programs, keys and keyrings are, and proxy settings.
pub(super) const PASSED: [&str; 18] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "GNUPGHOME",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
];

const SETTINGS: [&str; 17] = [
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=",
    "protocol.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",
    "transfer.unpackLimit=1",
    "transfer.fsckObjects=true",
    "transfer.credentialsInUrl=die",
    "gc.auto=0",
    "maintenance.auto=false",
    // Gives up on a stalled server even if no process is left to end git.
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=30",
    "http.followRedirects=initial",
];

/// Why git failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum GitFailure {
    #[error("git is not installed, or not on the PATH")]
    NotInstalled,
    #[error("git did not end within {0} seconds and was stopped")]
    TooSlow(u64),
    #[error("the repository needs more than {} MiB on disk, so the fetch was stopped", .0 >> 20)]
    TooLarge(u64),
    #[error("git printed more than {0} bytes, so the repository has too many files")]
    TooMuch(usize),
    #[error("git says: {0}")]
    Failed(String),
    #[error("git could not be run: {0}")]
    Broken(String),
}

/// The caps of one run.
#[derive(Clone, Debug)]
pub(super) struct Caps {
    pub(super) time: Duration,
    pub(super) printed: usize,
    /// A folder and the total size its files may reach.
    pub(super) disk: Option<(Utf8PathBuf, u64)>,
}

/// Git on one bare repository, for one kind of transport.
#[derive(Clone, Debug)]
pub(super) struct Git {
    pub(super) repository: Utf8PathBuf,
    pub(super) transport: GitTransport,
    /// Settings about credentials, from the user's own configuration.
    pub(super) credentials: Vec<(String, String)>,
}

impl Git {
    fn protocol(&self) -> &'static str {
        match self.transport {
            GitTransport::Https => "https",
            GitTransport::Ssh => "ssh",
            GitTransport::Local => "file",
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.env_clear();
        for name in PASSED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", self.protocol())
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_LFS_SKIP_SMUDGE", "1")
            // There is no terminal to prompt on and no user to answer.
            .env("SSH_ASKPASS", "/bin/false")
            .env("SSH_ASKPASS_REQUIRE", "force");
        // First an empty helper, which resets any named before; never on the command line, which other users can see.
        let own = [("credential.helper", ""), ("credential.interactive", "false")];
        let given = self.credentials.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let settings: Vec<(&str, &str)> = own.into_iter().chain(given).collect();
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (index, (name, value)) in settings.into_iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{index}"), name)
                .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.args(["-c", &format!("protocol.{}.allow=always", self.protocol())]);
        command.arg(format!("--git-dir={}", self.repository)).args(arguments);
        command.current_dir("/").stdout(Stdio::piped()).stderr(Stdio::piped());
        // A separate process group, so that whatever git starts ends with it.
        command.process_group(0);
        command
    }

    /// Runs git to completion and returns its output.
    pub(super) fn run(
        &self,
        arguments: &[&str],
        input: Option<Vec<u8>>,
        caps: &Caps,
    ) -> Result<Vec<u8>, GitFailure> {
        let mut command = self.command(arguments);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn().map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                GitFailure::NotInstalled
            } else {
                GitFailure::Broken(error.to_string())
            }
        })?;
        let pipes = connect(&mut child, input, caps.printed + 1);
        let GitPipes { stdout, stderr, ended } = pipes.map_err(|error| {
            end(&mut child);
            GitFailure::Broken(error.to_string())
        })?;
        let status = watch(&mut child, caps)?;
        drained(&ended);
        let printed = taken(&stdout);
        if printed.len() > caps.printed {
            return Err(GitFailure::TooMuch(caps.printed));
        }
        if status.success() {
            return Ok(printed);
        }
        Err(GitFailure::Failed(reason(&taken(&stderr))))
    }
}

/// Waits for the process to end, and kills it when it exceeds a cap.
fn watch(child: &mut Child, caps: &Caps) -> Result<ExitStatus, GitFailure> {
    let since = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(error) => {
                end(child);
                return Err(GitFailure::Broken(error.to_string()));
            }
        }
        if since.elapsed() > caps.time {
            end(child);
            return Err(GitFailure::TooSlow(caps.time.as_secs()));
        }
        if let Some((folder, max)) = &caps.disk
            && disk_bytes(folder) > *max
        {
            end(child);
            return Err(GitFailure::TooLarge(*max));
        }
        thread::sleep(GLANCE);
    }
}

/// Total size of the files in a folder; packs are all in one folder.
pub(super) fn disk_bytes(folder: &Utf8Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}

type OutputBuffer = Arc<Mutex<Vec<u8>>>;

/// What git prints, read by threads.
struct GitPipes {
    stdout: OutputBuffer,
    stderr: OutputBuffer,
    /// Gets a message from each that has ended.
    ended: Receiver<()>,
}

/// Connects a git that was just started. Fails if the machine has no thread to spare.
fn connect(child: &mut Child, input: Option<Vec<u8>>, printed_max: usize) -> io::Result<GitPipes> {
    if let (Some(mut pipe), Some(bytes)) = (child.stdin.take(), input) {
        // On its own thread: git answers while it reads. A git that ends early closes the pipe.
        thread::Builder::new().spawn(move || drop(pipe.write_all(&bytes)))?;
    }
    let (finished, ended) = channel();
    let (stdout, stderr) = (OutputBuffer::default(), OutputBuffer::default());
    if let Some(pipe) = child.stdout.take() {
        collect(pipe, printed_max, &stdout, finished.clone())?;
    }
    if let Some(pipe) = child.stderr.take() {
        collect(pipe, STDERR_BYTES_MAX, &stderr, finished)?;
    }
    Ok(GitPipes { stdout, stderr, ended })
}

fn collect(
    mut pipe: impl Read + Send + 'static,
    max: usize,
    buffer: &OutputBuffer,
    finished: Sender<()>,
) -> io::Result<()> {
    let filled = Arc::clone(buffer);
    let work = move || {
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(read) = pipe.read(&mut chunk) {
            let mut buffer = filled.lock().unwrap_or_else(PoisonError::into_inner);
            let room = max - buffer.len();
            buffer.extend_from_slice(&chunk[..read.min(room)]);
            // Enough: closing the pipe ends git when it writes more.
            if read == 0 || read > room {
                break;
            }
        }
        let _ = finished.send(());
    };
    thread::Builder::new().spawn(work).map(|_| ())
}

fn drained(ended: &Receiver<()>) {
    let until = Instant::now() + DRAIN;
    for _ in 0..2 {
        if ended.recv_timeout(until.saturating_duration_since(Instant::now())).is_err() {
            return;
        }
    }
}

fn taken(buffer: &OutputBuffer) -> Vec<u8> {
    std::mem::take(&mut buffer.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The end of git's error output, as one line.
fn reason(errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(|line| line.chars().filter(|c| !c.is_control()).collect()).collect();
    let joined = lines.join("; ");
    if joined.is_empty() {
        return "nothing, and failed".to_owned();
    }
    let start = joined.ceil_char_boundary(joined.len().saturating_sub(SHOWN_BYTES_MAX));
    joined[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").process_group(0).spawn().expect("sleep is everywhere")
    }

    #[test]
    fn a_process_that_takes_too_long_is_killed() {
        let mut child = sleeper();
        let caps = Caps { time: Duration::from_millis(1), printed: 0, disk: None };
        assert_eq!(watch(&mut child, &caps), Err(GitFailure::TooSlow(0)));
        assert!(child.try_wait().is_ok_and(|ended| ended.is_some()), "it is gone, not left behind");
    }

    #[test]
    fn a_process_that_fills_the_disk_is_killed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("tmp_pack_x"), [0; 11]).expect("a file");
        let path = Utf8PathBuf::from_path_buf(folder.path().to_owned()).expect("UTF-8");
        let mut child = sleeper();
        let caps = Caps { time: Duration::from_secs(600), printed: 0, disk: Some((path, 10)) };
        assert_eq!(watch(&mut child, &caps), Err(GitFailure::TooLarge(10)));
        assert!(child.try_wait().is_ok_and(|ended| ended.is_some()));
    }

    #[test]
    fn git_sees_only_the_variables_it_needs() {
        let git = Git {
            repository: "/r".into(),
            transport: GitTransport::Https,
            credentials: vec![("credential.helper".to_owned(), "cache".to_owned())],
        };
        let command = git.command(&["fetch"]);
        let set = |name: &str| {
            let found = command.get_envs().find(|(other, _)| *other == name);
            found.and_then(|(_, value)| value).map(|value| value.to_string_lossy().into_owned())
        };
        assert_eq!(set("GIT_ALLOW_PROTOCOL").as_deref(), Some("https"));
        assert_eq!(set("GIT_CONFIG_GLOBAL").as_deref(), Some("/dev/null"));
        assert_eq!(set("GIT_CONFIG_NOSYSTEM").as_deref(), Some("1"));
        assert_eq!(set("GIT_TERMINAL_PROMPT").as_deref(), Some("0"));
        assert_eq!(set("GIT_SSH_COMMAND"), None);
        assert_eq!(set("GIT_CONFIG_COUNT").as_deref(), Some("3"));
        assert_eq!(
            set("GIT_CONFIG_VALUE_0").as_deref(),
            Some(""),
            "helpers of any other place are forgotten"
        );
        assert_eq!(set("GIT_CONFIG_VALUE_2").as_deref(), Some("cache"));
        let arguments: Vec<_> =
            command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
        for wanted in ["core.hooksPath=/dev/null", "protocol.allow=never", "protocol.https.allow=always"] {
            assert!(arguments.iter().any(|argument| argument == wanted), "{wanted}");
        }
        assert!(!arguments.iter().any(|argument| argument == "protocol.file.allow=always"));
    }

    #[test]
    fn a_reason_is_one_short_printable_line() {
        assert_eq!(reason(b"warning: a\x1b[31m\n\nfatal: b\n"), "warning: a[31m; fatal: b");
        assert_eq!(reason(b""), "nothing, and failed");
        assert!(reason(&vec![b'x'; 10_000]).len() <= SHOWN_BYTES_MAX);
    }
}
