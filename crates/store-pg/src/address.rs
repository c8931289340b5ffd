//! The address of a database: host, role and tenant. Never contains a password.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::config::{Config, Host, SslMode};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::connection::TimeLimits;
use crate::encryption::{CertificateCheck, Encryption, TrustedRoots};

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// Ours, and those of the client that an address may set.
const OPTIONS: [&str; 20] = [
    "tenant",
    "password_file",
    "key_file",
    "sslmode",
    "sslrootcert",
    "timeout",
    "options",
    "host",
    "hostaddr",
    "port",
    "user",
    "dbname",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
    "load_balance_hosts",
    "sslnegotiation",
];
const DEFAULT_TENANT: &str = "default";
const TENANT_BYTES_MAX: usize = 63;
const TIMEOUT_SECONDS: u64 = 20;
const TIMEOUT_SECONDS_MAX: u64 = 600;
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged before the connection counts as lost.
const UNCONFIRMED_MAX: Duration = Duration::from_secs(15);

/// Why an address cannot be used. Never repeats the address: it may contain a password by mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("the address of a store must begin with `postgres://`")]
    Scheme,
    #[error(
        "the address holds a password; leave it out and give it in `WORKRAIL_STORE_PASSWORD`, or in a file that \
         `password_file=/PATH` in the address or `WORKRAIL_STORE_PASSWORD_FILE` names"
    )]
    Password,
    #[error("the address has an option that is not known; known are {}", OPTIONS.join(", "))]
    UnknownOption,
    #[error("`{option}` in the address is not valid: {problem}")]
    Option { option: &'static str, problem: String },
    #[error("the address names no {part}: `postgres://USER@HOST/DATABASE`")]
    Missing { part: &'static str },
    #[error("the address cannot be read: {problem}")]
    Unreadable { problem: String },
    #[error(
        "`sslmode={mode}` allows unencrypted connections, and this host is another machine; leave it out to have its \
         certificate checked, or write `sslmode=disable` if nobody can intercept the connection"
    )]
    Opportunistic { mode: &'static str },
}

/// A tenant: whose rows a store sees. Restricted to characters that are safe in a statement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TenantName(String);

impl TenantName {
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
        let is_name = !text.is_empty() && text.len() <= TENANT_BYTES_MAX && text.bytes().all(is_plain);
        is_name.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The password for the database. Never printed.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Password(String);

impl Password {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// A parsed address.
#[derive(Clone, Debug)]
pub struct DatabaseAddress {
    config: Config,
    tenant: TenantName,
    password_file: Option<String>,
    key_file: Option<String>,
    limits: TimeLimits,
    encryption: Encryption,
    shown: String,
}

impl DatabaseAddress {
    /// Reads `postgres://USER@HOST:PORT/DATABASE?tenant=NAME&password_file=/PATH&sslrootcert=/PATH&timeout=20`. A
    /// socket is given by its folder: `postgres://USER@/DATABASE?host=/run/postgresql`. Connections to other machines
    /// are encrypted with a verified certificate, unless the address says otherwise (G116).
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)).ok_or(AddressError::Scheme)?;
        // As the client reads it: up to the first `@`, before options are looked for, since a password may contain `?`.
        let has_password = rest.split_once('@').is_some_and(|(user, _)| user.contains(':'));
        let (server, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options: Vec<(&str, &str)> = query
            .split('&')
            .filter(|option| !option.is_empty())
            .map(|option| option.split_once('=').unwrap_or((option, "")))
            .collect();
        if has_password || server.contains("password=") || options.iter().any(|(name, _)| *name == "password")
        {
            return Err(AddressError::Password);
        }
        // The client decodes names, so that an encoded one could be any option.
        if options.iter().any(|(name, _)| !OPTIONS.contains(name)) {
            return Err(AddressError::UnknownOption);
        }
        let (mut tenant, mut password_file, mut mode, mut for_client) = (None, None, None, Vec::new());
        let (mut limits, mut key_file, mut roots) =
            (TimeLimits::of_seconds(TIMEOUT_SECONDS), None, TrustedRoots::System);
        for (name, value) in options {
            match name {
                "tenant" => tenant = Some(tenant_of(value)?),
                "password_file" => password_file = Some(absolute("password_file", value)?),
                "key_file" => key_file = Some(absolute("key_file", value)?),
                "sslmode" => mode = Some(SslModeName::parse(value)?),
                "sslrootcert" if value == "system" => roots = TrustedRoots::System,
                "sslrootcert" => roots = TrustedRoots::File(absolute("sslrootcert", value)?),
                "timeout" => limits = limits_of(value)?,
                // WorkRail controls the session's settings: one set here could disable what appends rely on.
                "options" => {
                    let problem = "settings of the session cannot be given".to_owned();
                    return Err(AddressError::Option { option: "options", problem });
                }
                _ => for_client.push(format!("{name}={value}")),
            }
        }
        let mut config = client_config(server, &for_client)?;
        let encryption = encryption(mode, roots, reach(&config))?;
        config.ssl_mode(match encryption {
            Encryption::Off => SslMode::Disable,
            Encryption::On { .. } => SslMode::Require,
        });
        let tenant = match tenant {
            Some(tenant) => tenant,
            None => tenant_of(DEFAULT_TENANT)?,
        };
        let shown = format!("postgres://{server}");
        Ok(Self { config, tenant, password_file, key_file, limits, encryption, shown })
    }

