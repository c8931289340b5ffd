//! Texts that the program prints or sends, compared word for word with `tests/snapshots`.

#[path = "../snapshot/mod.rs"]
mod snapshot;

use workrail_testkit::home::Home;
use workrail_testkit::volatile;

pub(crate) fn assert_text(home: &Home, name: &str, text: &str) {
    let mut settings = snapshot::settings();
    settings.set_snapshot_path("../snapshots");
    settings.bind(|| insta::assert_snapshot!(name, volatile::replaced(text, home)));
}
