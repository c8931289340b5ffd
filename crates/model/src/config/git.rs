//! A git repository as a source of workflows: its settings, and which of them may be used (G91).
//!
//! The settings accept any text, so that one bad address does not stop everything else; `checked` decides
//! whether git is ever started with it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often a source is fetched by default.
pub const SYNC_HOURS_DEFAULT: u32 = 24;
/// Longer texts in a git source are not addresses.
pub(super) const TEXT_BYTES_MAX: usize = 2048;
const NAME_BYTES_MAX: usize = 64;
const REF_BYTES_MAX: usize = 255;

/// Sorted by name: a later one wins.
pub type GitSources = BTreeMap<String, GitSource>;

/// What is in the settings under `[sources.git.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitSource {
    /// Without any password: what looks like one is taken out before it gets here.
    pub url: String,
    /// A branch, a tag or a whole commit id; the repository's own default without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#ref: Option<String>,
    /// Where in the repository the workflows are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// 0: only on request.
    #[serde(default = "default_hours")]
    pub sync_hours: u32,
    /// Whether a repository on this machine may be named.
    #[serde(default)]
    pub allow_local: bool,
}

fn default_hours() -> u32 {
    SYNC_HOURS_DEFAULT
}

impl GitSource {
    pub const MEMBERS: [&'static str; 5] = ["url", "ref", "folder", "sync_hours", "allow_local"];

    pub fn new(url: &str) -> Self {
        let url = without_secret(url);
        Self { url, r#ref: None, folder: None, sync_hours: SYNC_HOURS_DEFAULT, allow_local: false }
    }

    /// The parts in the form that git may be given.
    pub fn checked(&self) -> Result<CheckedSource, GitProblem> {
        let url = GitUrl::parse(&self.url)?;
        if url.transport == GitTransport::Local && !self.allow_local {
            return Err(GitProblem::Local);
        }
        let git_ref = self.r#ref.as_deref().map_or(Ok(GitRef::default()), GitRef::parse)?;
        let folder = self.folder.as_deref().map_or(Ok(String::new()), folder)?;
        Ok(CheckedSource { url, git_ref, folder })
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        let mut members = serde_json::Map::new();
        members.insert("url".to_owned(), self.url.as_str().into());
        if let Some(git_ref) = &self.r#ref {
            members.insert("ref".to_owned(), git_ref.as_str().into());
        }
        if let Some(folder) = &self.folder {
            members.insert("folder".to_owned(), folder.as_str().into());
        }
        members.insert("sync_hours".to_owned(), self.sync_hours.into());
        members.insert("allow_local".to_owned(), self.allow_local.into());
        serde_json::Value::Object(members)
    }
}

/// Whether a text can name a source: names appear in settings, messages and file references.
pub fn is_source_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= NAME_BYTES_MAX
        && bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-')
}

/// A source that git may be started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedSource {
    pub url: GitUrl,
    pub git_ref: GitRef,
    /// Parts joined by `/`; empty for the whole repository.
    pub folder: String,
}

/// Why git is never started with a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GitProblem {
    #[error("the address is empty or longer than {TEXT_BYTES_MAX} bytes")]
    Length,
    #[error("the address holds a space, a control character or one outside ASCII")]
    Characters,
    #[error("the address starts with `-`, which git would take for an option")]
    Option,
    #[error("`::` in an address starts a helper program, which is never done")]
    Helper,
    #[error("the address holds a user name or password, and those do not belong in an address")]
    Credentials,
    #[error("only https and ssh are fetched from")]
    Transport,
    #[error("the host or user in the address is not one that git may be given")]
    Host,
    #[error("the address names no repository on its host")]
    Path,
    #[error("it is a repository on this machine, which is used only with `allow_local = true`")]
    Local,
    #[error("the ref is neither a branch, a tag nor a whole commit id")]
    Ref,
    #[error("the folder is not a path inside the repository")]
    Folder,
}

