//! `workrail console`: serves the console to the browser of the user who runs this.

mod administration;

use std::io::{self, IsTerminal, Write as _, stdout};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use tempfile::NamedTempFile;
use workrail_console::{Environment, Secrets, open_address, router};
use workrail_host::browser;
use workrail_host::clock::SystemClock;
use workrail_host::data_dir::data_dir;
use workrail_host::entropy::OsEntropy;
use workrail_host::processes::{self, Process};
use workrail_host::sources::{ExchangeableSources, Sources};
use workrail_model::approval::{ApprovalChannel, ApprovalOrigin};
use workrail_model::config::Settings;
use workrail_model::keyring::HttpSecret;
use workrail_model::loopback::LoopbackAddress;
use workrail_model::time::Timestamp;
use workrail_ports::environment::{Clock, Entropy};

use crate::outcome::{self, Failure, Format, described};
use crate::wiring::{AnyEngine, EngineWithStore};
use crate::{output, presence, settings, version, wiring};

/// The usual port, unless it is taken: bookmarks keep working.
const USUAL_PORT: u16 = 4717;

/// Whether a browser is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrowserLaunch {
    Open,
    Leave,
}

impl BrowserLaunch {
    /// From the command's `--no-open` switch. Without a terminal no browser is expected.
    pub(crate) fn unless(no_open: bool) -> Self {
        if no_open || !stdout().is_terminal() { Self::Leave } else { Self::Open }
    }
}

pub(crate) fn run(port: Option<u16>, browser: BrowserLaunch) -> ExitCode {
    let served = match port {
        Some(port) => serve(port, browser),
        None => match serve(USUAL_PORT, browser) {
            Err(ConsoleFailure::PortTaken(_)) => serve(0, browser),
            served => served,
        },
    };
    let served = served.map_err(|unserved| match unserved {
        ConsoleFailure::PortTaken(error) => Failure::Environment(format!(
            "The port is taken: {error}. Choose another one with --port; 0 picks a free port."
        )),
        ConsoleFailure::Other(failure) => failure,
    });
    outcome::finish(served, Format::Text)
}

/// Why there is no console.
enum ConsoleFailure {
    PortTaken(io::Error),
    Other(Failure),
}

impl From<Failure> for ConsoleFailure {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

fn serve(port: u16, browser: BrowserLaunch) -> Result<(), ConsoleFailure> {
    let current = settings::current()?;
    let sources = Arc::new(ExchangeableSources::new(watched(&current.settings)));
    let EngineWithStore { engine, .. } = wiring::open_with(current, Arc::clone(&sources) as _)?;
    let engine = Arc::new(engine);
    let environment = Arc::new(ConsoleEnvironment {
        engine: Arc::clone(&engine),
        sources,
        ancestors_at_start: processes::ancestors(),
        saving: Mutex::new(()),
    });
    let secrets = Secrets { code: secret()?, cookie: secret()?, form_token: secret()? };
    let code = secrets.code.clone();
    // Removed when the console ends.
    let mut page = None;
    let served = workrail_mcp::http::serve_localhost(
        LoopbackAddress::of_port(port),
        |bound: SocketAddr, ending| {
            router(bound, secrets, engine, Arc::clone(&environment) as _, environment, ending)
        },
        |bound| page = announce(&open_address(bound.port(), code.reveal()), browser),
    );
    drop(page);
    served.map_err(|error| match error.kind() == io::ErrorKind::AddrInUse {
        true => ConsoleFailure::PortTaken(error),
        false => ConsoleFailure::Other(Failure::Environment(outcome::io_error_text(&error))),
    })
}

fn watched(settings: &Settings) -> Sources {
    Sources::from_settings(settings).watched()
}

fn secret() -> Result<HttpSecret, Failure> {
    fresh_secret().map_err(Failure::Environment)
}

pub(crate) fn fresh_secret() -> Result<HttpSecret, String> {
    let mut bytes = [0; 32];
    OsEntropy.fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(HttpSecret::new(bytes))
}

/// Prints the address and opens it in the browser.
fn announce(address: &str, browser: BrowserLaunch) -> Option<NamedTempFile> {
    output::line(&format!("Console: {address}"));
    output::notice("The address works once. Press Ctrl-C to stop the console.");
    match browser {
        BrowserLaunch::Leave => None,
        BrowserLaunch::Open => {
            let page = redirecting(address).ok()?;
            if browser::open(page.path()).is_err() {
                output::notice("No browser could be started. Open the address yourself.");
            } else {
                output::notice("If the browser shows an error, open the address yourself.");
            }
            Some(page)
        }
    }
}

/// A page that only this user can read and that redirects to the address: every user can see a program's arguments.
fn redirecting(address: &str) -> io::Result<NamedTempFile> {
    let mut page = tempfile::Builder::new().prefix("workrail-console-").suffix(".html").tempfile()?;
    let text = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={address}\">\
         <title>WorkRail</title><a href=\"{address}\">Open the console</a>\n"
    );
    page.write_all(text.as_bytes())?;
    page.flush()?;
    Ok(page)
}

/// What the console needs from this process.
struct ConsoleEnvironment {
    engine: Arc<AnyEngine>,
    /// Replaced when a source is added or removed here.
    sources: Arc<ExchangeableSources>,
    /// Its ancestor processes at startup; `None` if they could not be determined.
    ancestors_at_start: Option<Vec<Process>>,
    /// Held while a workflow's file is replaced.
    saving: Mutex<()>,
}

impl Environment for ConsoleEnvironment {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn secret(&self) -> Option<HttpSecret> {
        fresh_secret().ok()
    }

    fn decision_origin(&self) -> Result<ApprovalOrigin, String> {
        let above = self.ancestors_at_start.clone().zip(processes::ancestors());
        let above = above.map(|(then, now)| then.into_iter().chain(now).collect());
        let refusal = |starter: &str| {
            format!("this console was started from {starter}. Start it from a terminal of your own.")
        };
        let (requester, _) = presence::descent_among(&self.engine, above, refusal).map_err(failure_text)?;
        Ok(ApprovalOrigin {
            channel: ApprovalChannel::Console,
            descends_from_server: requester.descends_from_server,
        })
    }

    fn settings(&self) -> Result<Settings, String> {
        settings::fresh().map(|current| current.settings).map_err(failure_text)
    }

    fn data_dir(&self) -> String {
        let found = settings::current().ok().and_then(|current| data_dir(&current.settings).ok());
        found.map(|path| path.to_string()).unwrap_or_default()
    }

    fn version(&self) -> &str {
        version::LONG
    }

    fn notice(&self, text: &str) {
        output::notice(text);
    }
}

pub(crate) fn failure_text(failure: Failure) -> String {
    match failure {
        Failure::Usage(text) | Failure::Environment(text) => text,
        Failure::Refused(error) | Failure::Stopped(error) => described(&error),
        Failure::Problems => String::new(),
    }
}
