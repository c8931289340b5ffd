//! Identifies the machine's current boot, so that unsynced counters are not trusted after a reboot.

use workrail_ports::environment::Entropy;

use crate::entropy::OsEntropy;

/// The kernel's boot id; if there is none, a random name, which only costs a rebuild at each start.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .ok()
        .filter(|text| !text.is_empty() && text.len() <= 64)
        .unwrap_or_else(random_name)
}

fn random_name() -> String {
    let mut bytes = [0; 16];
    match OsEntropy.fill(&mut bytes) {
        Ok(()) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Err(_) => "unknown".to_owned(),
    }
}