    /// Whether a text is meant as a database address.
    pub fn is_address(text: &str) -> bool {
        SCHEMES.iter().any(|scheme| text.starts_with(scheme))
    }

    pub fn tenant(&self) -> &TenantName {
        &self.tenant
    }

    /// How long the database may take.
    pub(crate) fn limits(&self) -> TimeLimits {
        self.limits
    }

    /// How connections are encrypted.
    pub(crate) fn encryption(&self) -> &Encryption {
        &self.encryption
    }

    /// The file that holds the password, if the address names one.
    pub fn password_file(&self) -> Option<&str> {
        self.password_file.as_deref()
    }

    /// The file that holds the key that wraps the signing keys, if the address names one.
    pub fn key_file(&self) -> Option<&str> {
        self.key_file.as_deref()
    }

    pub(crate) fn config(&self, password: Option<&Password>) -> Config {
        let mut config = self.config.clone();
        if let Some(password) = password {
            config.password(password.reveal());
        }
        config
    }
}

/// For users: where the store is, and which tenant's rows it shows.
impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, tenant {}", self.shown, self.tenant.as_str())
    }
}

fn tenant_of(value: &str) -> Result<TenantName, AddressError> {
    TenantName::parse(value).ok_or_else(|| AddressError::Option {
        option: "tenant",
        problem: format!("1 to {TENANT_BYTES_MAX} characters of a-z, 0-9, `_` and `-` are allowed"),
    })
}

fn limits_of(value: &str) -> Result<TimeLimits, AddressError> {
    let seconds = value.parse().ok().filter(|seconds| (1..=TIMEOUT_SECONDS_MAX).contains(seconds));
    seconds.map(TimeLimits::of_seconds).ok_or_else(|| AddressError::Option {
        option: "timeout",
        problem: format!("give a number of seconds from 1 to {TIMEOUT_SECONDS_MAX}"),
    })
}

fn absolute(option: &'static str, value: &str) -> Result<String, AddressError> {
    let problem = || "give an absolute path".to_owned();
    value
        .starts_with('/')
        .then(|| value.to_owned())
        .ok_or_else(|| AddressError::Option { option, problem: problem() })
}

/// The modes of libpq, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SslModeName {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl SslModeName {
    const ALL: [Self; 6] =
        [Self::Disable, Self::Allow, Self::Prefer, Self::Require, Self::VerifyCa, Self::VerifyFull];

    fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Allow => "allow",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    fn parse(text: &str) -> Result<Self, AddressError> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| AddressError::Option {
            option: "sslmode",
            problem: format!("use one of {}", Self::ALL.map(Self::as_str).join(", ")),
        })
    }
}

