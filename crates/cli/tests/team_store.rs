//! Two machines share one history in PostgreSQL, through the real binary (G102, G103).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;

use serde_json::{Value, json};
use workrail_core::derive;
use workrail_core::resume::terms;
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::ToolReply;
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::team::{Team, advance, label_of, session_of, start};

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");
const GOAL: &str = "repair the teapot";

/// One machine starts, another continues, and the tokens of one are valid on the other.
#[test]
fn a_run_started_on_one_machine_continues_on_another() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let (laptop, desktop) = (team.machine(), team.machine());
    let mut here = laptop.client();
    let first = start(&laptop, &mut here, GOAL);
    let second = advance(&mut here, &first, "the spout is cracked");
    let label = label_of(&second);
    assert!(
        !laptop.data().join("sessions").join(session_of(&second)).exists(),
        "no session is in the directory"
    );

    let mut there = desktop.client();
    let resumed = there.call("resume_session", json!({ "run": label }));
    assert!(!resumed.is_error && resumed.text.contains("the spout is cracked"), "{}", resumed.text);
    // A server that never saw the recorded call answers it again.
    let replayed = advance(&mut there, &first, "the spout is cracked");
    assert_eq!(replayed.string("ackToken"), second.string("ackToken"));
    let third = advance(&mut there, &second, "glued");
    let seen = here.call("resume_session", json!({ "run": label }));
    assert!(seen.text.contains("glued"), "{}", seen.text);
    drop((here, there, third));

    for machine in [&laptop, &desktop] {
        let listed = machine.done(&["session", "list", "--json"]).json();
        assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1), "{listed}");
        assert!(machine.done(&["show", &label]).out.contains(&label));
        assert!(machine.done(&["report", &label]).out.contains("glued"));
        let verified = machine.done(&["store", "verify", "--json"]).json();
        assert_eq!(verified["counts"]["problems"], 0, "{verified}");
        assert_eq!(verified["counts"]["sessions"], 1, "{verified}");
    }
}

fn exported(machine: &Home, session: &str) -> Vec<u8> {
    let path = machine.project().join("exported.json");
    machine.done(&["session", "export", session, "-o", path.to_str().unwrap(), "--force"]);
    fs::read(path).unwrap()
}

/// The lines of a bundle, except those about this export: its id, its time and the settings of the exporting program.
fn of_every_export(bundle: &[u8]) -> Vec<String> {
    let text = String::from_utf8(bundle.to_vec()).unwrap();
    let is_about_export = |line: &&str| {
        ["bundleId", "exportedAt", "producer"].iter().any(|member| {
            line.starts_with(&format!("\"{member}\":")) || line.contains(&format!("\"path\":\"{member}\""))
        })
    };
    let lines: Vec<String> = text.lines().filter(|line| !is_about_export(line)).map(str::to_owned).collect();
    assert_eq!(text.lines().count() - lines.len(), 6, "three members and their digests");
    lines
}

/// The database holds the same bytes as a directory.
#[test]
fn bundles_from_a_directory_and_from_a_database_are_equal() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let alone = Home::new(PROGRAM);
    let mut client = alone.client();
    let first = start(&alone, &mut client, GOAL);
    let session = session_of(&advance(&mut client, &first, "the spout is cracked"));
    client.close();
    let bundle = alone.project().join("work.json");
    fs::write(&bundle, exported(&alone, &session)).unwrap();

    let (directory, database) = (Home::new(PROGRAM), team.machine());
    for machine in [&directory, &database] {
        machine.done(&["session", "import", bundle.to_str().unwrap()]);
    }
    let (from_database, from_directory) = (exported(&database, &session), exported(&directory, &session));
    assert_eq!(of_every_export(&from_database), of_every_export(&from_directory));
}

/// An altered row is detected, and the rest of the session is shown but not continued.
#[test]
fn an_altered_row_is_detected_and_not_continued_from() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = team.machine();
    let mut client = machine.client();
    let first = start(&machine, &mut client, GOAL);
    let second = advance(&mut client, &first, "the spout is cracked");
    client.close();
    let alter = "UPDATE workrail.segment SET events = convert_to(replace(convert_from(events, 'UTF8'), 'cracked', 'CRACKED'), 'UTF8')";
    team.cluster.sql(&team.database, alter);
    let verified = machine.run(&["store", "verify", "--json"]);
    assert_eq!(verified.code, 1, "{}", verified.err);
    let problem = verified.json()["problems"][0]["problem"].as_str().unwrap().to_owned();
    insta::assert_snapshot!(problem);
    let mut client = machine.client();
    let call = json!({ "ackToken": second.string("ackToken"), "output": { "notesMarkdown": "glued" } });
    assert_eq!(client.call("continue_workflow", call).code(), "SESSION_CORRUPT");
}

