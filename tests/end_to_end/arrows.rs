//! The arrows between crates go one way. This holds the picture in ARCHITECTURE.md to the code.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// What a back end may use.
const BACK_END: &[&str] = &[
    "proctor-types",
    "proctor-wire",
    "proctor-sandbox-api",
    "proctor-host",
    "proctor-embedded-agent",
];

/// Every crate of the run context and the crates of the run context that it may use (dev-dependencies aside).
const ALLOWED: &[(&str, &[&str])] = &[
    ("proctor-types", &[]),
    ("proctor-files", &[]),
    ("proctor-packed", &[]),
    ("proctor-wire", &[]),
    ("proctor-scan", &["proctor-wire"]),
    ("proctor-agentd", &["proctor-wire", "proctor-scan"]),
    ("proctor-patch", &["proctor-types", "proctor-wire"]),
    ("proctor-record", &["proctor-types", "proctor-files", "proctor-wire", "proctor-patch"]),
    ("proctor-tokens", &[]),
    ("proctor-retrieval", &[]),
    ("proctor-answers", &["proctor-types", "proctor-patch"]),
    ("proctor-gateway", &["proctor-types", "proctor-tokens"]),
    ("proctor-egress", &["proctor-types"]),
    ("proctor-datasets", &["proctor-types", "proctor-files", "proctor-patch"]),
    ("proctor-statistics", &[]),
    ("proctor-report", &["proctor-types", "proctor-statistics"]),
    ("proctor-html", &["proctor-types", "proctor-packed", "proctor-report"]),
    ("proctor-interchange", &["proctor-types"]),
    ("proctor-sandbox-api", &["proctor-types", "proctor-wire"]),
    ("proctor-clock", &[]),
    ("proctor-host", &["proctor-types", "proctor-sandbox-api"]),
    ("proctor-embedded-agent", &["proctor-types"]),
    ("proctor-conformance", &["proctor-types", "proctor-sandbox-api"]),
    ("proctor-native", BACK_END),
    ("proctor-docker", BACK_END),
    ("proctor-scaffold-api", &["proctor-types", "proctor-sandbox-api"]),
    (
        "proctor-scaffolds",
        &[
            "proctor-types",
            "proctor-tokens",
            "proctor-patch",
            "proctor-answers",
            "proctor-retrieval",
            "proctor-sandbox-api",
            "proctor-scaffold-api",
        ],
    ),
    (
        "proctor-external",
        &[
            "proctor-types",
            "proctor-packed",
            "proctor-bundles",
            "proctor-sandbox-api",
            "proctor-scaffold-api",
        ],
    ),
    (
        "proctor-host-scaffolds",
        &[
            "proctor-types",
            "proctor-scaffolds",
            "proctor-external",
            "proctor-sandbox-api",
            "proctor-scaffold-api",
        ],
    ),
    ("proctor-packages", &["proctor-types"]),
    ("proctor-bundles", &["proctor-types", "proctor-packages"]),
    (
        "proctor-setup",
        &[
            "proctor-types",
            "proctor-files",
            "proctor-patch",
            "proctor-packages",
            "proctor-sandbox-api",
            "proctor-clock",
            "proctor-host",
            "proctor-scan",
        ],
    ),
    ("proctor-official", &["proctor-types"]),
    (
        "proctor-forensics",
        &["proctor-types", "proctor-patch", "proctor-record", "proctor-wire", "proctor-scan"],
    ),
    (
        "proctor-grade",
        &[
            "proctor-types",
            "proctor-packed",
            "proctor-patch",
            "proctor-sandbox-api",
            "proctor-setup",
            "proctor-official",
        ],
    ),
    ("proctor-attacks", &["proctor-types", "proctor-patch"]),
    ("proctor-quality", &["proctor-types", "proctor-patch", "proctor-wire"]),
    (
        "proctor-collection",
        &[
            "proctor-types",
            "proctor-packed",
            "proctor-tokens",
            "proctor-retrieval",
            "proctor-datasets",
            "proctor-patch",
            "proctor-sandbox-api",
            "proctor-host",
            "proctor-setup",
            "proctor-grade",
            "proctor-attacks",
        ],
    ),
    (
        "proctor-core",
        &[
            "proctor-types",
            "proctor-files",
            "proctor-patch",
            "proctor-record",
            "proctor-gateway",
            "proctor-egress",
            "proctor-sandbox-api",
            "proctor-scaffold-api",
            "proctor-setup",
            "proctor-grade",
            "proctor-official",
            "proctor-forensics",
        ],
    ),
    (
        "proctor-config",
        &[
            "proctor-types",
            "proctor-packed",
            "proctor-gateway",
            "proctor-tokens",
            "proctor-egress",
            "proctor-core",
            "proctor-scaffold-api",
        ],
    ),
    ("fake-llm", &[]),
    ("fuzz", &[]),
    ("unicode_names2", &[]),
    ("zstd", &[]),
];

#[test]
fn the_arrows_go_one_way() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let members: BTreeSet<_> = metadata.packages.iter().map(|p| p.name.to_string()).collect();
    let allowed: BTreeMap<_, BTreeSet<_>> =
        ALLOWED.iter().map(|(name, uses)| (*name, uses.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        // The command line assembles: it may use everything.
        if package.name.as_str() == "proctor" {
            continue;
        }
        let Some(allowed) = allowed.get(package.name.as_str()) else {
            wrong.push(format!("{} is not in the picture", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let used = dependency.name.as_str();
            let counts = dependency.kind != DependencyKind::Development && members.contains(used);
            if counts && !allowed.contains(used) {
                wrong.push(format!("{} may not use {used}", package.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The agent's build starts a nested cargo and needs `libc.a`: who grades or writes a scaffold waits for
/// neither. Build dependencies count, and dependencies of dependencies.
#[test]
fn only_who_starts_an_agent_builds_one() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let uses: BTreeMap<&str, Vec<&str>> = metadata
        .packages
        .iter()
        .map(|package| {
            let used = package.dependencies.iter();
            let used = used.filter(|one| one.kind != DependencyKind::Development);
            (package.name.as_str(), used.map(|one| one.name.as_str()).collect())
        })
        .collect();
    let builds = |name: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![name]);
        while let Some(name) = next.pop() {
            if let Some(used) = uses.get(name).filter(|_| seen.insert(name)) {
                next.extend(used);
            }
        }
        seen.contains("proctor-embedded-agent")
    };
    let found: Vec<&str> = uses.keys().copied().filter(|name| builds(name)).collect();
    assert_eq!(found, ["proctor", "proctor-docker", "proctor-embedded-agent", "proctor-native"]);
}

/// A newcomer reads it whole.
#[test]
fn the_glossary_has_at_most_25_words() {
    let map = include_str!("../../ARCHITECTURE.md");
    let (_, glossary) = map.split_once("## Glossary").unwrap();
    let (glossary, _) = glossary.split_once("\n## ").unwrap();
    // Two lines are the table's head.
    let words = glossary.lines().filter(|line| line.starts_with('|')).count() - 2;
    assert!((20..=25).contains(&words), "{words}");
}
