//! Encryption through the real binary: to a team's server, and to its database (G116).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;
use workrail_testkit::home::Home;
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::skipped::skip;
use workrail_testkit::team::serve_with;
use workrail_testkit::tls::{Authority, ServerIdentity};
use workrail_testkit::wire::Http;

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_workrail"))
}

/// The files given to the server.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn of(identity: &ServerIdentity) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let files = Self { folder };
        files.write(identity);
        files
    }

    fn write(&self, identity: &ServerIdentity) {
        // Replaced as renewal programs do it: never half-written.
        for (name, text) in [("key.pem", &identity.key), ("cert.pem", &identity.certificate)] {
            let fresh = self.folder.path().join("fresh");
            fs::write(&fresh, text).unwrap();
            fs::set_permissions(&fresh, Permissions::from_mode(0o600)).unwrap();
            fs::rename(&fresh, self.path(name)).unwrap();
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }
}

fn serve(home: &Home, files: &Files) -> Http {
    let (cert, key) = (files.path("cert.pem"), files.path("key.pem"));
    serve_with(home, &["--tls-cert", &cert, "--tls-key", &key])
}

fn probe(server: &Http) -> String {
    format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address)
}

#[test]
fn a_server_with_a_certificate_answers_those_who_can_check_it() {
    let (home, authority) = (home(), Authority::new("ours"));
    let server = serve(&home, &Files::of(&authority.sign("localhost")));
    let probe = probe(&server);
    let answer = authority.exchange(&server.address, "localhost", &probe).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let other_host = authority.exchange(&server.address, "workrail.example", &probe).unwrap_err();
    let stranger = Authority::new("others").exchange(&server.address, "localhost", &probe).unwrap_err();
    insta::assert_snapshot!(format!("{}\n{stranger}", other_host.to_string().replace('\n', " ")));
    server.end("TERM");
}

#[test]
fn an_unencrypted_request_gets_no_answer() {
    let (home, authority) = (home(), Authority::new("ours"));
    let server = serve(&home, &Files::of(&authority.sign("localhost")));
    let mut plain = TcpStream::connect(&server.address).unwrap();
    plain.write_all(probe(&server).as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    // At most a TLS alert, recognisable by its first byte.
    assert!(answer.is_empty() || answer[0] == 0x15, "{answer:?}");
    // A silent client does not keep others waiting.
    let silent = TcpStream::connect(&server.address).unwrap();
    assert!(authority.exchange(&server.address, "localhost", &probe(&server)).is_ok());
    drop(silent);
    server.end("TERM");
}

/// A connection that comes from an address of loopback.
fn connect_from(source: Ipv4Addr, server: &Http) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let connected = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        socket.connect(server.address.parse().unwrap()).await
    });
    let stream = connected.unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

/// G115
#[test]
fn one_address_holds_a_part_of_the_connections_and_others_are_served() {
    if cfg!(not(target_os = "linux")) {
        skip("connections of one address", "only Linux has several addresses of loopback");
        return;
    }
    let (home, authority) = (home(), Authority::new("ours"));
    let server = serve(&home, &Files::of(&authority.sign("localhost")));
    let viewer = home.done(&["team", "token", "create", "prometheus", "--role", "viewer", "--json"]).json();
    let mut silent: Vec<TcpStream> = (0..64).map(|_| connect_from(Ipv4Addr::LOCALHOST, &server)).collect();
    let mut refused = connect_from(Ipv4Addr::LOCALHOST, &server);
    // Less than a silent client is waited for: it is closed for its number, not for its silence.
    refused.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(refused.read(&mut [0]).unwrap(), 0, "closed without a word");

    let other = connect_from(Ipv4Addr::new(127, 0, 0, 2), &server);
    let numbers = format!(
        "GET /metrics HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        server.address,
        viewer["token"].as_str().unwrap()
    );
    let answer = authority.exchange_over(other, "localhost", &numbers).unwrap();
    let counted = "workrail_refused_total{reason=\"connections\"} 1";
    assert!(answer.lines().any(|line| line == counted), "{answer}");

    drop(silent.pop());
    // The server learns a moment later that the client has left.
    let (asked, probe) = (Instant::now(), probe(&server));
    let answer = loop {
        match authority.exchange(&server.address, "localhost", &probe) {
            Ok(answer) => break answer,
            Err(error) => assert!(asked.elapsed() < Duration::from_secs(60), "still refused: {error}"),
        }
    };
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    drop(silent);
    server.end("TERM");
}

