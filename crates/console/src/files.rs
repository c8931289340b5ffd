//! Downloads: a session's bundle, and reports. They are made on request and never shown in the browser.

use maud::{Markup, html};
use strum::{EnumString, IntoStaticStr, VariantArray};
use workrail_engine::report::{Times, render_html, render_markdown};
use workrail_engine::{ExportFailure, SessionOrRun};
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::id::{RunId, SessionId};

use crate::state::Console;
use crate::use_cases::{EngineResult, refusal};

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, EnumString, VariantArray)]
#[strum(const_into_str)]
pub(crate) enum DownloadKind {
    #[strum(serialize = "bundle.json")]
    Bundle,
    #[strum(serialize = "report.html")]
    HtmlReport,
    #[strum(serialize = "report.md")]
    MarkdownReport,
    #[strum(serialize = "report.json")]
    JsonReport,
}

impl DownloadKind {
    fn title(self) -> &'static str {
        match self {
            Self::Bundle => "Export",
            Self::HtmlReport => "Report (HTML)",
            Self::MarkdownReport => "Markdown",
            Self::JsonReport => "JSON",
        }
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Bundle | Self::JsonReport => "application/json",
            Self::HtmlReport => "text/html; charset=utf-8",
            Self::MarkdownReport => "text/markdown; charset=utf-8",
        }
    }
}

/// Links to the files of a session, or of one of its runs.
pub(crate) fn downloads(session: SessionId, run: Option<RunId>) -> Markup {
    let address = |kind: DownloadKind| {
        let of_run = run.filter(|_| kind != DownloadKind::Bundle).map(|run| format!("?run={run}"));
        format!("/session/{session}/{}{}", kind.into_str(), of_run.unwrap_or_default())
    };
    html! {
        @for (index, kind) in DownloadKind::VARIANTS.iter().copied().enumerate() {
            @if index > 0 { " · " }
            a href=(address(kind)) { (kind.title()) }
        }
    }
}

/// The file and its name.
pub(crate) fn made(
    console: &Console,
    about: SessionOrRun,
    kind: DownloadKind,
) -> EngineResult<(Vec<u8>, String)> {
    let bytes = match kind {
        DownloadKind::Bundle => {
            let mut bytes = Vec::new();
            console.use_cases.export(about.session, &mut bytes).map_err(|failure| match failure {
                ExportFailure::Refused(error) => error,
                ExportFailure::Output(error) => unwritten(&error.to_string()),
            })?;
            bytes
        }
        DownloadKind::HtmlReport => render_html(&console.use_cases.report(about)?).into_bytes(),
        DownloadKind::MarkdownReport => {
            render_markdown(&console.use_cases.report(about)?, Times::UTC).into_bytes()
        }
        DownloadKind::JsonReport => {
            let report = console.use_cases.report(about)?;
            serde_json::to_vec_pretty(&report).map_err(|error| unwritten(&error.to_string()))?
        }
    };
    let id = about.run.map_or_else(|| about.session.to_string(), |run| run.to_string());
    Ok((bytes, format!("{id}.{}", kind.into_str())))
}

fn unwritten(detail: &str) -> Box<ErrorEnvelope> {
    let message = format!("The file cannot be made: {detail}.");
    refusal(ErrorCode::StoreIo, &message, "Try the command line: workrail session export, workrail report.")
}
