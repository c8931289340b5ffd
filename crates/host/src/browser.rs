//! The user's own browser, used to show one of our pages or to print one to PDF without network (G1).
//!
//! Chromium or Chrome is found by its usual names and started directly, never through a shell, with a fresh
//! profile in a temporary folder that is removed afterwards. It resolves no host names, and is killed when it takes
//! too long.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::process::geteuid;

use crate::env_vars;
use crate::programs::is_program;
use crate::timed_run;

/// Printing takes a second or two; a browser that hangs is killed.
const TIME_MAX: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);

const NAMES: [&str; 7] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chrome",
    "microsoft-edge",
    "brave-browser",
];

/// Where installers put it if it is not on the path.
const USUAL_PATHS: [&str; 5] = [
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/opt/google/chrome/chrome",
    "/snap/bin/chromium",
    "/var/lib/flatpak/exports/bin/org.chromium.Chromium",
];

#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    #[error(
        "no Chromium or Chrome was found to print the PDF: install Chromium, name one in `{name}`, or use --format html and print it",
        name = env_vars::BROWSER.name
    )]
    NotFound,
    #[error("`{name}` names `{path}`, which is not a program", name = env_vars::BROWSER.name)]
    NotAProgram { path: String },
    #[error("`{browser}` did not print the page ({detail}): use --format html and print it")]
    Failed { browser: Utf8PathBuf, detail: String },
    #[error("the page cannot be handed to the browser: {0}")]
    Io(#[from] io::Error),
}

/// The program that opens a file with the user's preferred application.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Shows a file in the user's browser and does not wait for it.
pub fn open(page: &Path) -> io::Result<()> {
    let mut opener = Command::new(OPENER);
    opener.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = opener.spawn()?;
    thread::Builder::new().name("browser".to_owned()).spawn(move || {
        // Reaps the process so that no zombie is left behind.
        let _ = child.wait();
    })?;
    Ok(())
}

/// A browser that can print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browser {
    program: Utf8PathBuf,
}

impl Browser {
    /// The browser named by the user, else the first one found.
    pub fn find() -> Result<Self, BrowserError> {
        let path = std::env::var("PATH").unwrap_or_default();
        Self::choose(env_vars::BROWSER.get(), &path, &USUAL_PATHS, &is_program)
    }

    fn choose(
        named: Option<String>,
        path: &str,
        paths: &[&str],
        is_program: &dyn Fn(&Utf8Path) -> bool,
    ) -> Result<Self, BrowserError> {
        if let Some(named) = named {
            let program = Utf8PathBuf::from(&named);
            return if is_program(&program) {
                Ok(Self { program })
            } else {
                Err(BrowserError::NotAProgram { path: named })
            };
        }
        // A relative entry would find programs in the user's working folder.
        let folders = || path.split(':').map(Utf8Path::new).filter(|folder| folder.is_absolute());
        let on_path = NAMES.iter().flat_map(|name| folders().map(move |folder| folder.join(name)));
        let found = on_path.chain(paths.iter().map(Utf8PathBuf::from)).find(|program| is_program(program));
        found.map(|program| Self { program }).ok_or(BrowserError::NotFound)
    }

    /// Prints a page to PDF.
    pub fn print(&self, html: &str) -> Result<Vec<u8>, BrowserError> {
        let folder = tempfile::Builder::new().prefix("workrail-print-").tempdir()?;
        let failed = |detail: String| BrowserError::Failed { browser: self.program.clone(), detail };
        let root =
            Utf8Path::from_path(folder.path()).ok_or_else(|| failed("odd temporary folder".to_owned()))?;
        let (page, pdf) = (root.join("report.html"), root.join("report.pdf"));
        std::fs::write(&page, html)?;
        let mut child = self.command(root, &page, &pdf).spawn()?;
        let ended = wait(&mut child)?;
        match ended {
            BrowserExit::OutOfTime => Err(failed(format!("it took longer than {} s", TIME_MAX.as_secs()))),
            BrowserExit::By(status) => match std::fs::read(&pdf) {
                Ok(bytes) if bytes.starts_with(b"%PDF-") => Ok(bytes),
                Ok(_) | Err(_) => Err(failed(status)),
            },
        }
    }

    fn command(&self, root: &Utf8Path, page: &Utf8Path, pdf: &Utf8Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args([
                "--headless",
                "--disable-gpu",
                "--no-first-run",
                "--no-default-browser-check",
                "--mute-audio",
            ])
            .args(["--disable-extensions", "--disable-sync", "--disable-background-networking", "--no-pings"])
            .args(["--disable-component-update", "--disable-default-apps", "--disable-crash-reporter"])
            // No host name resolves, so nothing can be requested from the network.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND")
            .arg("--no-pdf-header-footer")
            .arg(format!("--user-data-dir={}", root.join("profile")))
            .arg(format!("--print-to-pdf={pdf}"));
        if geteuid().is_root() {
            // Chromium's sandbox refuses to start as root, which is usual in containers. The page is our own, without
            // scripts and without anything to load.
            command.arg("--no-sandbox");
        }
        command
            .arg(format!("file://{page}"))
            .current_dir(root)
            .env_clear()
            .env("HOME", root)
            .env("TMPDIR", root)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A separate process group, so that its helper processes end with it.
            .process_group(0);
        command
    }
}

enum BrowserExit {
    By(String),
    OutOfTime,
}

fn wait(child: &mut Child) -> io::Result<BrowserExit> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(BrowserExit::By(status.to_string()));
        }
        if since.elapsed() > TIME_MAX {
            timed_run::end(child);
            return Ok(BrowserExit::OutOfTime);
        }
        thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(named: Option<&str>, path: &str, there: &[&str]) -> Result<Browser, BrowserError> {
        let paths = ["/opt/google/chrome/chrome"];
        Browser::choose(named.map(str::to_owned), path, &paths, &|program| there.contains(&program.as_str()))
    }

    #[test]
    fn the_named_browser_wins_then_the_path_then_the_usual_places() {
        let all = ["/b/chromium", "/a/google-chrome", "/opt/google/chrome/chrome", "/mine"];
        assert_eq!(choose(Some("/mine"), "/a:/b", &all).unwrap().program, "/mine");
        assert_eq!(choose(None, "/a:/b", &all).unwrap().program, "/b/chromium");
        assert_eq!(choose(None, "/a", &all).unwrap().program, "/a/google-chrome");
        assert_eq!(choose(None, "", &all).unwrap().program, "/opt/google/chrome/chrome");
        assert!(matches!(choose(Some("/gone"), "/b", &all), Err(BrowserError::NotAProgram { .. })));
        assert!(matches!(choose(None, "relative", &["relative/chromium"]), Err(BrowserError::NotFound)));
    }

    #[test]
    fn a_program_that_prints_nothing_is_reported() {
        let browser = Browser { program: "/bin/true".into() };
        let error = browser.print("<p>").unwrap_err();
        assert!(error.to_string().contains("did not print the page (exit status: 0)"), "{error}");
    }
}