#[test]
fn a_renewed_certificate_is_used_without_a_restart() {
    let (home, old, new) = (home(), Authority::new("old"), Authority::new("new"));
    let files = Files::of(&old.sign("localhost"));
    let server = serve(&home, &files);
    let probe = probe(&server);
    assert!(old.exchange(&server.address, "localhost", &probe).is_ok());
    // A certificate whose key does not exist yet: the previous one stays in use.
    let renewed = new.sign("localhost");
    files.write(&ServerIdentity { key: old.sign("localhost").key, ..renewed.clone() });
    assert!(old.exchange(&server.address, "localhost", &probe).is_ok());
    files.write(&renewed);
    assert!(new.exchange(&server.address, "localhost", &probe).is_ok());
    assert!(old.exchange(&server.address, "localhost", &probe).is_err());
    server.end("TERM");
}

#[test]
fn files_that_cannot_be_used_are_refused_before_anything_is_served() {
    let (home, authority) = (home(), Authority::new("ours"));
    let identity = authority.sign("localhost");
    let files = Files::of(&identity);
    let run = |cert: &str, key: &str| {
        let ran = home.run(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key]);
        let folder = files.folder.path().to_str().unwrap();
        format!("{} {}", ran.code, ran.err.replace(folder, "[folder]"))
    };
    let (cert, key) = (files.path("cert.pem"), files.path("key.pem"));
    let mut said = vec![run(&files.path("none.pem"), &key), run(&key, &key), run(&cert, &cert)];
    let other = Files::of(&authority.sign("localhost"));
    said.push(run(&cert, &other.path("key.pem")));
    fs::set_permissions(Path::new(&key), Permissions::from_mode(0o644)).unwrap();
    said.push(run(&cert, &key));
    insta::assert_snapshot!(said.concat());
}

#[test]
fn the_database_is_reached_encrypted_when_its_certificate_is_good() {
    let (authority, stranger) = (Authority::new("ours"), Authority::new("others"));
    let Some((cluster, ip)) = Cluster::start_with_tls(&authority.sign("db.example")) else { return };
    let database = cluster.database();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (good, bad) = (file("good.pem", authority.pem()), file("bad.pem", stranger.pem()));
    let ran = |host: &str, options: &str| {
        let address = format!("postgres://{ROLE}@{host}/{database}?hostaddr={ip}&{options}");
        home().with("WORKRAIL_STORE", address).run(&["team", "token", "list"])
    };
    for options in [format!("sslrootcert={good}"), format!("sslmode=require&sslrootcert={good}")] {
        let listed = ran("db.example", &options);
        assert_eq!(listed.code, 0, "{listed:?}");
    }
    let any_name = ran("other.example", &format!("sslmode=verify-ca&sslrootcert={good}"));
    assert_eq!(any_name.code, 0, "{any_name:?}");
    let used =
        "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND usename = 'agent'";
    assert_eq!(cluster.sql("postgres", used), "0", "commands leave no connection behind");
    let mut said = Vec::new();
    for (host, options) in [
        ("db.example", format!("sslrootcert={bad}")),
        ("other.example", format!("sslrootcert={good}")),
        ("db.example", format!("sslmode=verify-ca&sslrootcert={bad}")),
        ("db.example", "sslmode=disable".to_owned()),
        ("db.example", "sslmode=prefer".to_owned()),
        ("db.example", "sslrootcert=/nowhere/ca.pem".to_owned()),
    ] {
        let refused = ran(host, &options);
        assert_ne!(refused.code, 0, "{host} {options}: {refused:?}");
        let told = refused.err.replace(&database, "[database]").replace(&ip, "[address]");
        said.push(told);
    }
    insta::assert_snapshot!(said.concat());
}

