//! Damaged sessions in every list of sessions: they are never hidden.

use workrail_core::overview::DamagedRow;

use crate::layout::{self, Column, ColumnFit};
use crate::output::{self, Tone};
use crate::runs;

const COLUMNS: [Column; 3] = [
    Column { title: "SESSION", fit: ColumnFit::Whole },
    Column { title: "RUNS", fit: ColumnFit::Cut { min: 13, good: 13 } },
    Column { title: "PROBLEM", fit: ColumnFit::Cut { min: 20, good: 20 } },
];

pub(super) fn print(damaged: &[DamagedRow]) {
    if damaged.is_empty() {
        return;
    }
    output::toned(Tone::Warning, &format!("\nDamaged or unreadable sessions: {}", damaged.len()));
    let cells: Vec<Vec<String>> = damaged
        .iter()
        .map(|row| {
            let damage = row.health.damage().unwrap_or_default();
            vec![row.session_id.to_string(), row.labels.join(", "), damage]
        })
        .collect();
    let lines = layout::table(&COLUMNS, &cells, output::columns());
    runs::list::with_quiet_heading(lines).iter().for_each(output::print);
}