/// Commands that need a directory are refused with an alternative; `--store` and the settings also name the store.
#[test]
fn commands_for_directories_are_refused_with_what_to_do_instead() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = team.machine();
    let mut refusals = String::new();
    for arguments in [["store", "backup", "/nowhere"], ["store", "restore", "/nowhere"]] {
        let refused = machine.run(&arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {}{}", refused.out, refused.err);
        refusals.push_str(&refused.err);
    }
    insta::assert_snapshot!(team.plain(&refusals));

    let plain = Home::new(PROGRAM);
    let listed = plain.done(&["session", "list", "--json", "--store", &team.address()]).json();
    assert_eq!(listed["runs"], json!([]));
    assert_eq!(plain.run(&["store", "backup", "/nowhere", "--store", &team.address()]).code, 2);
    plain.write(&plain.config(), &format!("store = \"{}\"\n", team.address()));
    assert_eq!(plain.run(&["store", "backup", "/nowhere"]).code, 2);
    assert_eq!(plain.run(&["doctor"]).out.matches("PostgreSQL").count(), 1);
}

/// From the environment and from a private file; nothing printed, logged or exported contains it.
#[test]
fn a_password_is_used_and_never_shown() {
    const SECRET: &str = "s3cret-7f3a";
    let Some(cluster) = Cluster::start(&[]) else { return };
    let database = cluster.database();
    cluster.sql("postgres", &format!("ALTER ROLE {ROLE} PASSWORD '{SECRET}'"));
    cluster.require_passwords();
    let address = cluster.address(&database, ROLE, "team");
    let machine = Home::new(PROGRAM).with("WORKRAIL_LOG", "trace");

    let asked = machine.with("WORKRAIL_STORE", &address);
    assert_eq!(asked.run(&["session", "list"]).code, 1, "without a password nobody is let in");
    let by_variable = asked.with("WORKRAIL_STORE_PASSWORD", SECRET);
    let file = machine.home().join("password");
    machine.write(&file, &format!("{SECRET}\n"));
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let by_file = machine.with("WORKRAIL_STORE", format!("{address}&password_file={}", file.display()));

    let mut client = by_variable.client();
    let session = session_of(&start(&machine, &mut client, GOAL));
    let (_, logged) = client.end();
    let bundle = String::from_utf8(exported(&by_file, &session)).unwrap();
    let mut shown = vec![logged, bundle];
    for machine in [&by_variable, &by_file, &asked.with("WORKRAIL_STORE_PASSWORD", format!("{SECRET}-wrong"))]
    {
        for arguments in
            [&["doctor"][..], &["session", "list", "--json"], &["config", "list"], &["store", "verify"]]
        {
            let ran = machine.run(arguments);
            shown.extend([ran.out, ran.err]);
        }
    }
    let inline = address.replacen(ROLE, &format!("{ROLE}:{SECRET}"), 1);
    let refused = machine.run(&["session", "list", "--store", &inline]);
    assert_eq!(refused.code, 2, "a password in the address is refused");
    shown.extend([refused.out, refused.err]);
    for text in shown {
        assert!(!text.contains(SECRET), "{text}");
    }
    let rows: Value = by_file.done(&["session", "list", "--json"]).json();
    assert_eq!(rows["runs"].as_array().map(Vec::len), Some(1), "{rows}");
}

/// docs/team.md says so: a server reads the file of the password when it starts.
#[test]
fn a_server_uses_a_changed_password_after_a_restart() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let database = cluster.database();
    cluster.require_passwords();
    let machine = Home::new(PROGRAM);
    let file = machine.home().join("password");
    let change_to = |password: &str| {
        cluster.sql("postgres", &format!("ALTER ROLE {ROLE} PASSWORD '{password}'"));
        machine.write(&file, password);
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    };
    let address = format!("{}&password_file={}", cluster.address(&database, ROLE, "team"), file.display());
    let machine = machine.with("WORKRAIL_STORE", address);
    change_to("the-first");
    let mut client = machine.client();
    let first = start(&machine, &mut client, GOAL);
    change_to("the-second");
    let second = advance(&mut client, &first, "over the open connection");
    let end = format!(
        "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE usename = '{ROLE}'"
    );
    assert_ne!(cluster.sql("postgres", &end), "0");
    let call =
        json!({ "ackToken": second.string("ackToken"), "output": { "notesMarkdown": "over a new one" } });
    assert!(client.call("continue_workflow", call).is_error, "the server has the old password");
    client.close();
    advance(&mut machine.client(), &second, "after a restart");
}