/// Installed, checked by `doctor`, and uninstalled again; no file contains the token.
#[test]
fn a_client_is_installed_for_a_teams_server_and_doctor_checks_it() {
    let (home, authority) = (home(), Authority::new("ours"));
    let files = Files::of(&authority.sign("localhost"));
    let roots = files.folder.path().join("roots.pem");
    fs::write(&roots, authority.pem()).unwrap();
    let server = serve(&home, &files);
    let made = home.done(&["team", "token", "create", "ci", "--role", "agent", "--json"]).json();
    let token = made["token"].as_str().unwrap();
    let url = format!("https://localhost:{}", server.address.rsplit_once(':').unwrap().1);
    let developer = self::home().with("SSL_CERT_FILE", &roots);
    // Nothing has created it yet.
    let data = developer.home().join(".local/share/workrail");
    let developer = developer.with("WORKRAIL_DATA_DIR", &data);
    let before = r#"{ "theme": "dark" }"#;
    let file = developer.home().join(".claude.json");
    developer.write(&file, before);
    let install = ["install", "--client", "claude-code", "--remote", &url];
    let shown = developer.done(&install).out;
    let written = fs::read_to_string(&file).unwrap();
    let mode = fs::metadata(developer.data()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "the data directory is its user's alone");
    developer.done(&install);
    assert_eq!(fs::read_to_string(&file).unwrap(), written, "a second time changes nothing");
    insta::assert_snapshot!("entry", written.replace(&url, "[url]"));
    let settings = fs::read_to_string(developer.home().join(".claude/settings.json")).unwrap();
    assert!(!settings.contains("workrail hook"), "hooks need the store on this machine: {settings}");
    assert!(shown.contains("WORKRAIL_TOKEN"), "{shown}");
    let findings = |home: &Home| {
        let looked = home.run(&["doctor", "--json"]).json();
        let all = looked["findings"].as_array().unwrap().clone();
        let told = all.iter().filter(|own| own["what"].as_str().is_some_and(|what| what.contains(&url)));
        let folder = home.home();
        let plain = |text: &str| text.replace(&url, "[url]").replace(folder.to_str().unwrap(), "[home]");
        let lines: Vec<String> = told
            .map(|own| {
                format!(
                    "{} {}\n  {}",
                    own["level"].as_str().unwrap(),
                    plain(own["what"].as_str().unwrap()),
                    own["fix"].as_str().unwrap_or_default()
                )
            })
            .collect();
        lines.join("\n")
    };
    let with_token = developer.with("WORKRAIL_TOKEN", token);
    let mut said = vec![findings(&developer), findings(&with_token)];
    let viewer = home.done(&["team", "token", "create", "eve", "--role", "viewer", "--json"]).json();
    let viewers = developer.with("WORKRAIL_TOKEN", viewer["token"].as_str().unwrap());
    said.push(findings(&viewers));
    said.push(findings(&developer.with("WORKRAIL_TOKEN", format!("{token}\r\nX-More: 1"))));
    home.done(&["team", "token", "revoke", made["id"].as_str().unwrap()]);
    said.push(findings(&with_token));
    said.push(findings(&developer.without("SSL_CERT_FILE")));
    server.end("TERM");
    let version = env!("CARGO_PKG_VERSION");
    let said = said.join("\n").replace(version, "[version]");
    insta::assert_snapshot!("doctor_with_a_teams_server", said);
    developer.done(&["uninstall", "--client", "claude-code"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), before, "the bytes from before");
}