/// What connections to an address pass through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionRoute {
    /// Sockets, which are never encrypted.
    Sockets,
    /// Nothing leaves the machine.
    Loopback,
    Network,
}

/// libpq's `require` accepts any certificate; here it means `verify-full`.
fn encryption(
    mode: Option<SslModeName>,
    roots: TrustedRoots,
    reach: ConnectionRoute,
) -> Result<Encryption, AddressError> {
    let on = |check| Encryption::On { check, roots };
    match (reach, mode) {
        (ConnectionRoute::Sockets, _) | (_, Some(SslModeName::Disable)) => Ok(Encryption::Off),
        (ConnectionRoute::Loopback, None | Some(SslModeName::Allow | SslModeName::Prefer)) => {
            Ok(Encryption::Off)
        }
        (ConnectionRoute::Network, Some(mode @ (SslModeName::Allow | SslModeName::Prefer))) => {
            Err(AddressError::Opportunistic { mode: mode.as_str() })
        }
        (ConnectionRoute::Network | ConnectionRoute::Loopback, Some(SslModeName::VerifyCa)) => {
            Ok(on(CertificateCheck::Signed))
        }
        (ConnectionRoute::Network, None)
        | (
            ConnectionRoute::Network | ConnectionRoute::Loopback,
            Some(SslModeName::Require | SslModeName::VerifyFull),
        ) => Ok(on(CertificateCheck::SignedForHost)),
    }
}

fn client_config(server: &str, options: &[String]) -> Result<Config, AddressError> {
    let question = if options.is_empty() { "" } else { "?" };
    let text = format!("postgres://{server}{question}{}", options.join("&"));
    let mut config = Config::from_str(&text).map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        AddressError::Unreadable { problem: cause.unwrap_or_else(|| error.to_string()) }
    })?;
    if config.get_user().is_none_or(str::is_empty) {
        return Err(AddressError::Missing { part: "user" });
    }
    if config.get_dbname().is_none_or(str::is_empty) {
        return Err(AddressError::Missing { part: "database" });
    }
    if config.get_hosts().is_empty() {
        return Err(AddressError::Missing { part: "host" });
    }
    config.application_name("workrail").connect_timeout(CONNECT_TIMEOUT).tcp_user_timeout(UNCONFIRMED_MAX);
    Ok(config)
}