/// One tenant's ack is signed with keys that another does not have, and names a session that it cannot see (G103).
#[test]
fn tokens_of_one_tenant_mean_nothing_in_another() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let machine =
        |tenant: &str| Home::new(PROGRAM).with("WORKRAIL_STORE", cluster.address(&database, ROLE, tenant));
    let (red, blue) = (machine("red"), machine("blue"));
    let (mut here, mut there) = (red.client(), blue.client());
    let first = start(&red, &mut here, GOAL);
    start(&blue, &mut there, "polish the kettle");
    let ack = json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": "stolen" } });
    assert_eq!(there.call("continue_workflow", ack).code(), "TOKEN_BAD_SIGNATURE");
    for named in [label_of(&first), session_of(&first)] {
        let read = there.call("read_run", json!({ "run": named }));
        assert!(read.is_error && !read.text.contains(GOAL), "{}", read.text);
    }
    let found = there.call("resume_session", json!({ "query": GOAL }));
    assert!(!found.text.contains(GOAL), "{}", found.text);
    // The other tenant's keys would not help: the session does not exist there.
    let keys = "UPDATE workrail.keyring SET (current, previous, check_digest) = \
                (SELECT current, previous, check_digest FROM workrail.keyring WHERE tenant = 'red') WHERE tenant = 'blue'";
    cluster.sql(&database, keys);
    let mut there = blue.client();
    let ack = json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": "stolen" } });
    let refused = there.call("continue_workflow", ack);
    assert!(refused.is_error, "{}", refused.text);
    let second = advance(&mut here, &first, "the spout is cracked");
    assert_ne!(second.string("ackToken"), first.string("ackToken"));
}

/// G81: recipients of a redacted bundle do not learn who worked on it.
#[test]
fn a_redacted_export_names_nobody() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = team.machine();
    let mut client = machine.client();
    let session = session_of(&start(&machine, &mut client, GOAL));
    client.close();
    let events = |bundle: &[u8]| -> Vec<Value> {
        let bundle: Value = serde_json::from_slice(bundle).unwrap();
        bundle["session"]["events"].as_array().unwrap().clone()
    };
    let named =
        events(&exported(&machine, &session)).iter().filter(|event| event.get("actor").is_some()).count();
    assert_ne!(named, 0);
    let path = machine.project().join("redacted.json");
    let told = machine
        .done(&["session", "export", &session, "-o", path.to_str().unwrap(), "--redact", "--json"])
        .json();
    assert_eq!(told["redaction"]["actorsRemoved"], named, "{told}");
    assert!(events(&fs::read(&path).unwrap()).iter().all(|event| event.get("actor").is_none()));
    let elsewhere = Home::new(PROGRAM);
    elsewhere.done(&["session", "import", path.to_str().unwrap()]);
    assert_eq!(elsewhere.done(&["store", "verify", "--json"]).json()["counts"]["problems"], 0);
}

/// G127: a database's index finds the same runs, in the same order, as reading everything.
#[test]
fn a_database_finds_and_lists_what_a_directory_does() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let directory = Home::new(PROGRAM);
    let mut client = directory.client();
    let things = ["teapot", "kettle", "samovar", "cup", "teapot and the kettle"];
    let mut label = String::new();
    for (number, thing) in (0..10).zip(things.iter().cycle()) {
        let first = start(&directory, &mut client, &format!("repair the {thing}"));
        let mut reply = first;
        for step in 0..number % 4 {
            reply = advance(
                &mut client,
                &reply,
                &format!("the spout of number {number} is cracked, part {step}"),
            );
        }
        label = label_of(&reply);
    }
    let (data, address) = (directory.data().to_str().unwrap().to_owned(), team.address());
    directory.done(&["store", "copy", &data, &address, "--with-keys"]);
    let database = directory.with("WORKRAIL_STORE", &address);
    let mut there = database.client();
    let queries = [
        json!({}),
        json!({ "query": "teapot" }),
        json!({ "query": "the kettle of number 7" }),
        json!({ "query": "cracked spouts" }),
        json!({ "query": "nothing like it" }),
        json!({ "query": label }),
        json!({ "run": label }),
        json!({ "run": "amber-falcon" }),
        json!({ "gitBranch": "main" }),
    ];
    // Every shown step has a fresh ack, so the texts differ.
    let found = |reply: &ToolReply| {
        let candidates = reply.data["candidates"].as_array().cloned().unwrap_or_default();
        let members = ["label", "reason", "status", "stepTitle", "goal", "snippet", "nextCall"];
        let shown = candidates.iter().map(|candidate| members.map(|member| candidate[member].clone()));
        let about = ["searchedRuns", "unhealthySessions", "code"].map(|member| reply.data[member].clone());
        (shown.collect::<Vec<_>>(), about)
    };
    for query in queries {
        let here = client.call("resume_session", query.clone());
        let there = there.call("resume_session", query.clone());
        assert_eq!(found(&here), found(&there), "{query}");
    }
    for arguments in [
        &["session", "list", "--json"][..],
        &["session", "list", "--json", "--limit", "3"],
        &["status", "--json"],
    ] {
        let [here, there] = [&directory, &database].map(|home| home.done(arguments).json());
        assert_eq!(here, there, "{arguments:?}");
    }
    for named in [label.clone(), label[..label.len() - 1].to_owned()] {
        let [here, there] = [&directory, &database].map(|home| home.done(&["show", &named]).out);
        assert_eq!(here, there, "{named}");
    }
}

