//! The conformance suite of the ports, on the real disk, on the simulated one, and both under the monitor.

mod support;

mod real_disk {
    use camino::Utf8Path;
    use tempfile::TempDir;
    use workrail_store_fs::LocalStore;
    use workrail_store_fs::disk::Disk;
    use workrail_testkit::conformance::StoreUnderTest;
    use workrail_testkit::monitor::Monitored;

    use super::support;

    fn disk(dir: &TempDir) -> Disk {
        let root = Utf8Path::from_path(dir.path()).expect("temporary paths are UTF-8").join("data");
        Disk::open(&root).expect("a fresh data directory opens")
    }

    struct Plain(TempDir);

    impl StoreUnderTest for Plain {
        type Store = LocalStore<Disk>;

        fn open(&self) -> Self::Store {
            support::open(disk(&self.0))
        }
    }

    mod plain {
        workrail_testkit::conformance_tests!(super::Plain(tempfile::tempdir().expect("a temporary folder")));
    }

    struct Watched(TempDir);

    impl StoreUnderTest for Watched {
        type Store = LocalStore<Monitored<Disk>>;

        fn open(&self) -> Self::Store {
            support::open(Monitored::strict(disk(&self.0)))
        }
    }

    mod watched {
        workrail_testkit::conformance_tests!(super::Watched(
            tempfile::tempdir().expect("a temporary folder")
        ));
    }
}

mod simulated_disk {
    use workrail_store_fs::LocalStore;
    use workrail_store_fs::sim::SimFs;
    use workrail_testkit::conformance::StoreUnderTest;
    use workrail_testkit::monitor::Monitored;

    use super::support;

    #[derive(Default)]
    struct Plain(SimFs);

    impl StoreUnderTest for Plain {
        type Store = LocalStore<SimFs>;

        fn open(&self) -> Self::Store {
            support::open(self.0.clone())
        }
    }

    mod plain {
        workrail_testkit::conformance_tests!(super::Plain::default());
    }

    struct Watched(Monitored<SimFs>);

    impl StoreUnderTest for Watched {
        type Store = LocalStore<Monitored<SimFs>>;

        fn open(&self) -> Self::Store {
            support::open(self.0.clone())
        }
    }

    mod watched {
        use workrail_store_fs::sim::SimFs;
        use workrail_testkit::monitor::Monitored;

        workrail_testkit::conformance_tests!(super::Watched(Monitored::strict(SimFs::new())));
    }
}
