//! Each client's own file: absent, empty, in use, commented, malformed. Results are recorded as snapshots.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use workrail_host::clients::{
    Bases, Client, ClientError, ClientFile, ConnectionMethod, FileChange, Intent, Ledger, Setup, SetupPart,
    SetupScope, SetupTarget, WithoutVariable, apply, plan,
};
use workrail_model::keyring::HttpSecret;

const IN_USE: &str = r#"{
    "theme": "dark",
    "mcpServers": {
        "files": { "command": "npx", "args": ["-y", "files"] }
    },
    "last": 1
}
"#;
const COMMENTED: &str = r#"{
  // what I use
  "mcpServers": {
    /* old */
    "files": {
      "command": "npx", // from npm
    },
  },
}
"#;
const OWN_ENTRY: &str = r#"{"mcpServers": {"workrail": {"command": "/old/workrail", "args": ["serve"],
  "env": {"WORKRAIL_LOG": "info"}}}}"#;
const CODEX: &str =
    "model = \"x\" # mine\n\n[mcp_servers.files]\ncommand = \"npx\"\n\n[tui]\ntheme = \"dark\"\n";
const CODEX_INLINE: &str = "mcp_servers = { files = { command = \"npx\" } }\n";

struct Machine {
    #[expect(dead_code, reason = "held for its drop")]
    folder: tempfile::TempDir,
    bases: Bases,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        let bases = Bases {
            home: root.join("home"),
            config: root.join("home/.config"),
            desktop: root.join("home/.config"),
            project: root.join("project"),
        };
        Self { folder, bases }
    }

    fn ledger(&self) -> Ledger {
        Ledger::in_data_dir(&self.bases.home.join("data"))
    }

    fn planned(&self, file: &ClientFile, intent: Intent<'_>) -> Result<FileChange, ClientError> {
        let target = SetupTarget { client: file.client, scope: file.scope };
        let mut changes = plan(&[target], &[SetupPart::Server], intent, &self.bases, &self.ledger())?;
        assert_eq!(changes.len(), 1);
        Ok(changes.remove(0))
    }

    fn installed(&self, file: &ClientFile) -> Result<FileChange, ClientError> {
        self.planned(file, Intent::Install(&started()))
    }

    fn installed_http(&self, file: &ClientFile) -> Result<FileChange, ClientError> {
        self.planned(file, Intent::Install(&reached()))
    }

    fn removed(&self, file: &ClientFile) -> Result<FileChange, ClientError> {
        self.planned(file, Intent::Uninstall)
    }

    fn apply(&self, change: &FileChange) -> Result<Option<Utf8PathBuf>, ClientError> {
        apply(change, &self.ledger())
    }

    fn file(&self, client: Client, scope: SetupScope, text: Option<&str>) -> ClientFile {
        let file = server_file(client, scope, &self.bases).unwrap();
        if let Some(text) = text {
            fs::create_dir_all(file.path.parent().unwrap()).unwrap();
            fs::write(&file.path, text).unwrap();
        }
        file
    }
}

fn server_file(client: Client, scope: SetupScope, bases: &Bases) -> Option<ClientFile> {
    client.server_files(bases).into_iter().find(|file| file.scope == scope)
}

fn started() -> Setup {
    Setup {
        own_program: Some("/opt/workrail".into()),
        connection: ConnectionMethod::Program,
        opencode_plugin: str::to_owned,
    }
}

fn reached() -> Setup {
    let connection = ConnectionMethod::Http {
        url: "http://127.0.0.1:8765/mcp".to_owned(),
        secret: Some(HttpSecret::new([0; 32])),
    };
    Setup { own_program: None, connection, opencode_plugin: str::to_owned }
}

/// What a client starts: a project's file is shared, so it names the program.
fn program(scope: SetupScope) -> &'static str {
    match scope {
        SetupScope::User => "/opt/workrail",
        SetupScope::Project => "workrail",
    }
}

/// Installs, checks that doing so again changes nothing, adds a line as the user would, removes, and shows both
/// results.
fn through(client: Client, scope: SetupScope, text: Option<&str>) -> String {
    let machine = Machine::new();
    let file = machine.file(client, scope, text);
    let is_first = Client::command_in(&file) == Ok(None);
    let backup = machine.apply(&machine.installed(&file).unwrap()).unwrap();
    assert_eq!(backup.map(|path| fs::read_to_string(path).unwrap()).as_deref(), text);
    let after = fs::read_to_string(&file.path).unwrap();
    assert_eq!(Client::command_in(&file), Ok(Some(program(scope).to_owned())));
    assert!(!machine.installed(&file).unwrap().is_needed(), "a second time changes nothing: {after}");
    machine.apply(&machine.removed(&file).unwrap()).unwrap();
    if is_first {
        assert_eq!(fs::read_to_string(&file.path).ok().as_deref(), text, "the bytes that were there");
    }
    // A file that was changed in between loses only our entry.
    machine.apply(&machine.installed(&file).unwrap()).unwrap();
    fs::write(&file.path, format!("{after}\n")).unwrap();
    machine.apply(&machine.removed(&file).unwrap()).unwrap();
    let gone = fs::read_to_string(&file.path).unwrap();
    assert_eq!(Client::command_in(&file), Ok(None));
    assert!(!machine.removed(&file).unwrap().is_needed());
    format!("{after}--- and removed again\n{gone}")
}

