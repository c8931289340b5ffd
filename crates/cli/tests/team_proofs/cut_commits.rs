//! The connection to the database is cut around the COMMIT of an ack, under a whole server: the agent learns that the
//! outcome is unknown, and the same ack finds the record or writes it, once (G8, G102).

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};
use workrail_testkit::postgres::{Cluster, ROLE};
use workrail_testkit::proxy::{Cut, Proxy};
use workrail_testkit::team::{access_token, call_server, serve, session_of};
use workrail_testkit::wire::Http;

use crate::PROGRAM;
use crate::recorded::{self, note};

/// How the agent reaches the store.
enum Agent {
    /// `workrail mcp`.
    Local(McpClient),
    /// `workrail serve`.
    Remote(Http, String),
}

impl Agent {
    fn call(&mut self, tool: &str, arguments: &Value) -> ToolReply {
        match self {
            Self::Local(client) => client.call(tool, arguments.clone()),
            Self::Remote(server, token) => call_server(server, token, tool, arguments),
        }
    }

    fn end(self) {
        match self {
            Self::Local(client) => assert!(client.close().success()),
            Self::Remote(server, _) => assert!(server.end("TERM").success()),
        }
    }
}

/// Advances a run while the connection is cut at every point in turn. A frozen or confused server would not get past
/// the first one.
fn advance_over_cuts(of: impl Fn(&Home) -> Agent) {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let proxy = Proxy::start(cluster.socket_folder());
    let through = format!("postgres://{ROLE}@/{database}?host={}&tenant=team", proxy.folder().display());
    let home = crate::home_with_long_workflow().with("WORKRAIL_STORE", through);
    let mut agent = of(&home);
    let mut reply =
        agent.call("start_workflow", &json!({ "workflowId": "team.long", "goal": "repair the teapot" }));
    assert!(!reply.is_error, "{}", reply.text);
    let session = session_of(&reply);
    let mut notes: Vec<String> = Vec::new();
    for cut in [Cut::BeforeCommit, Cut::DuringCommit, Cut::AfterCommit] {
        let mine = note(&format!("of-{cut:?}"));
        let call = json!({ "ackToken": reply.string("ackToken"), "output": { "notesMarkdown": mine } });
        let segments = || {
            let count = format!("SELECT count(*) FROM workrail.segment WHERE session = '{session}'");
            cluster.count(&database, &count)
        };
        let before = segments();
        proxy.arm(cut);
        let told = agent.call("continue_workflow", &call);
        assert!(told.is_error && told.code() == "STORE_IO", "{cut:?}: {}", told.text);
        assert_eq!(told.data["details"]["outcome"], "unknown", "{cut:?}: {}", told.data);
        assert_eq!(told.data["retry"]["kind"], "retryable_after_ms", "{cut:?}: {}", told.data);
        match cut {
            Cut::BeforeCommit => assert_eq!(segments(), before, "nothing was committed"),
            Cut::AfterCommit => assert_eq!(segments(), before + 1, "it was committed"),
            // The server may not have come to it yet.
            Cut::DuringCommit | Cut::BeforeStatement => {}
        }
        let done = repeated(&mut agent, &call);
        assert_eq!(segments(), before + 1, "{cut:?}: recorded once");
        let again = agent.call("continue_workflow", &call);
        assert_eq!(again.raw, done.raw, "{cut:?}: the answer was recorded with the advance");
        assert_eq!(segments(), before + 1, "{cut:?}: recorded once");
        notes.push(mine);
        assert_eq!(recorded::in_database(cluster, &database, &session), notes, "{cut:?}");
        reply = done;
    }
    // A client on another machine finds the same.
    let direct = Home::new(PROGRAM).with("WORKRAIL_STORE", cluster.address(&database, ROLE, "team"));
    assert_eq!(direct.done(&["store", "verify", "--json"]).json()["counts"]["problems"], 0);
    agent.end();
}

/// Repeats a call as its refusal asks. The server of the database may not have noticed yet that the connection, and with
/// it the lock, is gone.
fn repeated(agent: &mut Agent, call: &Value) -> ToolReply {
    loop {
        let reply = agent.call("continue_workflow", call);
        if !reply.is_error {
            return reply;
        }
        assert_eq!(reply.code(), "STORE_BUSY", "{}", reply.text);
    }
}

#[test]
fn an_ack_through_a_local_server_whose_commit_is_cut_advances_once() {
    advance_over_cuts(|home| Agent::Local(home.client()));
}

#[test]
fn an_ack_through_a_teams_server_whose_commit_is_cut_advances_once() {
    advance_over_cuts(|home| Agent::Remote(serve(home), access_token(home, "ada", "agent")));
}

/// As after a restart of the database: the agent notices nothing.
#[test]
fn an_ack_over_a_connection_that_was_lost_while_idle_advances_without_an_error() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let proxy = Proxy::start(cluster.socket_folder());
    let through = format!("postgres://{ROLE}@/{database}?host={}&tenant=team", proxy.folder().display());
    let home = crate::home_with_long_workflow().with("WORKRAIL_STORE", through);
    let mut client = home.client();
    let first =
        client.call("start_workflow", json!({ "workflowId": "team.long", "goal": "repair the teapot" }));
    proxy.fail_over();
    let mine = note("after-a-failover");
    let next = client.call("continue_workflow", first.ack(&mine));
    assert!(!next.is_error, "{}", next.text);
    assert!(proxy.lost() > 0, "no connection was lost");
    assert_eq!(recorded::in_database(cluster, &database, &session_of(&first)), [mine]);
    client.close();
}
