//! Why a fetch failed, according to git's output, and what to do about it.

use workrail_model::config::{GitSource, GitTransport};

/// Causes that the user can do something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// 401: no credentials, or wrong ones.
    Unauthorized,
    /// 403: authenticated but not allowed.
    Forbidden,
    /// 404: does not exist, or hidden from those without access.
    NotFound,
    SshKey,
    SshHost,
    UnknownRef,
    NoFolder,
    Certificate,
    Dns,
    Timeout,
    Refused,
    TooLarge,
    NoGit,
    Other,
}

/// Messages of git and curl in the locale `C`; the first match wins.
const SIGNS: [(&str, Cause); 28] = [
    // A file of our own, not the server's.
    ("(os error", Cause::Other),
    ("the commit has no folder", Cause::NoFolder),
    ("git is not installed", Cause::NoGit),
    ("MiB on disk", Cause::TooLarge),
    ("did not end within", Cause::Timeout),
    ("could not read Username", Cause::Unauthorized),
    ("could not read Password", Cause::Unauthorized),
    ("terminal prompts disabled", Cause::Unauthorized),
    ("Authentication failed", Cause::Unauthorized),
    ("returned error: 401", Cause::Unauthorized),
    ("returned error: 403", Cause::Forbidden),
    ("returned error: 404", Cause::NotFound),
    ("Permission denied (", Cause::SshKey),
    ("Host key verification failed", Cause::SshHost),
    ("couldn't find remote ref", Cause::UnknownRef),
    ("not our ref", Cause::UnknownRef),
    ("unadvertised object", Cause::UnknownRef),
    ("SSL certificate problem", Cause::Certificate),
    ("server certificate verification failed", Cause::Certificate),
    ("error setting certificate", Cause::Certificate),
    ("no alternative certificate subject name", Cause::Certificate),
    ("Could not resolve host", Cause::Dns),
    ("Name or service not known", Cause::Dns),
    ("timed out", Cause::Timeout),
    ("Operation too slow", Cause::Timeout),
    ("Connection refused", Cause::Refused),
    ("Failed to connect", Cause::Refused),
    ("not found", Cause::NotFound),
];

impl Cause {
    pub(super) fn of(failure: &str) -> Self {
        SIGNS.iter().find(|(sign, _)| failure.contains(sign)).map_or(Self::Other, |(_, cause)| *cause)
    }

    /// What to do, ending with the command to retry.
    pub(super) fn fix(self, name: &str, source: &GitSource) -> String {
        let sync = format!("workrail workflow sources sync {name}");
        let transport = source.checked().map(|checked| checked.url.transport());
        let git_ref = source.r#ref.as_deref().unwrap_or("HEAD");
        let what = match (self, transport) {
            (Self::Unauthorized, _) => {
                "store credentials for this address with a git credential helper (`git config --global credential.helper`; \
                 `git ls-remote` on the address must work without asking), or use an ssh address"
                    .to_owned()
            }
            (Self::Forbidden, _) => {
                "the server accepts your credentials but denies access: ask for read access to the repository, or store other credentials".to_owned()
            }
            (Self::NotFound, Ok(GitTransport::Https)) => {
                "check the address; servers also return this for private repositories, so store credentials with a git \
                 credential helper"
                    .to_owned()
            }
            (Self::NotFound, Ok(GitTransport::Ssh | GitTransport::Local) | Err(_)) => {
                "check the address, and whether you may read the repository".to_owned()
            }
            (Self::SshKey, _) => {
                "add your ssh key to the agent (`ssh-add`) and to the server, for a user who may read the repository".to_owned()
            }
            (Self::SshHost, _) => "connect once with `ssh` to accept the server's host key".to_owned(),
            (Self::UnknownRef, _) => {
                format!("the repository has no `{git_ref}`: correct `ref` in the settings file, or push it")
            }
            (Self::NoFolder, _) => {
                let folder = source.folder.as_deref().unwrap_or_default();
                format!("`{git_ref}` has no folder `{folder}`: correct `folder` in the settings file, or push it")
            }
            (Self::Certificate, _) => {
                "if the host uses a certificate from your own authority, set GIT_SSL_CAINFO to its PEM file where \
                 WorkRail is started"
                    .to_owned()
            }
            (Self::Dns, _) => "check the host in the address, and the network".to_owned(),
            (Self::Timeout, _) => {
                "the server is slow or the network stalls; try again, or check HTTPS_PROXY".to_owned()
            }
            (Self::Refused, _) => "nothing listens at this address; check host and port, and HTTPS_PROXY".to_owned(),
            (Self::TooLarge, _) => "use a smaller repository for workflows".to_owned(),
            (Self::NoGit, _) => "install git, and put it on WorkRail's PATH".to_owned(),
            (Self::Other, _) => return sync,
        };
        format!("{what}; then {sync}")
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(
        "git says: fatal: could not read Username for 'https://x': terminal prompts disabled",
        Cause::Unauthorized
    )]
    #[test_case("git says: fatal: Authentication failed for 'https://x/'", Cause::Unauthorized; "wrong password")]
    #[test_case(
        "git says: fatal: unable to access 'https://x/': The requested URL returned error: 403",
        Cause::Forbidden
    )]
    #[test_case("git says: fatal: repository 'https://x/' not found", Cause::NotFound)]
    #[test_case("git says: fatal: couldn't find remote ref mian", Cause::UnknownRef)]
    #[test_case("the commit has no folder `flows`", Cause::NoFolder)]
    #[test_case(
        "git says: fatal: unable to access 'https://x/': SSL certificate problem: self-signed certificate",
        Cause::Certificate
    )]
    #[test_case("git says: fatal: unable to access 'https://x/': Could not resolve host: x", Cause::Dns)]
    #[test_case("git did not end within 120 seconds and was stopped", Cause::Timeout)]
    #[test_case("git says: x@y: Permission denied (publickey).", Cause::SshKey; "a key")]
    #[test_case("/data/sources/git/0a/lock: Permission denied (os error 13)", Cause::Other; "a file of ours")]
    #[test_case("git says: fatal: something else", Cause::Other; "anything else")]
    fn a_failure_has_a_cause(failure: &str, expected: Cause) {
        assert_eq!(Cause::of(failure), expected);
    }
}