fn shown_path(file: &ClientFile, bases: &Bases) -> String {
    let root = bases.home.parent().unwrap();
    file.path.strip_prefix(root).unwrap().to_string()
}

#[test]
fn every_client_from_nothing() {
    let mut shown = String::new();
    let bases = Machine::new().bases;
    for client in Client::ALL.iter().copied() {
        for scope in SetupScope::ALL.iter().copied() {
            if let Some(file) = server_file(client, scope, &bases) {
                let path = shown_path(&file, &bases);
                shown.push_str(&format!("== {} {path}\n{}", client.as_str(), through(client, scope, None)));
            }
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn every_json_client_with_a_file_in_use() {
    let mut shown = String::new();
    for client in [Client::ClaudeCode, Client::ClaudeDesktop, Client::Cursor, Client::Gemini, Client::VsCode]
    {
        let bases = Machine::new().bases;
        let scope = client.server_files(&bases)[0].scope;
        let key = |text: &str| match client == Client::VsCode {
            true => text.replace("mcpServers", "servers"),
            false => text.to_owned(),
        };
        for (what, text) in [("empty", ""), ("in use", IN_USE), ("commented", COMMENTED)] {
            let came = through(client, scope, Some(&key(text)));
            shown.push_str(&format!("== {} {what}\n{came}", client.as_str()));
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn codex_with_a_file_in_use() {
    let mut shown = String::new();
    for (what, text) in [("empty", ""), ("in use", CODEX), ("inline", CODEX_INLINE)] {
        shown.push_str(&format!("== {what}\n{}", through(Client::Codex, SetupScope::User, Some(text))));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn an_entry_of_the_users_own_keeps_what_they_added() {
    insta::assert_snapshot!(through(Client::Cursor, SetupScope::Project, Some(OWN_ENTRY)));
}

#[test]
fn a_file_that_cannot_be_parsed_is_refused_and_left_alone() {
    let json = [
        "{ \"mcpServers\": ",
        "[]",
        "{ \"mcpServers\": [] }",
        "{ \"mcpServers\": null }",
        "{ \"mcpServers\": { \"workrail\": \"yes\" } }",
        "{ \"mcpServers\": {}, \"mcpServers\": {} }",
        "{ mcpServers: {} }",
        "{} trailing",
        "\u{0}",
    ];
    let toml = ["mcp_servers = 3\n", "[mcp_servers\n", "[mcp_servers]\nworkrail = 3\n", "a = 1\na = 2\n"];
    let cases = json.iter().map(|text| (Client::ClaudeCode, *text));
    for (client, text) in cases.chain(toml.iter().map(|text| (Client::Codex, *text))) {
        let machine = Machine::new();
        let file = machine.file(client, SetupScope::User, Some(text));
        let refused = machine.installed(&file);
        assert!(matches!(refused, Err(ClientError::Malformed { .. })), "{text:?}: {refused:?}");
        assert_eq!(fs::read_to_string(&file.path).unwrap(), text);
        assert_eq!(
            fs::read_dir(file.path.parent().unwrap()).unwrap().count(),
            1,
            "no backup of nothing done"
        );
    }
    let machine = Machine::new();
    let file = machine.file(Client::ClaudeCode, SetupScope::User, None);
    fs::create_dir_all(&file.path).unwrap();
    assert!(matches!(machine.installed(&file), Err(ClientError::Unreadable { .. })));
    let bytes = machine.file(Client::Gemini, SetupScope::User, Some(""));
    fs::write(&bytes.path, b"{\"a\": \"\xff\"}").unwrap();
    assert!(matches!(machine.installed(&bytes), Err(ClientError::Unreadable { .. })));
}

#[test]
fn permissions_links_line_endings_and_byte_order_marks_stay() {
    let machine = Machine::new();
    let file = machine.file(Client::ClaudeCode, SetupScope::User, Some("\u{feff}{\r\n  \"a\": 1\r\n}\r\n"));
    let real = Utf8Path::new(file.path.parent().unwrap().as_str()).join("real.json");
    fs::rename(&file.path, &real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&real, &file.path).unwrap();
    let backup = machine.apply(&machine.installed(&file).unwrap()).unwrap().unwrap();
    assert!(fs::symlink_metadata(&file.path).unwrap().file_type().is_symlink());
    for path in [&real, &backup] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{path}");
    }
    let text = fs::read_to_string(&real).unwrap();
    assert!(text.starts_with('\u{feff}') && text.contains("\"a\": 1,\r\n"), "{text:?}");
}

#[test]
fn changes_another_program_made_in_the_meantime_are_kept() {
    let machine = Machine::new();
    let file = machine.file(Client::ClaudeCode, SetupScope::User, Some("{}\n"));
    let planned = machine.installed(&file).unwrap();
    fs::write(&file.path, "{ \"new\": true }\n").unwrap();
    assert!(matches!(machine.apply(&planned), Err(ClientError::Unwritable { .. })));
    assert_eq!(fs::read_to_string(&file.path).unwrap(), "{ \"new\": true }\n");
}

/// Sets a client up for HTTP, checks that doing so again changes nothing, and switches back to starting a program.
fn through_http(client: Client, scope: SetupScope, text: Option<&str>) -> String {
    let machine = Machine::new();
    let file = machine.file(client, scope, text);
    machine.apply(&machine.installed_http(&file).unwrap()).unwrap();
    let after = fs::read_to_string(&file.path).unwrap();
    assert_eq!(Client::command_in(&file), Ok(Some("http://127.0.0.1:8765/mcp".to_owned())));
    assert!(!machine.installed_http(&file).unwrap().is_needed(), "a second time changes nothing");
    let secret = HttpSecret::new([0; 32]);
    assert_eq!(
        after.contains(secret.reveal()),
        scope == SetupScope::User,
        "only a user's own file has the secret"
    );
    machine.apply(&machine.installed(&file).unwrap()).unwrap();
    let back = fs::read_to_string(&file.path).unwrap();
    assert_eq!(Client::command_in(&file), Ok(Some(program(scope).to_owned())));
    assert!(!back.contains("8765"), "the address is gone with the program: {back}");
    format!("{after}--- and started again\n{back}")
}

#[test]
fn every_client_that_speaks_http() {
    let mut shown = String::new();
    let machine = Machine::new();
    let bases = machine.bases.clone();
    for client in Client::ALL.iter().copied() {
        for scope in SetupScope::ALL.iter().copied() {
            let Some(file) = server_file(client, scope, &bases) else { continue };
            // Nor if it is not known how to name a variable instead of the secret.
            if let Err(refused) = machine.installed_http(&file) {
                assert!(matches!(refused, ClientError::NoHttp { .. }), "{refused}");
                assert!(scope == SetupScope::Project || !client.speaks_http(), "{refused}");
                shown.push_str(&format!("== {} {} cannot\n", client.as_str(), scope.as_str()));
                continue;
            }
            let path = shown_path(&file, &bases);
            shown.push_str(&format!("== {} {path}\n{}", client.as_str(), through_http(client, scope, None)));
        }
    }
    for (client, scope, text) in
        [(Client::Cursor, SetupScope::Project, OWN_ENTRY), (Client::Codex, SetupScope::User, CODEX)]
    {
        shown.push_str(&format!(
            "== {} in use\n{}",
            client.as_str(),
            through_http(client, scope, Some(text))
        ));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_file_with_the_secret_in_it_is_readable_by_its_user_alone() {
    let machine = Machine::new();
    let file = machine.file(Client::Cursor, SetupScope::User, Some("{}\n"));
    fs::set_permissions(&file.path, fs::Permissions::from_mode(0o644)).unwrap();
    machine.apply(&machine.installed_http(&file).unwrap()).unwrap();
    assert_eq!(fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
}

fn at_a_team() -> Setup {
    let connection = ConnectionMethod::Remote {
        url: "https://workrail.example.com/mcp".to_owned(),
        without_variable: WithoutVariable::Refuse,
    };
    Setup { own_program: None, connection, opencode_plugin: str::to_owned }
}

/// No token is written to a file: the file names the variable, or the client is refused.
#[test]
fn every_client_of_a_teams_server() {
    let mut shown = String::new();
    for client in Client::ALL.iter().copied() {
        for scope in SetupScope::ALL.iter().copied() {
            let machine = Machine::new();
            let Some(file) = server_file(client, scope, &machine.bases) else { continue };
            let planned = machine.planned(&file, Intent::Install(&at_a_team()));
            shown.push_str(&format!("# {} {}\n", client.as_str(), scope.as_str()));
            let change = match planned {
                Ok(change) => change,
                Err(error) => {
                    shown.push_str(&format!("{error}\n\n"));
                    continue;
                }
            };
            machine.apply(&change).unwrap();
            assert_eq!(Client::command_in(&file), Ok(Some("https://workrail.example.com/mcp".to_owned())));
            let again = machine.planned(&file, Intent::Install(&at_a_team())).unwrap();
            assert!(!again.is_needed(), "a second time changes nothing");
            shown.push_str(&format!("{}\n", fs::read_to_string(&file.path).unwrap()));
            machine.apply(&machine.removed(&file).unwrap()).unwrap();
            assert!(!file.path.exists(), "what was not there before is gone again");
        }
    }
    insta::assert_snapshot!(shown);
}