impl GitProblem {
    /// The next step.
    pub fn fix(self) -> &'static str {
        match self {
            Self::Length | Self::Characters | Self::Option | Self::Helper | Self::Host | Self::Path => {
                "use an address such as https://host/path.git or git@host:path.git"
            }
            Self::Credentials => "use https without a user name, or ssh with your key: git@host:path.git",
            Self::Transport => "use https:// or ssh://; for a repository on this machine, its absolute path",
            Self::Local => {
                "set `allow_local = true` for it if you trust everyone who can write to that repository"
            }
            Self::Ref => "name a branch or tag as `git branch` shows it, or all 40 or 64 digits of a commit",
            Self::Folder => "name it from the repository's root with `/` between parts, without `..`",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitTransport {
    Https,
    Ssh,
    /// A path on this machine.
    Local,
}

/// An address that git can be given as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitUrl {
    text: String,
    transport: GitTransport,
}

impl GitUrl {
    pub(crate) fn parse(text: &str) -> Result<Self, GitProblem> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return Err(GitProblem::Length);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(GitProblem::Characters);
        }
        if text.starts_with('-') {
            return Err(GitProblem::Option);
        }
        if text.contains("::") {
            return Err(GitProblem::Helper);
        }
        let transport = if let Some(rest) = text.strip_prefix("https://") {
            https(rest)?
        } else if let Some(rest) = text.strip_prefix("ssh://") {
            ssh(rest)?
        } else if let Some(path) = text.strip_prefix("file://") {
            local(path)?
        } else if text.contains("://") {
            return Err(GitProblem::Transport);
        } else if text.starts_with('/') {
            local(text)?
        } else {
            short_ssh(text)?
        };
        Ok(Self { text: text.to_owned(), transport })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn transport(&self) -> GitTransport {
        self.transport
    }
}

fn https(rest: &str) -> Result<GitTransport, GitProblem> {
    let (authority, path) = rest.split_once('/').ok_or(GitProblem::Path)?;
    if authority.contains('@') {
        return Err(GitProblem::Credentials);
    }
    // A query may contain a token, just like a password.
    if path.contains(['?', '#']) {
        return Err(GitProblem::Credentials);
    }
    host_and_port(authority)?;
    named(path)?;
    Ok(GitTransport::Https)
}

fn ssh(rest: &str) -> Result<GitTransport, GitProblem> {
    let (authority, path) = rest.split_once('/').ok_or(GitProblem::Path)?;
    let host = match authority.rsplit_once('@') {
        None => authority,
        Some((name, _)) if name.contains(':') => return Err(GitProblem::Credentials),
        Some((name, host)) => {
            user(name)?;
            host
        }
    };
    host_and_port(host)?;
    named(path)?;
    Ok(GitTransport::Ssh)
}

/// `user@host:path`, as shown by hosting sites.
fn short_ssh(text: &str) -> Result<GitTransport, GitProblem> {
    let (authority, path) = text.split_once(':').ok_or(GitProblem::Transport)?;
    let (name, host) = authority.split_once('@').ok_or(GitProblem::Transport)?;
    user(name)?;
    hostname(host)?;
    if path.contains('@') && !path.contains('/') {
        return Err(GitProblem::Credentials);
    }
    named(path)?;
    Ok(GitTransport::Ssh)
}

fn local(path: &str) -> Result<GitTransport, GitProblem> {
    if path.starts_with('/') { Ok(GitTransport::Local) } else { Err(GitProblem::Path) }
}

fn named(path: &str) -> Result<(), GitProblem> {
    let is_named = !path.trim_matches('/').is_empty() && !path.starts_with('-');
    if is_named { Ok(()) } else { Err(GitProblem::Path) }
}

fn user(name: &str) -> Result<(), GitProblem> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !name.is_empty() && !name.starts_with('-') && name.bytes().all(known) {
        Ok(())
    } else {
        Err(GitProblem::Host)
    }
}

fn host_and_port(text: &str) -> Result<(), GitProblem> {
    match text.rsplit_once(':') {
        None => hostname(text),
        Some((host, port)) => {
            hostname(host)?;
            port.parse::<u16>().map(drop).map_err(|_| GitProblem::Host)
        }
    }
}

