//! Every form of the console with every role: the engine refuses; hiding forms on pages is only a courtesy (G113, G125).
//!
//! The list of forms is read from the console's source, so that a new one fails here until it has a row.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use workrail_testkit::authenticator::{Authenticator, FormFields};
use workrail_testkit::home::Home;
use workrail_testkit::page;
use workrail_testkit::wire::Http;

use crate::browser::{Answer, Browser, encoded};
use crate::{HOST, ROLES, WaitingRun, home, secret, serve, token, waiting_run, waiting_run_of};

/// The types that name forms, and their files.
const FORM_TYPES: [(&str, &str); 4] = [
    ("forms.rs", "RunFormAction"),
    ("forms.rs", "SessionAction"),
    ("changes.rs", "AdministrationForm"),
    ("passkeys.rs", "Signing"),
];
/// Addresses that lead to one of these types.
const DISPATCHED: [&str; 3] =
    [r#"["passkeys", signing @ ..]"#, r#"["session", session, action]"#, r#"["run", run, action]"#];
/// The only form that is sent as a file.
const IMPORT: &str = r#"path == "/import""#;

/// A member with a browser, and what the forms are about.
struct Member {
    server: Http,
    browser: Browser,
    /// An admin, who sees every page.
    lead: Browser,
    key: Authenticator,
    /// Each of them waits for an approval, but the last, which waits for an answer.
    approved: WaitingRun,
    rejected: WaitingRun,
    deleted: WaitingRun,
    asking: WaitingRun,
    home: Home,
}

impl Member {
    fn new(role: &str) -> Self {
        let home = home();
        let server = serve(&home);
        let browser = Browser::logged_in(&server, secret(&token(&home, role, role)));
        let lead = Browser::logged_in(&server, secret(&token(&home, "lead", "admin")));
        let member = Self {
            browser,
            lead,
            key: Authenticator::new(1).under(HOST),
            approved: waiting_run(&home),
            rejected: waiting_run(&home),
            deleted: waiting_run(&home),
            asking: waiting_run_of(&home, "team.asking"),
            server,
            home,
        };
        // Leaves content that no session needs, so that there is something to clean up.
        let gone = waiting_run_of(&member.home, "team.plain");
        let answer = member.send_as(&member.lead, &deletion(&gone, &member));
        assert_eq!(answer.status, 303, "{answer:?}");
        member
    }

    fn send_as(&self, browser: &Browser, (path, fields): &(String, FormFields)) -> Answer {
        let mut form: FormFields = browser.form(&self.server, &[]);
        form.extend(fields.iter().cloned());
        browser.post(&self.server, path, &encoded(&form))
    }

    /// The value of a field on a page, as the admin sees it.
    fn shown(&self, page: &str, field: &str) -> String {
        self.lead.page(&self.server, page).field(field)
    }

    fn seen(&self, run: &WaitingRun) -> (&'static str, String) {
        ("seen", self.shown(&format!("/run/{}", run.run), "seen"))
    }

    /// What the member's device signs for a form.
    fn signed(&mut self, path: &str, mut fields: FormFields) -> FormFields {
        let mut form = self.browser.form(&self.server, &[]);
        form.extend(fields.iter().cloned());
        let challenge = self.browser.asked(&self.server, path, &form);
        fields.extend(self.key.sign(&challenge, &format!("https://{HOST}")));
        fields
    }

    fn new_key(&self) -> FormFields {
        let form = self.browser.form(&self.server, &[]);
        let challenge = self.browser.asked(&self.server, "/settings/passkeys/new", &form);
        let mut fields = vec![("name", "Laptop".to_owned())];
        fields.extend(self.key.make(&challenge, &format!("https://{HOST}")));
        fields
    }

    fn import(&self) -> Answer {
        let bundle =
            self.browser.page(&self.server, &format!("/session/{}/bundle.json", self.asking.session));
        let token = self.browser.page(&self.server, "/").field("token");
        let headers = format!("Origin: https://{HOST}\r\nX-WorkRail-Token: {token}\r\n");
        self.browser.send(&self.server, "POST", "/import", &headers, &bundle.body)
    }
}

fn deletion(run: &WaitingRun, member: &Member) -> (String, FormFields) {
    let page = format!("/session/{}", run.session);
    let events = member.shown(&page, "events");
    (format!("{page}/delete-now"), fields(&[("typed", &run.label), ("events", &events)]))
}

fn fields(pairs: &[(&'static str, &str)]) -> FormFields {
    pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// A form as it is sent when its turn comes; some depend on what earlier ones did.
type Form = fn(&mut Member) -> (String, FormFields);

/// Every form but the import, in an order in which an admin's are all carried out.
fn forms() -> Vec<(&'static str, Form)> {
    [forms_of_runs(), forms_of_sessions(), challenges(), forms_of_settings()].concat()
}

fn forms_of_runs() -> Vec<(&'static str, Form)> {
    vec![
        ("Signing::Run", |member| {
            (format!("/passkeys/run/{}/approve", member.approved.run), vec![member.seen(&member.approved)])
        }),
        ("RunFormAction::Approve", |member| {
            (format!("/run/{}/approve", member.approved.run), vec![member.seen(&member.approved)])
        }),
        ("RunFormAction::Reject", |member| {
            let reason = ("reason", "no".to_owned());
            (format!("/run/{}/reject", member.rejected.run), vec![member.seen(&member.rejected), reason])
        }),
        ("RunFormAction::Answer", |member| {
            let answer = ("answer.targetBranch", "main".to_owned());
            (format!("/run/{}/answer", member.asking.run), vec![member.seen(&member.asking), answer])
        }),
        ("RunFormAction::Close", |member| {
            (format!("/run/{}/close", member.rejected.run), fields(&[("reason", "over")]))
        }),
    ]
}

fn forms_of_sessions() -> Vec<(&'static str, Form)> {
    vec![
        ("SessionAction::Keep", |member| (format!("/session/{}/keep", member.approved.session), vec![])),
        ("SessionAction::Unkeep", |member| (format!("/session/{}/unkeep", member.approved.session), vec![])),
        // A team's console deletes only at once.
        ("SessionAction::Delete", |member| (format!("/session/{}/delete", member.deleted.session), vec![])),
        ("SessionAction::Undo", |member| (format!("/session/{}/undo", member.deleted.session), vec![])),
        ("SessionAction::DeleteNow", |member| deletion(&member.deleted, member)),
        ("AdministrationForm::Prefer", |member| {
            (format!("/session/{}/prefer", member.asking.session), fields(&[("mode", "guided")]))
        }),
        ("Signing::Prefer", |member| {
            (format!("/passkeys/session/{}/prefer", member.asking.session), fields(&[("mode", "guided")]))
        }),
    ]
}

/// Passkeys, and the remaining challenges, which record nothing.
fn challenges() -> Vec<(&'static str, Form)> {
    vec![
        ("Signing::NewKey", |_| ("/passkeys/settings/passkeys/new".to_owned(), vec![])),
        ("Signing::Enrol", |member| ("/passkeys/settings/passkeys/enrol".to_owned(), member.new_key())),
        ("AdministrationForm::Enrol", |member| ("/settings/passkeys/enrol".to_owned(), member.new_key())),
        ("Signing::Remove", |member| {
            let credential = vec![("credential", member.key.credential())];
            ("/passkeys/settings/passkeys/remove".to_owned(), credential)
        }),
        ("AdministrationForm::RemovePasskey", |member| {
            let path = "/settings/passkeys/remove";
            let credential = vec![("credential", member.key.credential())];
            (path.to_owned(), member.signed(path, credential))
        }),
        ("Signing::Set", |_| {
            ("/passkeys/settings/set".to_owned(), fields(&[("key", "log.filter"), ("value", "debug")]))
        }),
        ("Signing::Trust", |_| {
            ("/passkeys/settings/checks/trust".to_owned(), fields(&[("checks", NO_DIGEST)]))
        }),
    ]
}

const NO_DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
const NO_FILE: &str = "/edit/0000000000000000000000000000000000000000000000000000000000000000";

/// Those about the server's machine are refused for every role.
fn forms_of_settings() -> Vec<(&'static str, Form)> {
    vec![
        ("AdministrationForm::Set", |_| {
            ("/settings/set".to_owned(), fields(&[("key", "log.filter"), ("value", "debug")]))
        }),
        ("AdministrationForm::AddSource", |_| {
            ("/settings/sources/add".to_owned(), fields(&[("kind", "folder"), ("path", "/")]))
        }),
        ("AdministrationForm::RemoveSource", |_| {
            ("/settings/sources/remove".to_owned(), fields(&[("source", "x")]))
        }),
        ("AdministrationForm::SyncSource", |_| {
            ("/settings/sources/sync".to_owned(), fields(&[("source", "x")]))
        }),
        ("AdministrationForm::TrustChecks", |_| {
            ("/settings/checks/trust".to_owned(), fields(&[("checks", NO_DIGEST)]))
        }),
        ("AdministrationForm::RevokeCheck", |_| {
            ("/settings/checks/revoke".to_owned(), fields(&[("check", "test")]))
        }),
        ("AdministrationForm::Copy", |_| {
            ("/workflows/team.gated/copy".to_owned(), fields(&[("id", "my.copy")]))
        }),
        (r#"["edit", key]"#, |_| (NO_FILE.to_owned(), fields(&[("action", "save"), ("text", "{}")]))),
        (r#"["edit", key, "check"]"#, |_| (format!("{NO_FILE}/check"), fields(&[("text", "{}")]))),
        ("AdministrationForm::CleanUp", |member| {
            let planned = member.shown("/settings/cleanup", "planned");
            ("/settings/cleanup".to_owned(), fields(&[("typed", "delete"), ("planned", &planned)]))
        }),
        ("AdministrationForm::RotateKeys", |_| {
            ("/settings/keys/rotate".to_owned(), fields(&[("typed", "rotate")]))
        }),
        (r#"["theme"]"#, |_| ("/theme".to_owned(), fields(&[("theme", "dark")]))),
        (r#"["logout"]"#, |_| ("/logout".to_owned(), vec![])),
    ]
}

fn outcome(answer: &Answer) -> &'static str {
    match answer.status {
        200 | 303 => "done",
        403 => "denied",
        409 => "refused",
        other => panic!("{other} {}", answer.body),
    }
}

#[test]
fn the_role_table_of_forms() {
    let mut outcomes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut answers = Vec::new();
    for role in ROLES {
        let mut member = Member::new(role);
        let imported = member.import();
        outcomes.entry(IMPORT).or_default().push(outcome(&imported));
        answers.push(imported);
        for (name, form) in forms() {
            let form = form(&mut member);
            let answer = member.send_as(&member.browser, &form);
            outcomes.entry(name).or_default().push(outcome(&answer));
            answers.push(answer);
        }
        member.server.end("TERM");
    }
    let [viewer, agent, approver, admin] = ROLES;
    let mut table = format!("{:35} {viewer:9} {agent:9} {approver:9} {admin}\n", "");
    for (name, outcomes) in outcomes {
        let [viewer, agent, approver, admin] = outcomes.try_into().unwrap();
        table.push_str(&format!("{name:35} {viewer:9} {agent:9} {approver:9} {admin}\n"));
    }
    insta::assert_snapshot!(table);
    // The same status could mean that a form was not sent from a page of the console.
    let denied = answers.iter().filter(|answer| answer.status == 403);
    let reasons: BTreeSet<String> = denied.map(|answer| page::words(&answer.body)).collect();
    insta::assert_snapshot!("reasons_why_forms_are_denied", Vec::from_iter(reasons).join("\n\n"));
}

fn source(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../console/src");
    fs::read_to_string(folder.join(file)).unwrap()
}

/// The variants of a type, as `Type::Variant`.
fn variants(file: &str, name: &str) -> Vec<String> {
    let source = source(file);
    let (_, rest) = source.split_once(&format!("pub(crate) enum {name} {{\n")).unwrap();
    let (body, _) = rest.split_once("\n}").unwrap();
    let lines =
        body.lines().map(str::trim).filter(|line| line.starts_with(|first: char| first.is_uppercase()));
    lines.map(|line| format!("{name}::{}", line.split([',', '(']).next().unwrap())).collect()
}

/// Whoever adds a form decides here which roles may send it.
#[test]
fn every_form_has_a_row() {
    let source = source("request.rs");
    let (_, rest) = source.split_once("async fn post(").unwrap();
    let (post, _) = rest.split_once("\n    }\n").unwrap();
    let parsed: BTreeSet<&str> = post
        .rsplit("::parse(")
        .skip(1)
        .filter_map(|before| before.rsplit(|letter: char| !letter.is_alphanumeric()).next())
        .collect();
    let types = FORM_TYPES.iter().map(|(_, name)| *name).chain(["SessionId", "RunId"]);
    assert_eq!(parsed, types.collect(), "the types that addresses of forms are parsed into");

    let arms = post.lines().filter_map(|line| line.trim().strip_prefix('[')?.split_once("] =>"));
    let compared = post.lines().filter_map(|line| line.trim().strip_prefix("if ")?.strip_suffix(" {"));
    let found: BTreeSet<String> = arms
        .map(|(arm, _)| format!("[{arm}]"))
        .filter(|arm| !DISPATCHED.contains(&arm.as_str()))
        .chain(compared.filter(|test| test.starts_with("path ")).map(str::to_owned))
        .chain(FORM_TYPES.iter().flat_map(|(file, name)| variants(file, name)))
        .collect();
    let rows = forms().into_iter().map(|(name, _)| name.to_owned()).chain([IMPORT.to_owned()]);
    assert_eq!(found, rows.collect());
}