fn reach(config: &Config) -> ConnectionRoute {
    let is_loopback = |name: &str| {
        name == "localhost"
            || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    let is_socket = |host: &Host| match host {
        Host::Tcp(_) => false,
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    let is_local = |host: &Host| match host {
        Host::Tcp(name) => is_loopback(name),
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    let hosts = config.get_hosts();
    if !hosts.iter().all(is_local) || !config.get_hostaddrs().iter().all(IpAddr::is_loopback) {
        return ConnectionRoute::Network;
    }
    match hosts.iter().all(is_socket) && config.get_hostaddrs().is_empty() {
        true => ConnectionRoute::Sockets,
        false => ConnectionRoute::Loopback,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> AddressError {
        DatabaseAddress::parse(text).expect_err("the address is refused")
    }

    #[test]
    fn an_address_names_host_database_and_tenant() {
        let address = DatabaseAddress::parse("postgres://agent@localhost:5433/team?tenant=acme").unwrap();
        assert_eq!(address.to_string(), "postgres://agent@localhost:5433/team, tenant acme");
        assert_eq!(address.password_file(), None);
        let socket =
            DatabaseAddress::parse("postgres://agent@/team?host=/run/postgresql&password_file=/etc/pw")
                .unwrap();
        assert_eq!(socket.to_string(), "postgres://agent@/team, tenant default");
        assert_eq!(socket.password_file(), Some("/etc/pw"));
    }

    #[test]
    fn a_password_in_the_address_is_refused_and_not_repeated() {
        for text in [
            "postgres://agent:hunter2@localhost/team",
            "postgres://agent:hun@ter2@localhost/team",
            "postgresql://agent@localhost/team?password=hunter2",
            "postgres://agent:hunter2?@localhost/team",
            "postgres://agent:hunter2/?@localhost/team?tenant=acme",
            "postgres://agent@localhost/team;password=hunter2",
        ] {
            let refused = refusal(text);
            assert_eq!(refused, AddressError::Password);
            assert!(!refused.to_string().contains("hunter2"));
        }
    }

    /// Broke: the client decodes `%77`, so that this was a password that was shown.
    #[test]
    fn an_option_that_is_not_known_is_refused_and_not_repeated() {
        for text in
            ["postgres://agent@localhost/team?pass%77ord=hunter2", "postgres://agent@localhost/team?hunter2"]
        {
            let refused = refusal(text);
            assert_eq!(refused, AddressError::UnknownOption);
            assert!(!refused.to_string().contains("hunter2"));
        }
        let path =
            DatabaseAddress::parse("postgres://agent@localhost:5433/team?password_file=/etc/a@b:c").unwrap();
        assert_eq!(path.password_file(), Some("/etc/a@b:c"));
    }

    /// G116
    #[test]
    fn connections_to_other_machines_are_encrypted_unless_the_address_says_otherwise() {
        let full = |roots| Encryption::On { check: CertificateCheck::SignedForHost, roots };
        let own = || TrustedRoots::File("/ca.pem".to_owned());
        let table = [
            ("db.example/team", full(TrustedRoots::System)),
            ("db.example/team?sslrootcert=system", full(TrustedRoots::System)),
            ("10.0.0.7/team?sslmode=require&sslrootcert=/ca.pem", full(own())),
            ("localhost/team?hostaddr=10.0.0.7", full(TrustedRoots::System)),
            ("localhost/team?sslmode=verify-full&sslrootcert=/ca.pem", full(own())),
            (
                "db.example/team?sslmode=verify-ca&sslrootcert=/ca.pem",
                Encryption::On { check: CertificateCheck::Signed, roots: own() },
            ),
            ("db.example/team?sslmode=disable", Encryption::Off),
            ("127.0.0.1/team", Encryption::Off),
            ("localhost/team?sslmode=prefer", Encryption::Off),
            ("/team?host=/run/postgresql&sslmode=verify-full", Encryption::Off),
        ];
        for (text, expected) in table {
            let address = DatabaseAddress::parse(&format!("postgres://agent@{text}")).unwrap();
            assert_eq!(*address.encryption(), expected, "{text}");
        }
        for mode in ["allow", "prefer"] {
            let refused = refusal(&format!("postgres://agent@10.0.0.7/team?sslmode={mode}"));
            assert!(matches!(refused, AddressError::Opportunistic { .. }), "{mode}");
        }
    }

    #[test]
    fn the_missing_or_wrong_part_is_named() {
        assert_eq!(refusal("mysql://a@b/c"), AddressError::Scheme);
        assert_eq!(refusal("postgres://localhost/team"), AddressError::Missing { part: "user" });
        assert_eq!(refusal("postgres://agent@localhost"), AddressError::Missing { part: "database" });
        assert_eq!(refusal("postgres://agent@/team"), AddressError::Missing { part: "host" });
        for tenant in ["", "A", "a'b", "a b", &"a".repeat(64)] {
            let text = format!("postgres://agent@localhost/team?tenant={tenant}");
            assert!(matches!(refusal(&text), AddressError::Option { option: "tenant", .. }), "{tenant:?}");
        }
        for option in [
            "options=-c%20fsync",
            "password_file=relative",
            "sslmode=maybe",
            "sslmode=",
            "sslrootcert=x",
            "timeout=0",
            "timeout=x",
        ] {
            let text = format!("postgres://agent@localhost/team?{option}");
            assert!(matches!(refusal(&text), AddressError::Option { .. }), "{option}");
        }
    }

    #[test]
    fn a_password_is_never_printed() {
        let password = Password::new("hunter2".to_owned());
        let address = DatabaseAddress::parse("postgres://agent@localhost/team").unwrap();
        assert_eq!(format!("{password:?}"), "Password(..)");
        assert!(!format!("{:?}", address.config(Some(&password))).contains("hunter2"));
    }
}