fn hostname(host: &str) -> Result<(), GitProblem> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let is_host = !host.is_empty() && !host.starts_with(['-', '.']) && host.bytes().all(known);
    if is_host { Ok(()) } else { Err(GitProblem::Host) }
}

/// What is fetched: a branch, a tag, a commit, or the repository's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitRef(String);

impl Default for GitRef {
    fn default() -> Self {
        Self("HEAD".to_owned())
    }
}

impl GitRef {
    /// Names that git itself allows, restricted to plain ones.
    pub(crate) fn parse(text: &str) -> Result<Self, GitProblem> {
        let plain = |byte: u8| {
            byte.is_ascii_graphic() && !matches!(byte, b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\')
        };
        let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
        let is_ref = text.len() <= REF_BYTES_MAX
            && text.bytes().all(plain)
            && !text.starts_with(['-', '+', '@'])
            && !text.ends_with('.')
            && !text.contains("..")
            && !text.contains("@{")
            && text.split('/').all(part);
        if is_ref { Ok(Self(text.to_owned())) } else { Err(GitProblem::Ref) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a full commit id, which never changes its meaning.
    pub fn is_commit(&self) -> bool {
        matches!(self.0.len(), 40 | 64) && self.0.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

fn folder(text: &str) -> Result<String, GitProblem> {
    let text = text.strip_suffix('/').unwrap_or(text);
    if text.is_empty() || text == "." {
        return Ok(String::new());
    }
    let part =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.eq_ignore_ascii_case(".git");
    let is_folder =
        text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control) && text.split('/').all(part);
    if is_folder { Ok(text.to_owned()) } else { Err(GitProblem::Folder) }
}

/// The address without secrets: it is recorded and shown.
fn without_secret(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.find(['?', '#']).map_or(path.to_owned(), |at| format!("{}?***", &path[..at]));
    match authority.rsplit_once('@') {
        // A name alone is usual for ssh; anywhere else it may be a token.
        Some((name, _)) if scheme == "ssh" && !name.contains(':') => format!("{scheme}://{authority}{path}"),
        Some((_, host)) => format!("{scheme}://***:***@{host}{path}"),
        None => format!("{scheme}://{authority}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("https://host/a.git", Ok(GitTransport::Https))]
    #[test_case("https://host:8443/a/b", Ok(GitTransport::Https))]
    #[test_case("ssh://git@host:22/a.git", Ok(GitTransport::Ssh))]
    #[test_case("ssh://host/a.git", Ok(GitTransport::Ssh); "ssh without a user")]
    #[test_case("git@host:a/b.git", Ok(GitTransport::Ssh); "as hosting sites show it")]
    #[test_case("/srv/a.git", Ok(GitTransport::Local))]
    #[test_case("file:///srv/a.git", Ok(GitTransport::Local))]
    #[test_case("", Err(GitProblem::Length); "nothing")]
    #[test_case("ext::sh -c evil", Err(GitProblem::Characters); "a helper with spaces")]
    #[test_case("ext::sh", Err(GitProblem::Helper))]
    #[test_case("https::https://host/a", Err(GitProblem::Helper); "a helper around an address")]
    #[test_case("-oProxyCommand=evil", Err(GitProblem::Option))]
    #[test_case("--upload-pack=evil", Err(GitProblem::Option); "an option")]
    #[test_case("ssh://-oProxyCommand=evil/a", Err(GitProblem::Host); "an option as a host")]
    #[test_case("-x@host:a", Err(GitProblem::Option); "an option as a user")]
    #[test_case("git@-oProxyCommand=evil:a", Err(GitProblem::Host); "an option as a short host")]
    #[test_case("git@host:-a", Err(GitProblem::Path); "an option as a path")]
    #[test_case("ssh://%2doProxyCommand/a", Err(GitProblem::Host); "an escaped option")]
    #[test_case("https://me:secret@host/a", Err(GitProblem::Credentials))]
    #[test_case("https://token@host/a", Err(GitProblem::Credentials); "a token")]
    #[test_case("https://host/a?token=x", Err(GitProblem::Credentials); "a token in a query")]
    #[test_case("ssh://me:secret@host/a", Err(GitProblem::Credentials); "a password over ssh")]
    #[test_case("http://host/a", Err(GitProblem::Transport))]
    #[test_case("git://host/a", Err(GitProblem::Transport))]
    #[test_case("HTTPS://host/a", Err(GitProblem::Transport); "another spelling")]
    #[test_case("host:a", Err(GitProblem::Transport); "a host without a user")]
    #[test_case("relative/path", Err(GitProblem::Transport))]
    #[test_case("https://host", Err(GitProblem::Path); "no path")]
    #[test_case("https:///a", Err(GitProblem::Host); "no host")]
    #[test_case("https://host/a\nb", Err(GitProblem::Characters); "a new line")]
    #[test_case("https://host/a\0", Err(GitProblem::Characters); "nul")]
    #[test_case("https://höst/a", Err(GitProblem::Characters); "unicode")]
    #[test_case("https://host/\u{202e}a", Err(GitProblem::Characters); "turned around")]
    fn addresses(text: &str, expected: Result<GitTransport, GitProblem>) {
        assert_eq!(GitUrl::parse(text).map(|url| url.transport()), expected);
    }

    #[test]
    fn a_long_address_is_refused() {
        let long = format!("https://host/{}", "a".repeat(TEXT_BYTES_MAX));
        assert_eq!(GitUrl::parse(&long), Err(GitProblem::Length));
    }

    #[test]
    fn a_local_repository_needs_the_switch() {
        let mut source = GitSource::new("/srv/a.git");
        assert_eq!(source.checked(), Err(GitProblem::Local));
        source.allow_local = true;
        assert!(source.checked().is_ok());
    }

    #[test_case("main", true)]
    #[test_case("feature/x-1.2", true)]
    #[test_case("refs/tags/v1", true)]
    #[test_case("0123456789abcdef0123456789abcdef01234567", true; "a commit")]
    #[test_case("", false; "nothing")]
    #[test_case("--upload-pack=evil", false)]
    #[test_case("+main", false)]
    #[test_case("main:refs/heads/x", false; "two sides")]
    #[test_case("a..b", false)]
    #[test_case("a//b", false; "an empty part")]
    #[test_case("x.lock", false)]
    #[test_case("HEAD@{1}", false)]
    #[test_case("main\n", false; "a new line")]
    #[test_case("m\u{e4}in", false; "unicode")]
    #[test_case("*", false; "a pattern")]
    fn refs(text: &str, expected: bool) {
        assert_eq!(GitRef::parse(text).is_ok(), expected);
    }

    #[test_case("flows", Ok("flows"))]
    #[test_case("a/b/", Ok("a/b"))]
    #[test_case(".", Ok(""))]
    #[test_case("..", Err(GitProblem::Folder))]
    #[test_case("a/../b", Err(GitProblem::Folder); "upward")]
    #[test_case("/a", Err(GitProblem::Folder); "absolute")]
    #[test_case(".git", Err(GitProblem::Folder); "git itself")]
    #[test_case("a\nb", Err(GitProblem::Folder); "a new line")]
    fn folders(text: &str, expected: Result<&str, GitProblem>) {
        assert_eq!(folder(text).as_deref().map_err(|problem| *problem), expected);
    }

    #[test_case("https://me:secret@host/a", "https://***:***@host/a")]
    #[test_case("https://token@host/a", "https://***:***@host/a"; "a token")]
    #[test_case("https://host/a?key=secret", "https://host/a?***"; "a query")]
    #[test_case("ssh://git@host/a", "ssh://git@host/a")]
    #[test_case("git@host:a", "git@host:a")]
    fn secrets_are_removed_from_addresses(url: &str, expected: &str) {
        let kept = GitSource::new(url);
        assert_eq!(kept.url, expected);
        assert_eq!(kept.checked().is_ok(), url == expected);
    }

    #[test]
    fn names() {
        for good in ["team", "a", "my-flows_2"] {
            assert!(is_source_name(good), "{good}");
        }
        for bad in ["", "Team", "2x", "a.b", "a/b", "-a", "ä"] {
            assert!(!is_source_name(bad), "{bad}");
        }
    }
}
