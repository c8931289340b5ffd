//! The table of ARCHITECTURE.md, "Who may depend on whom": kept here once, as data.

/// What one of our crates may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    pub(super) name: &'static str,
    /// Our crates that it may depend on, outside its tests.
    pub(super) ours: &'static [&'static str],
    pub(super) external: External,
}

/// Which external crates a crate may use.
#[derive(Clone, Copy, Debug)]
pub(super) enum External {
    /// A pure crate: only these, and nothing impure among their dependencies.
    Only(Pure),
    /// Everything except crates that do I/O or async on their own.
    NotImpure,
    Any,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pure {
    pub(super) crates: &'static [&'static str],
    /// With more direct and indirect dependencies than this, the crate is no longer small.
    pub(super) transitive_max: usize,
    /// Impure dependencies that are tolerated; each needs a reason next to it.
    pub(super) excused: &'static [&'static str],
}

/// The crate that only tests may use.
pub(super) const TEST_ONLY: &str = "workrail-testkit";

/// Files, sockets, threads, async, randomness: what a decision must not touch.
pub(super) const IMPURE: &[&str] = &[
    "async-std",
    "axum",
    "fs-err",
    "fastrand",
    "getrandom",
    "hyper",
    "jiff",
    "mio",
    "notify",
    "rand",
    "reqwest",
    "rmcp",
    "rustix",
    "socket2",
    "tempfile",
    "time",
    "tokio",
    "tower-http",
    "walkdir",
];

const MODEL: &str = "workrail-model";
const CORE: &str = "workrail-core";
const PORTS: &str = "workrail-ports";
const ENGINE: &str = "workrail-engine";
const HOST: &str = "workrail-host";
const MCP: &str = "workrail-mcp";

pub(super) const LAYERS: &[Layer] = &[
    Layer {
        name: MODEL,
        ours: &[],
        external: External::Only(Pure {
            crates: &[
                "data-encoding",
                "jiff",
                "ryu-js",
                "schemars",
                "serde",
                "serde_json",
                "serde_path_to_error",
                "sha2",
                "strsim",
                "strum",
                "thiserror",
                "zeroize",
            ],
            transitive_max: 40,
            // Only its calendar; the functions that read its clock are banned in the crate's clippy.toml.
            excused: &["jiff"],
        }),
    },
    Layer {
        name: CORE,
        ours: &[MODEL],
        external: External::Only(Pure {
            crates: &[
                "data-encoding",
                "fancy-regex",
                "hmac",
                "jsonc-parser",
                "jsonschema",
                // Compresses saved states; memory only.
                "miniz_oxide",
                "p256",
                "schemars",
                "serde",
                "serde_json",
                "sha2",
                "similar",
                "thiserror",
                "unicode-normalization",
            ],
            // Validating output contracts (jsonschema) brings about half of them, the curve of passkeys (p256) 20.
            transitive_max: 112,
            // It seeds jsonschema's hash maps: their order must not reach a result.
            excused: &["getrandom", "jiff"],
        }),
    },
    Layer {
        name: PORTS,
        ours: &[MODEL],
        external: External::Only(Pure { crates: &["thiserror"], transitive_max: 40, excused: &["jiff"] }),
    },
    Layer { name: ENGINE, ours: &[MODEL, CORE, PORTS], external: External::NotImpure },
    Layer { name: "workrail-store-fs", ours: &[MODEL, PORTS], external: External::Any },
    Layer { name: "workrail-store-pg", ours: &[MODEL, PORTS], external: External::Any },
    Layer { name: HOST, ours: &[MODEL, PORTS], external: External::Any },
    Layer { name: MCP, ours: &[MODEL, ENGINE], external: External::Any },
    Layer { name: "workrail-console", ours: &[MODEL, ENGINE], external: External::Any },
    Layer {
        name: "workrail",
        ours: &[
            MODEL,
            CORE,
            PORTS,
            ENGINE,
            "workrail-store-fs",
            "workrail-store-pg",
            HOST,
            MCP,
            "workrail-console",
        ],
        external: External::Any,
    },
    Layer { name: TEST_ONLY, ours: &[MODEL, CORE, PORTS, ENGINE], external: External::Any },
    Layer { name: "xtask", ours: &[MODEL, CORE, HOST, MCP], external: External::Any },
];

pub(super) fn is_pure(name: &str) -> bool {
    LAYERS.iter().any(|layer| layer.name == name && matches!(layer.external, External::Only(_)))
}

/// A feature of a package that must be on, or must be off, everywhere in the graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeatureRule {
    pub(super) package: &'static str,
    pub(super) feature: &'static str,
    pub(super) wanted: FeatureState,
    pub(super) reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeatureState {
    On,
    Off,
}

pub(super) const FEATURES: &[FeatureRule] = &[
    FeatureRule {
        package: "serde_json",
        feature: "float_roundtrip",
        wanted: FeatureState::On,
        reason: "without it many doubles are misread by a bit, and every hash over them changes",
    },
    FeatureRule {
        package: "serde_json",
        feature: "preserve_order",
        wanted: FeatureState::Off,
        reason: "it makes the order of keys depend on who wrote them first",
    },
    FeatureRule {
        package: "serde_json",
        feature: "arbitrary_precision",
        wanted: FeatureState::Off,
        reason: "it lets numbers through that the canonical form cannot hold",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The crates in code marks in one cell.
    fn crates(cell: &str) -> Vec<&str> {
        cell.split('`').skip(1).step_by(2).collect()
    }

    #[test]
    fn the_architecture_document_shows_this_table() {
        let document = include_str!("../../../ARCHITECTURE.md");
        let section = document.split("\n## Who may depend on whom\n").nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let shown: Vec<(&str, Vec<&str>)> = section
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| {
                let cells: Vec<&str> = line.split('|').collect();
                (crates(cells[1])[0], crates(cells[2]))
            })
            .collect();
        let kept: Vec<(&str, Vec<&str>)> =
            LAYERS.iter().map(|layer| (layer.name, layer.ours.to_vec())).collect();
        assert_eq!(shown, kept);
    }

    #[test]
    fn a_crate_may_only_use_crates_that_come_before_it() {
        for (position, layer) in LAYERS.iter().enumerate() {
            for used in layer.ours {
                assert!(
                    LAYERS[..position].iter().any(|earlier| earlier.name == *used),
                    "{} {used}",
                    layer.name
                );
            }
        }
    }
}
