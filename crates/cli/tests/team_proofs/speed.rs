//! What an advance costs on a database, compared with the same advance on a data directory, with the same program on
//! the same machine in the same run.

use std::time::{Duration, Instant};

use serde_json::json;
use workrail_testkit::bare_rows::{self, Rows, SegmentPosition};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{McpClient, ToolReply};
use workrail_testkit::postgres::{Cluster, ROLE};

use crate::is_full;

/// An advance on a database takes at most this many times as long as one on a data directory, on an idle machine.
const RATIO_MAX: f64 = 3.0;
/// Steps per run: real sessions have tens of steps, not thousands.
const STEPS_PER_RUN: usize = 20;

/// A run that is advanced and timed, and restarted after some steps.
struct Runner {
    client: McpClient,
    reply: Option<ToolReply>,
    steps: usize,
}

impl Runner {
    fn at(home: &Home) -> Self {
        Self { client: home.client(), reply: None, steps: 0 }
    }

    fn advance(&mut self) -> Duration {
        if self.steps.is_multiple_of(STEPS_PER_RUN) {
            let start = json!({ "workflowId": "team.long", "goal": "repair the teapot" });
            self.reply = Some(self.client.call("start_workflow", start));
        }
        self.steps += 1;
        let ack = self.reply.as_ref().unwrap().string("ackToken");
        let output = json!({ "notesMarkdown": "The parser, the lexer and their tests were changed." });
        let begin = Instant::now();
        let next = self.client.call("continue_workflow", json!({ "ackToken": ack, "output": output }));
        let taken = begin.elapsed();
        assert!(!next.is_error, "{}", next.text);
        self.reply = Some(next);
        taken
    }
}

pub(crate) fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn figure_an_advance_on_a_database() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let database = cluster.database();
    let rounds = if is_full() { 400 } else { 60 };
    let directory = crate::home_with_long_workflow();
    let shared = directory.with("WORKRAIL_STORE", cluster.address(&database, ROLE, "team"));
    let (mut on_directory, mut on_database) = (Runner::at(&directory), Runner::at(&shared));
    let mut connection = bare_rows::connect(&cluster, &database);
    let rows: Vec<Rows> = bare_rows::one_run(1, rounds).iter().map(Rows::of).collect();
    rows[0].write(&mut connection, SegmentPosition::First);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for row in &rows[1..] {
        times[0].push(on_directory.advance());
        times[1].push(on_database.advance());
        let begin = Instant::now();
        row.write(&mut connection, SegmentPosition::Later);
        times[2].push(begin.elapsed());
    }
    let [floor, taken, bare] = times.map(middle);
    let ratio = taken.as_secs_f64() / floor.as_secs_f64();
    println!(
        "an advance: {taken:.1?} on a database, {floor:.1?} on a data directory, ratio {ratio:.2} (at most {RATIO_MAX}); \
         a bare transaction {bare:.1?}, ratio {:.1}",
        taken.as_secs_f64() / bare.as_secs_f64()
    );
    // The sample runs on any machine, whatever else that does; it only prints.
    assert!(!is_full() || ratio <= RATIO_MAX, "{ratio:.2}");
}
