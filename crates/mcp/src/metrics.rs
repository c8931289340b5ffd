//! A team server's metrics for Prometheus. They contain no content: only tools, outcomes, times, and how the store is
//! used.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use strum::IntoStaticStr;
use workrail_model::tool::ToolName;

/// Upper bounds of the duration buckets, in milliseconds.
const BOUNDS_MS: [u64; 9] = [5, 10, 25, 50, 100, 250, 1000, 2500, 10_000];

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RefusalReason {
    Host,
    Origin,
    /// No token, or an invalid one.
    Token,
    /// The member sent more requests than one member may.
    Quota,
    /// The store was not available to check the token.
    Store,
    /// The access tokens cannot be used, so no token can be checked.
    AccessTokens,
    /// Too many tokens that are not known yet were being checked.
    UnknownTokens,
}

/// What a server's store counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreNumbers {
    pub appends: u64,
    pub conflicts: u64,
    /// Connections to a database; empty for a data directory.
    pub pools: Vec<PoolNumbers>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolNumbers {
    pub name: &'static str,
    pub size: usize,
    pub used: usize,
    pub waits: u64,
}

impl StoreNumbers {
    fn write(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "# HELP workrail_appends_total Appends that this process recorded.\n# TYPE workrail_appends_total counter\n\
             workrail_appends_total {}\n\
             # HELP workrail_conflicts_total Writes that conflicted with another writer.\n\
             # TYPE workrail_conflicts_total counter\nworkrail_conflicts_total {}\n",
            self.appends, self.conflicts
        );
        if self.pools.is_empty() {
            return;
        }
        type PoolCounter = fn(&PoolNumbers) -> u64;
        let of_pools: [(&str, &str, &str, PoolCounter); 3] = [
            ("size", "gauge", "Connections that a pool may have.", |pool| pool.size as u64),
            ("in_use", "gauge", "Connections that are in use.", |pool| pool.used as u64),
            ("waits_total", "counter", "How often a call waited for a connection.", |pool| pool.waits),
        ];
        for (name, kind, help, number) in of_pools {
            let _ = writeln!(text, "# HELP workrail_pool_{name} {help}\n# TYPE workrail_pool_{name} {kind}");
            for pool in &self.pools {
                let _ = writeln!(text, "workrail_pool_{name}{{pool=\"{}\"}} {}", pool.name, number(pool));
            }
        }
    }
}

#[derive(Debug, Default)]
pub struct Metrics(Mutex<CallCounts>);

#[derive(Debug, Default)]
struct CallCounts {
    calls: BTreeMap<(ToolName, String), u64>,
    durations: BTreeMap<ToolName, Durations>,
    refused: BTreeMap<RefusalReason, u64>,
    refused_connections: u64,
}

#[derive(Debug, Default)]
struct Durations {
    /// How many calls took at most each bound.
    within: [u64; BOUNDS_MS.len()],
    count: u64,
    sum: Duration,
}

impl Metrics {
    /// Counts a call; the outcome is `ok`, `blocked` or an error code.
    pub fn call(&self, tool: ToolName, outcome: &str, took: Duration) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.calls.entry((tool, outcome.to_owned())).or_default() += 1;
        let durations = counts.durations.entry(tool).or_default();
        durations.count += 1;
        durations.sum += took;
        for (within, bound) in durations.within.iter_mut().zip(BOUNDS_MS) {
            *within += u64::from(took <= Duration::from_millis(bound));
        }
    }

    pub fn refused(&self, why: RefusalReason) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.refused.entry(why).or_default() += 1;
    }

    /// Counts a connection that was closed unread, because its address holds as many as it may.
    pub(crate) fn connection_refused(&self) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.refused_connections += 1;
    }

    /// The text format of Prometheus.
    pub fn text(&self, store: &StoreNumbers) -> String {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::from(
            "# HELP workrail_calls_total Tool calls by outcome.\n# TYPE workrail_calls_total counter\n",
        );
        // Writing to a string cannot fail.
        for ((tool, outcome), count) in &counts.calls {
            let _ = writeln!(text, "workrail_calls_total{{tool=\"{tool}\",outcome=\"{outcome}\"}} {count}");
        }
        text.push_str(
            "# HELP workrail_call_seconds How long tool calls took.\n# TYPE workrail_call_seconds histogram\n",
        );
        for (tool, durations) in &counts.durations {
            for (within, bound) in durations.within.iter().zip(BOUNDS_MS) {
                let bound = Duration::from_millis(bound).as_secs_f64();
                let _ =
                    writeln!(text, "workrail_call_seconds_bucket{{tool=\"{tool}\",le=\"{bound}\"}} {within}");
            }
            let (count, sum) = (durations.count, durations.sum.as_secs_f64());
            let _ = writeln!(text, "workrail_call_seconds_bucket{{tool=\"{tool}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "workrail_call_seconds_sum{{tool=\"{tool}\"}} {sum}");
            let _ = writeln!(text, "workrail_call_seconds_count{{tool=\"{tool}\"}} {count}");
        }
        text.push_str(
            "# HELP workrail_refused_total Requests, live pages and connections that were refused.\n\
             # TYPE workrail_refused_total counter\n",
        );
        for (why, count) in &counts.refused {
            let _ = writeln!(text, "workrail_refused_total{{reason=\"{}\"}} {count}", why.into_str());
        }
        let connections = counts.refused_connections;
        let _ = writeln!(text, "workrail_refused_total{{reason=\"connections\"}} {connections}");
        store.write(&mut text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_tool_outcome_and_time() {
        let metrics = Metrics::default();
        metrics.call(ToolName::ReadRun, "ok", Duration::from_millis(7));
        metrics.call(ToolName::ReadRun, "SESSION_NOT_FOUND", Duration::from_secs(20));
        metrics.refused(RefusalReason::Token);
        metrics.connection_refused();
        let pools = vec![PoolNumbers { name: "writers", size: 8, used: 2, waits: 5 }];
        let text = metrics.text(&StoreNumbers { appends: 3, conflicts: 1, pools });
        for line in [
            "workrail_calls_total{tool=\"read_run\",outcome=\"ok\"} 1",
            "workrail_calls_total{tool=\"read_run\",outcome=\"SESSION_NOT_FOUND\"} 1",
            "workrail_call_seconds_bucket{tool=\"read_run\",le=\"0.005\"} 0",
            "workrail_call_seconds_bucket{tool=\"read_run\",le=\"0.01\"} 1",
            "workrail_call_seconds_bucket{tool=\"read_run\",le=\"+Inf\"} 2",
            "workrail_call_seconds_sum{tool=\"read_run\"} 20.007",
            "workrail_refused_total{reason=\"token\"} 1",
            "workrail_refused_total{reason=\"connections\"} 1",
            "workrail_appends_total 3",
            "workrail_conflicts_total 1",
            "workrail_pool_size{pool=\"writers\"} 8",
            "workrail_pool_in_use{pool=\"writers\"} 2",
            "workrail_pool_waits_total{pool=\"writers\"} 5",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
        }
    }
}
