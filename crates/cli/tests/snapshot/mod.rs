//! How snapshots of the program's output are compared.

use workrail_testkit::volatile;

/// Files named after the snapshot alone, with placeholders for what differs from run to run.
pub(crate) fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (pattern, stable) in volatile::PATTERNS {
        settings.add_filter(pattern, stable);
    }
    settings
}
