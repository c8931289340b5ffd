//! What folding costs: compared to parsing the same events, and for one more event after many or few.
//!
//! Prints medians. Targets: folding is not slower than parsing (ratio at most 1), and one more event after
//! 100,000 costs at most 1.2 times what it costs after 1,000.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and reports"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use workrail_core::project::SessionState;
use workrail_model::event::Event;
use workrail_testkit::history::{AdvancePayload, History};

const FEW: usize = 1_000;
const MANY: usize = 100_000;
/// One event takes less than the clock's resolution: this many are timed together.
const NEXT: usize = 1_000;
const REPETITIONS: usize = 15;

fn main() {
    let events = history(MANY + NEXT);
    let records: Vec<Vec<u8>> =
        events[..MANY].iter().map(|event| event.to_canonical().expect("events are canonical")).collect();

    let parse = median(7, || {
        let start = Instant::now();
        let parsed: Vec<Event> =
            records.iter().map(|record| Event::parse(record).expect("written above")).collect();
        let took = start.elapsed();
        black_box(parsed);
        took
    });
    let fold = median(7, || {
        let start = Instant::now();
        let state = folded(&events[..MANY]);
        let took = start.elapsed();
        black_box(state);
        took
    });
    println!("parse {MANY} events: {parse:?}");
    println!("fold {MANY} events: {fold:?}");
    println!("fold/parse ratio: {:.3}", ratio(fold, parse));

    let (few, many) = one_more(&events);
    println!("one more event after {FEW}: {:?}", few / NEXT as u32);
    println!("one more event after {MANY}: {:?}", many / NEXT as u32);
    println!("one more event 100k/1k ratio: {:.3}", ratio(many, few));

    let state = folded(&events[..MANY]);
    let run = state.runs().next().expect("one run").run_id;
    let tip = median(REPETITIONS, || {
        let start = Instant::now();
        black_box(state.preferred_tip(black_box(run)));
        start.elapsed()
    });
    println!("preferred tip after {MANY}: {tip:?}");
}

/// Alternates the two, so that fluctuations of the machine affect both.
fn one_more(events: &[Event]) -> (Duration, Duration) {
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        for (base, times) in [(FEW, &mut few), (MANY, &mut many)] {
            let mut state = folded(&events[..base]);
            let start = Instant::now();
            for event in &events[base..base + NEXT] {
                state.apply(event).expect("the history is valid");
            }
            times.push(start.elapsed());
            black_box(state);
        }
    }
    (middle(few), middle(many))
}

fn folded(events: &[Event]) -> SessionState {
    SessionState::from_events(events[0].session_id, events).expect("the history is valid")
}

fn median(repetitions: usize, mut measure: impl FnMut() -> Duration) -> Duration {
    middle((0..repetitions).map(|_| measure()).collect())
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

/// One run as agents leave it: mostly straight ahead, with refusals, retries, checkpoints and forks.
fn history(length: usize) -> Vec<Event> {
    let mut history = History::new(3);
    let mut events = history.start().events;
    let mut path = vec![history.root()];
    for round in 0_usize.. {
        if events.len() >= length {
            break;
        }
        if round % 60 == 59 {
            path.truncate(path.len().saturating_sub(5).max(1));
        }
        let at = path[path.len() - 1];
        if round.is_multiple_of(8) {
            events.extend(history.blocked(at).events);
        }
        if round.is_multiple_of(20) {
            events.extend(history.checkpoint(at).0.events);
        }
        let (parts, child) = history.advance(at, AdvancePayload::NOTES);
        events.extend(parts.events);
        path.push(child);
    }
    events.truncate(length);
    events
}
