//! Servers that start at the same moment register themselves and share the clean-up of old logs.
#![expect(clippy::disallowed_methods, reason = "old logs are made as another program would leave them")]
mod support;

use std::sync::{Arc, Barrier};

use workrail_model::digest::Sha256;
use workrail_model::id::ServerId;
use workrail_model::server::{ServerRecord, Transport};
use workrail_ports::servers::ServerDirectory as _;
use workrail_store_fs::disk::Disk;
use workrail_testkit::fixed;

fn record(number: u8) -> ServerRecord {
    ServerRecord {
        v: ServerRecord::VERSION,
        server_id: ServerId::from_bits([number; 10]),
        version: "test".to_owned(),
        process_id: u32::from(number),
        parent: None,
        transport: Transport::Stdio,
        started_at: fixed::epoch(),
        applied_config_hash: Sha256::of(b"settings"),
        settings: Default::default(),
    }
}

#[test]
fn many_servers_that_start_at_once_are_all_listed() {
    const SERVERS: u8 = 12;
    let folder = tempfile::tempdir().expect("a folder");
    let root = camino::Utf8Path::from_path(folder.path()).expect("a path in UTF-8");
    let store = Arc::new(support::open(Disk::open(root).expect("a fresh data directory opens")));
    drop(Arc::clone(&store).register(&record(99)).expect("the folder of logs is made"));
    for old in 0..500 {
        let name = format!("20200101000000{old:03}-srv_old.jsonl");
        std::fs::write(root.join("logs").join(name), "").expect("an old log");
    }
    let together = Barrier::new(usize::from(SERVERS));
    let registered: Vec<_> = std::thread::scope(|scope| {
        let start = |number| {
            let (store, together) = (Arc::clone(&store), &together);
            scope.spawn(move || {
                together.wait();
                store.register(&record(number))
            })
        };
        let started: Vec<_> = (1..=SERVERS).map(start).collect();
        started.into_iter().map(|server| server.join().expect("no panic").expect("it is listed")).collect()
    });
    assert_eq!(store.servers().expect("the list").len(), usize::from(SERVERS));
    drop(registered);
}