/// A repair cannot bring back events whose row was deleted, so it names them.
#[test]
fn a_repair_says_which_recorded_events_are_gone() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = team.machine();
    let mut client = machine.client();
    let first = start(&machine, &mut client, GOAL);
    let second = advance(&mut client, &first, "the spout is cracked");
    client.close();
    let last = "DELETE FROM workrail.segment WHERE first_event = (SELECT max(first_event) FROM workrail.segment) \
                RETURNING first_event || ' to ' || next_event - 1";
    let gone = team.cluster.sql(&team.database, last);
    let gone = gone.lines().next().unwrap();
    let session = session_of(&second);
    let planned = machine.run(&["store", "repair", &session, "--dry-run"]).out;
    assert!(planned.contains(gone), "{gone}: {planned}");
    insta::assert_snapshot!(team.plain(&planned).replace(&session, "SESSION"));
}

/// The next step for a flag is not the settings file.
#[test]
fn a_password_in_the_option_leads_to_where_it_can_be_given() {
    let refused = Home::new(PROGRAM).run(&["status", "--store", "postgres://agent:hunter2@localhost/team"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("WORKRAIL_STORE_PASSWORD_FILE"), "{}", refused.err);
    assert!(!refused.err.contains("config edit") && !refused.err.contains("hunter2"), "{}", refused.err);
}

/// The key is looked up in the index. A run of a version that did not record its key is found by reading every summary,
/// also if there are more such runs than one query returns.
#[test]
fn a_key_that_started_a_run_starts_none_in_another_session() {
    let Some(team) = Team::new(PROGRAM) else { return };
    let machine = team.machine();
    let mut client = machine.client();
    // More runs than one query returns for a term (see SESSIONS_PER_TERM_MAX), in sessions that sort before the child's.
    let mut others: Vec<ToolReply> = (0..140)
        .map(|number| {
            let key = format!("other-{number}");
            let call = json!({ "workflowId": "wr.small_change", "goal": GOAL, "idempotencyKey": key });
            client.call("start_workflow", call)
        })
        .collect();
    let started_in: Vec<String> = others.iter().map(session_of).collect();
    others.sort_by_key(session_of);
    let parents = [others.len() - 1, 0].map(|at| others[at].clone());
    let alone = json!({ "workflowId": "wr.small_change", "goal": GOAL, "idempotencyKey": "child" });
    let child = |parent: &ToolReply| {
        let mut call = alone.clone();
        call["parent"] = json!(parent.string("stateToken"));
        call
    };
    let started = client.call("start_workflow", child(&parents[0]));
    assert!(!started.is_error, "{}", started.text);
    let elsewhere = [child(&parents[1]), alone.clone()];
    let assert_refused = || {
        let mut fresh = machine.client();
        for call in &elsewhere {
            let refused = fresh.call("start_workflow", call.clone());
            assert!(refused.is_error && refused.text.contains(&label_of(&started)), "{}", refused.text);
        }
        let again = fresh.call("start_workflow", child(&parents[0]));
        assert_eq!(label_of(&again), label_of(&started));
    };
    assert_refused();

    let unknown = terms::of_unknown_start_key();
    let hex = |term: u64| format!("{:016x}", term.swap_bytes());
    let older = |key: &str| {
        let known = terms::of_start_key(derive::start_key_digest(key));
        let (from, to) = (hex(known), hex(unknown));
        let (known, unknown) = (known.cast_signed(), unknown.cast_signed());
        format!(
            "UPDATE workrail.session_summary SET terms = array_replace(terms, {known}, {unknown}),
                 summary = decode(replace(encode(summary, 'hex'), '{from}', '{to}'), 'hex') WHERE {known} = ANY (terms);
             UPDATE workrail.indexed_term SET term = {unknown} WHERE term = {known};"
        )
    };
    // The session of the child has a run with a key of its own.
    let of_child = session_of(&parents[0]);
    let keys = (0..140).map(|number| format!("other-{number}"));
    let keys = keys.zip(&started_in).filter(|(_, session)| **session != of_child).map(|(key, _)| key);
    let statements: String = keys.chain(["child".to_owned()]).map(|key| older(&key)).collect();
    team.cluster.sql(&team.database, &statements);
    let changed =
        format!("SELECT count(*) FROM workrail.indexed_term WHERE term = {}", unknown.cast_signed());
    assert_eq!(team.cluster.sql(&team.database, &changed), "140");
    assert_refused();
}
