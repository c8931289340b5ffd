//! What a crash may and may not leave, by the durability rules of the model.

use std::collections::BTreeSet;

use workrail_ports::file_system::FileKind;

use super::rng::Rng;
use super::*;

fn path(text: &str) -> RelPath {
    RelPath::parse(text).expect("a test path is well-formed")
}

fn limits() -> CrashLimits {
    CrashLimits { random_cuts: 0, ..CrashLimits::default() }
}

/// Every image as text: `path=content` of each file, NUL shown as `0`.
fn outcomes(fs: &SimFs) -> BTreeSet<String> {
    fs.crash_images(&limits()).iter().map(text).collect()
}

fn text(fs: &SimFs) -> String {
    let file = |at: &RelPath| {
        let bytes = fs.read_raw(at).unwrap();
        format!("{at}={}", String::from_utf8(bytes).unwrap().replace('\0', "0"))
    };
    fs.all_files().iter().map(file).collect::<Vec<_>>().join(" ")
}

fn expect(fs: &SimFs, expected: &[&str]) {
    assert_eq!(outcomes(fs), expected.iter().map(|text| (*text).to_owned()).collect());
}

fn put(fs: &SimFs, at: &str, bytes: &[u8]) -> SimFile {
    let mut file = fs.create_file(&path(at)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    file
}

fn lie_once(fs: &SimFs) {
    fs.set_fault(Fault { at_op: fs.all_op_count(), kind: FaultKind::FsyncLies, mode: FaultMode::Once });
}

#[test]
fn a_synced_file_without_a_synced_name_may_vanish_but_is_never_torn() {
    let fs = SimFs::new();
    put(&fs, "a", b"abcd");
    expect(&fs, &["", "a=abcd"]);
    fs.sync_dir(&RelPath::root()).unwrap();
    expect(&fs, &["a=abcd"]);
}

#[test]
fn a_synced_name_without_synced_data_may_be_torn_but_never_vanishes() {
    let fs = SimFs::new();
    fs.create_file(&path("a")).unwrap().append(b"abcd").unwrap();
    fs.sync_dir(&RelPath::root()).unwrap();
    let torn = ["a=", "a=a", "a=ab", "a=abc", "a=abcd", "a=0000", "a=a000", "a=ab00", "a=abc0"];
    expect(&fs, &torn);
}

#[test]
fn each_pending_write_has_its_own_fate() {
    let fs = SimFs::new();
    let mut file = put(&fs, "a", b"");
    fs.sync_dir(&RelPath::root()).unwrap();
    file.append(b"x").unwrap();
    file.append(b"y").unwrap();
    expect(&fs, &["a=", "a=0", "a=x", "a=00", "a=x0", "a=0y", "a=xy"]);
    file.sync().unwrap();
    expect(&fs, &["a=xy"]);
}

#[test]
fn a_rename_is_atomic() {
    let fs = SimFs::new();
    put(&fs, "old", b"1");
    put(&fs, "new", b"2");
    fs.sync_dir(&RelPath::root()).unwrap();
    fs.rename(&path("new"), &path("old")).unwrap();
    expect(&fs, &["new=2 old=1", "old=2"]);
    fs.sync_dir(&RelPath::root()).unwrap();
    expect(&fs, &["old=2"]);
}

#[test]
fn a_rename_of_unsynced_data_may_expose_garbage() {
    let fs = SimFs::new();
    put(&fs, "a", b"1");
    fs.create_file(&path("t")).unwrap().append(b"2").unwrap();
    fs.sync_dir(&RelPath::root()).unwrap();
    fs.rename(&path("t"), &path("a")).unwrap();
    fs.sync_dir(&RelPath::root()).unwrap();
    expect(&fs, &["a=", "a=0", "a=2"]);
}

#[test]
fn a_rename_between_directories_needs_both_synced() {
    for (first, second) in [("d", "e"), ("e", "d")] {
        let fs = SimFs::new();
        fs.make_dir_raw(&path("d"));
        fs.make_dir_raw(&path("e"));
        put(&fs, "d/a", b"1");
        fs.sync_dir(&path("d")).unwrap();
        fs.rename(&path("d/a"), &path("e/a")).unwrap();
        fs.sync_dir(&path(first)).unwrap();
        expect(&fs, &["d/a=1", "e/a=1"]);
        fs.sync_dir(&path(second)).unwrap();
        expect(&fs, &["e/a=1"]);
    }
}

#[test]
fn a_later_durable_name_does_not_overtake_a_pending_rename_of_the_same_name() {
    let fs = SimFs::new();
    fs.make_dir_raw(&path("d"));
    fs.make_dir_raw(&path("e"));
    put(&fs, "d/a", b"1");
    fs.sync_dir(&path("d")).unwrap();
    fs.rename(&path("d/a"), &path("e/a")).unwrap();
    put(&fs, "d/a", b"2");
    fs.sync_dir(&path("d")).unwrap();
    // The new `d/a` is durable; the rename still waits for `e`.
    expect(&fs, &["d/a=2", "d/a=2 e/a=1"]);
    fs.sync_dir(&path("e")).unwrap();
    expect(&fs, &["d/a=2 e/a=1"]);
}

#[test]
fn an_inode_never_has_two_names() {
    let fs = SimFs::new();
    put(&fs, "a", b"1");
    fs.sync_dir(&RelPath::root()).unwrap();
    fs.rename(&path("a"), &path("b")).unwrap();
    fs.rename(&path("b"), &path("c")).unwrap();
    expect(&fs, &["a=1", "b=1", "c=1"]);
}

#[test]
fn the_entries_of_a_lost_directory_are_lost_with_it() {
    let fs = SimFs::new();
    fs.create_dir(&path("d")).unwrap();
    put(&fs, "d/a", b"1");
    fs.sync_dir(&path("d")).unwrap();
    expect(&fs, &["", "d/a=1"]);
    fs.sync_dir(&RelPath::root()).unwrap();
    expect(&fs, &["d/a=1"]);
}

#[test]
fn images_that_differ_only_in_empty_directories_are_distinct() {
    let fs = SimFs::new();
    fs.create_dir(&path("d")).unwrap();
    assert_eq!(fs.crash_images(&limits()).len(), 2);
}

#[test]
fn removals_are_pending_until_the_directory_is_synced() {
    let fs = SimFs::new();
    put(&fs, "a", b"1");
    fs.sync_dir(&RelPath::root()).unwrap();
    fs.remove_file(&path("a")).unwrap();
    expect(&fs, &["", "a=1"]);
    put(&fs, "a", b"2");
    expect(&fs, &["", "a=1", "a=2"]);
    fs.sync_dir(&RelPath::root()).unwrap();
    expect(&fs, &["a=2"]);
}

#[test]
fn a_directory_that_is_durably_gone_leaves_nothing_open() {
    let fs = SimFs::new();
    fs.write_raw(&path("d/in/a"), b"1");
    fs.write_raw(&path("d/in/b"), b"2");
    fs.remove_file(&path("d/in/a")).unwrap();
    fs.rename(&path("d/in/b"), &path("b")).unwrap();
    fs.remove_dir(&path("d/in")).unwrap();
    fs.remove_dir(&path("d")).unwrap();
    fs.sync_dir(&RelPath::root()).unwrap();
    assert_eq!(fs.describe_pending(), "");
    expect(&fs, &["b=2"]);
}

#[test]
fn a_cut_is_pending_until_the_file_is_synced() {
    let fs = SimFs::new();
    let mut file = put(&fs, "a", b"abcd");
    fs.sync_dir(&RelPath::root()).unwrap();
    file.set_len(2).unwrap();
    expect(&fs, &["a=abcd", "a=ab"]);
    file.append(b"X").unwrap();
    // The cut may be lost while the write after it is not.
    expect(&fs, &["a=abcd", "a=ab", "a=abXd", "a=ab0d", "a=ab0", "a=abX"]);
    file.sync().unwrap();
    expect(&fs, &["a=abX"]);
}

#[test]
fn data_of_a_failed_sync_is_seen_but_no_later_sync_makes_it_durable() {
    let fs = SimFs::new();
    let mut file = put(&fs, "a", b"1");
    fs.sync_dir(&RelPath::root()).unwrap();
    file.append(b"2").unwrap();
    lie_once(&fs);
    assert_eq!(file.sync().unwrap_err().kind, FsErrorKind::Io);
    assert_eq!(fs.read(&path("a"), 0, 9).unwrap(), b"12");
    file.sync().unwrap();
    fs.open_append(&path("a")).unwrap().sync().unwrap();
    expect(&fs, &["a=1", "a=10", "a=12"]);
    file.append(b"3").unwrap();
    file.sync().unwrap();
    expect(&fs, &["a=103", "a=123"]);
}

#[test]
fn a_durable_cut_takes_lost_data_away() {
    let fs = SimFs::new();
    let mut file = put(&fs, "a", b"1");
    fs.sync_dir(&RelPath::root()).unwrap();
    file.append(b"2").unwrap();
    lie_once(&fs);
    assert!(file.sync().is_err());
    file.set_len(1).unwrap();
    file.append(b"3").unwrap();
    file.sync().unwrap();
    expect(&fs, &["a=13"]);
}

#[test]
fn names_of_a_failed_directory_sync_stay_open() {
    let fs = SimFs::new();
    put(&fs, "a", b"1");
    // The directory is opened first.
    let at_op = fs.all_op_count() + 1;
    fs.set_fault(Fault { at_op, kind: FaultKind::FsyncLies, mode: FaultMode::Once });
    assert_eq!(fs.sync_dir(&RelPath::root()).unwrap_err().kind, FsErrorKind::Io);
    fs.sync_dir(&RelPath::root()).unwrap();
    expect(&fs, &["", "a=1"]);
}

#[test]
fn a_power_cut_leaves_the_operation_open() {
    let fs = SimFs::new();
    let mut file = put(&fs, "a", b"");
    fs.sync_dir(&RelPath::root()).unwrap();
    fs.set_fault(Fault { at_op: fs.all_op_count(), kind: FaultKind::PowerCut, mode: FaultMode::Once });
    assert!(file.append(b"x").is_err());
    assert!(file.sync().is_err());
    expect(&fs, &["a=", "a=0", "a=x"]);
}

#[test]
fn images_are_settled_fresh_disks() {
    let fs = SimFs::new();
    fs.create_file(&path("a")).unwrap().append(b"xy").unwrap();
    let _held = fs.lock(&path("a"), LockMode::Exclusive, Duration::ZERO).unwrap();
    for image in fs.crash_images(&limits()) {
        assert_eq!(image.all_op_count(), 0);
        assert_eq!(image.crash_images(&limits()).len(), 1);
        assert!(image.lock(&path("a"), LockMode::Exclusive, Duration::ZERO).unwrap().is_some());
        image.write_raw(&path("b"), b"");
    }
    assert_eq!(fs.read_raw(&path("b")), None);
}

/// A disk on which a random program ran: files, renames, removals, cuts, syncs here and there.
fn random_disk(seed: u64, ops: usize) -> SimFs {
    let fs = SimFs::new();
    let mut rng = Rng::new(seed);
    fs.make_dir_raw(&path("d"));
    let names = ["a", "b", "c", "d/a", "d/b", "e", "e/a", "e/b"].map(path);
    for _ in 0..ops {
        let at = &names[rng.below(names.len())];
        let to = &names[rng.below(names.len())];
        // Many of these fail, as they should; what matters is the effect of the others.
        match rng.below(10) {
            0 => drop(fs.create_dir(at)),
            1 | 2 => drop(fs.create_file(at)),
            3 | 4 => drop(fs.open_append(at).and_then(|mut file| file.append(to.as_str().as_bytes()))),
            5 => drop(fs.open_append(at).and_then(|mut file| file.set_len(rng.next() % 3))),
            6 => drop(fs.open_append(at).and_then(|mut file| file.sync())),
            7 => drop(fs.rename(at, to)),
            8 => drop(fs.remove_file(at).or_else(|_| fs.remove_dir(at))),
            _ => drop(fs.sync_dir(&at.parent().unwrap())),
        }
    }
    fs
}

fn sync_everything(fs: &SimFs) {
    for file in fs.all_files() {
        fs.open_append(&file).unwrap().sync().unwrap();
    }
    let mut dirs = vec![RelPath::root()];
    while let Some(dir) = dirs.pop() {
        fs.sync_dir(&dir).unwrap();
        let entries = fs.list(&dir).unwrap().into_iter();
        let below = entries.filter(|entry| entry.kind == FileKind::Directory);
        dirs.extend(below.map(|entry| dir.child(&entry.name).unwrap()));
    }
}

#[test]
fn random_programs_give_distinct_reproducible_images_with_both_extremes() {
    let limits = CrashLimits { max_product: 300, ..CrashLimits::default() };
    for seed in 0..300 {
        let fs = random_disk(seed, 40);
        let mut digests = BTreeSet::new();
        let count = fs.for_each_crash_image(&limits, &mut |choice, image| {
            assert!(digests.insert(image.digest()), "seed {seed}: {choice:?} is not distinct");
            let again = fs.crash(&choice);
            assert_eq!(again.digest(), image.digest(), "seed {seed}: {choice:?}\n{}", fs.describe_pending());
        });
        assert_eq!(count, digests.len(), "seed {seed}");
        assert!(digests.contains(&fs.digest()), "seed {seed}: what is seen may survive");
        let none = CrashChoice { names: Arc::new([]), writes: Vec::new() };
        assert!(digests.contains(&fs.crash(&none).digest()), "seed {seed}: all that is open may be lost");
        let mut again = BTreeSet::new();
        fs.for_each_crash_image(&limits, &mut |_, image| assert!(again.insert(image.digest())));
        assert_eq!(digests, again, "seed {seed}");
    }
}

#[test]
fn after_a_sync_the_only_image_is_what_is_seen() {
    for seed in 0..300 {
        let fs = random_disk(seed, 60);
        sync_everything(&fs);
        let images = fs.crash_images(&limits());
        assert_eq!(images.len(), 1, "seed {seed}: {}", fs.describe_pending());
        assert!(images.iter().any(|image| image.digest() == fs.digest()), "seed {seed}");
    }
}

#[test]
fn beyond_the_limits_the_corners_are_still_tried() {
    let fs = SimFs::new();
    for i in 0..12 {
        fs.create_file(&path(&format!("f{i}"))).unwrap().append(b"abcdef").unwrap();
    }
    let small = CrashLimits { max_exhaustive_names: 4, max_product: 500, ..limits() };
    let texts: BTreeSet<String> = fs.crash_images(&small).iter().map(text).collect();
    assert!(texts.len() > 300 && texts.len() <= 500, "{}", texts.len());
    let files: Vec<String> = fs.all_files().iter().map(|file| format!("{file}=abcdef")).collect();
    assert!(texts.contains(""));
    assert!(texts.contains(&files.join(" ")));
    for dropped in 0..files.len() {
        let mut others = files.clone();
        others.remove(dropped);
        assert!(texts.contains(&others.join(" ")), "only {} is dropped", files[dropped]);
    }
    let other_seed = CrashLimits { seed: 1, ..small };
    assert_ne!(texts, fs.crash_images(&other_seed).iter().map(text).collect());
}

#[test]
fn random_cuts_add_images() {
    let fs = SimFs::new();
    fs.create_file(&path("a")).unwrap().append(&[b'x'; 1000]).unwrap();
    let more = CrashLimits { random_cuts: 50, ..limits() };
    assert_eq!(fs.crash_images(&limits()).len(), 10);
    assert!(fs.crash_images(&more).len() > 90);
}

#[test]
fn the_pending_operations_are_described() {
    let fs = SimFs::new();
    fs.create_file(&path("a")).unwrap().append(b"x").unwrap();
    let text = fs.describe_pending();
    assert!(text.contains("Link") && text.contains("`a`: 1 data changes"), "{text}");
}
