//! Checks the rules for dependencies between crates, and the table of crates in ARCHITECTURE.md.
//! Both are based on `cargo metadata`.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Limits which crates may be used, directly or indirectly, by the crates in some folders. A folder
/// stands for all crates below it. Build dependencies count; dev-dependencies don't.
struct DependencyRule {
    reason: &'static str,
    folders: &'static [&'static str],
    limit: DependencyLimit,
}

enum DependencyLimit {
    Allowed(&'static [&'static str]),
    Forbidden(&'static [&'static str]),
}

const RULES: &[DependencyRule] = &[
    DependencyRule {
        reason: "definitions and pure functions use no other crate",
        folders: &["runtime/types", "runtime/files", "runtime/statistics", "sandboxes/wire"],
        limit: DependencyLimit::Allowed(&[]),
    },
    DependencyRule {
        reason: "the sandbox agent knows only the channel and the scanner",
        folders: &["sandboxes/agentd"],
        limit: DependencyLimit::Allowed(&["sandboxes/wire", "sandboxes/scan"]),
    },
    DependencyRule {
        reason: "sandboxes know nothing of scaffolds, models, grading or runs",
        folders: &["sandboxes"],
        limit: DependencyLimit::Allowed(&["sandboxes", "runtime/files", "runtime/types"]),
    },
    DependencyRule {
        reason: "a back end implements the API and sees no other back end",
        folders: &["sandboxes/docker", "sandboxes/native"],
        limit: DependencyLimit::Allowed(&[
            "sandboxes/agent-build",
            "sandboxes/api",
            "sandboxes/embedded-agent",
            "sandboxes/host",
            "sandboxes/wire",
            "runtime/files",
            "runtime/types",
        ]),
    },
    DependencyRule {
        reason: "a scaffold reaches sandboxes and models through its session, not through back ends or the gateway",
        folders: &["scaffolds"],
        limit: DependencyLimit::Allowed(&[
            "scaffolds",
            "sandboxes/api",
            "sandboxes/wire",
            "runtime/files",
            "runtime/packages",
            "runtime/patch",
            "runtime/retrieval",
            "runtime/tokens",
            "runtime/types",
        ]),
    },
    DependencyRule {
        reason: "the gateway and the egress proxy never see a sandbox, a scaffold or a run directory",
        folders: &["runtime/gateway", "runtime/egress"],
        limit: DependencyLimit::Allowed(&["runtime/codecs", "runtime/tokens", "runtime/types"]),
    },
    DependencyRule {
        reason: "carving edits source text: it collects nothing and runs nothing",
        folders: &["runtime/carve"],
        limit: DependencyLimit::Allowed(&["runtime/patch", "runtime/types", "sandboxes/wire"]),
    },
    DependencyRule {
        reason: "codecs translate bytes: they send nothing and count nothing",
        folders: &["runtime/codecs"],
        limit: DependencyLimit::Allowed(&["runtime/types"]),
    },
    DependencyRule {
        reason: "these work on data: they start no sandbox, call no model and run no trial",
        folders: &[
            "runtime/attacks",
            "runtime/datasets",
            "runtime/forensics",
            "runtime/viewer",
            "runtime/interchange",
            "runtime/official",
            "runtime/patch",
            "runtime/record",
            "runtime/report",
            "runtime/retrieval",
            "runtime/tokens",
        ],
        limit: DependencyLimit::Forbidden(&[
            "runtime/config",
            "runtime/run",
            "runtime/egress",
            "runtime/gateway",
            "runtime/grade",
            "runtime/setup",
            "sandboxes/api",
            "scaffolds",
        ]),
    },
    DependencyRule {
        reason: "grading and collection use no model and do not know how a patch was made",
        folders: &["runtime/setup", "runtime/grade", "runtime/collection"],
        limit: DependencyLimit::Forbidden(&[
            "runtime/config",
            "runtime/run",
            "runtime/egress",
            "runtime/forensics",
            "runtime/gateway",
            "runtime/record",
            "scaffolds",
        ]),
    },
    DependencyRule {
        reason: "planning uses scaffolds only through their interface and does not use later stages",
        folders: &["runtime/plan"],
        limit: DependencyLimit::Forbidden(&[
            "runtime/cli",
            "runtime/interchange",
            "runtime/validation",
            "runtime/viewer",
            "scaffolds/builtin",
            "scaffolds/bundles",
            "scaffolds/catalog",
            "scaffolds/external",
            "scaffolds/host",
            "tests",
        ]),
    },
    DependencyRule {
        reason: "trials run with any scaffold and do not call later stages",
        folders: &["runtime/run"],
        limit: DependencyLimit::Forbidden(&[
            "runtime/cli",
            "runtime/collection",
            "runtime/config",
            "runtime/interchange",
            "runtime/plan",
            "runtime/report",
            "runtime/validation",
            "runtime/viewer",
            "scaffolds/builtin",
            "scaffolds/bundles",
            "scaffolds/catalog",
            "scaffolds/external",
            "scaffolds/host",
            "tests",
        ]),
    },
    DependencyRule {
        reason: "only runs serve scripted models, and only the command line assembles the parts",
        folders: &["runtime/collection", "runtime/config", "sandboxes", "scaffolds"],
        limit: DependencyLimit::Forbidden(&["runtime/cli", "runtime/fake-llm", "tests"]),
    },
];

/// A member of the workspace.
#[derive(Default)]
struct Member {
    /// The folder of the crate, relative to the root of the workspace.
    folder: String,
    description: String,
    /// The members of the workspace that the crate depends on directly.
    dependencies: BTreeSet<String>,
}

/// The members of the workspace, by name.
struct Workspace(BTreeMap<String, Member>);

impl Workspace {
    fn load() -> Self {
        let metadata = MetadataCommand::new().no_deps().exec().unwrap();
        let names: BTreeSet<_> = metadata.packages.iter().map(|one| one.name.to_string()).collect();
        let members = metadata.packages.iter().map(|package| {
            let manifest = package.manifest_path.strip_prefix(&metadata.workspace_root).unwrap();
            let used = package.dependencies.iter().filter(|one| {
                one.kind != DependencyKind::Development && names.contains(one.name.as_str())
            });
            let member = Member {
                folder: manifest.parent().unwrap().to_string(),
                description: package.description.clone().unwrap_or_default(),
                dependencies: used.map(|one| one.name.clone()).collect(),
            };
            (package.name.to_string(), member)
        });
        Self(members.collect())
    }

    fn direct_dependencies(&self, name: &str) -> &BTreeSet<String> {
        &self.0[name].dependencies
    }

    /// Returns the direct and indirect dependencies of a crate.
    fn all_dependencies(&self, name: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&str> =
            self.direct_dependencies(name).iter().map(String::as_str).collect();
        while let Some(used) = next.pop() {
            if seen.insert(used) {
                next.extend(self.direct_dependencies(used).iter().map(String::as_str));
            }
        }
        seen
    }

    /// Returns the length of the longest path of dependencies that starts at a crate.
    fn level(&self, name: &str) -> usize {
        self.direct_dependencies(name).iter().map(|used| self.level(used) + 1).max().unwrap_or(0)
    }

    /// Returns those direct dependencies of a crate that are not also dependencies of another one.
    fn reduced_dependencies(&self, name: &str) -> Vec<&str> {
        let uses = self.direct_dependencies(name);
        let implied: BTreeSet<&str> =
            uses.iter().flat_map(|used| self.all_dependencies(used)).collect();
        uses.iter().map(String::as_str).filter(|used| !implied.contains(used)).collect()
    }

    fn violations(&self, rule: &DependencyRule) -> Vec<String> {
        let mut broken = Vec::new();
        for (name, _) in self.0.iter().filter(|(_, member)| is_in_any(&member.folder, rule.folders))
        {
            for used in self.all_dependencies(name) {
                let folder = &self.0[used].folder;
                let allowed = match rule.limit {
                    DependencyLimit::Allowed(to) => is_in_any(folder, to),
                    DependencyLimit::Forbidden(to) => !is_in_any(folder, to),
                };
                if !allowed {
                    broken.push(format!("{name} must not use {used}: {}", rule.reason));
                }
            }
        }
        broken
    }

    fn crate_table(&self) -> String {
        let mut names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        names.sort_by_key(|name| (Reverse(self.level(name)), *name));
        let mut table =
            "| level | crate | what it does | uses |\n| --- | --- | --- | --- |\n".to_owned();
        for name in names {
            let Member { folder, description, .. } = &self.0[name];
            let uses: Vec<_> = self
                .reduced_dependencies(name)
                .into_iter()
                .map(|used| format!("`{used}`"))
                .collect();
            let (level, uses) = (self.level(name), uses.join(", "));
            writeln!(table, "| {level} | [`{name}`]({folder}) | {description} | {uses} |").unwrap();
        }
        table
    }
}

fn is_in_any(folder: &str, folders: &[&str]) -> bool {
    let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
    folders.iter().any(|one| folder.strip_prefix(one).is_some_and(below))
}

#[test]
fn crates_follow_the_dependency_rules() {
    let workspace = Workspace::load();
    let broken: Vec<_> = RULES.iter().flat_map(|rule| workspace.violations(rule)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_rule_folder_contains_a_crate() {
    let workspace = Workspace::load();
    for rule in RULES {
        let (DependencyLimit::Allowed(to) | DependencyLimit::Forbidden(to)) = rule.limit;
        for folder in rule.folders.iter().chain(to) {
            let found = workspace.0.values().any(|member| is_in_any(&member.folder, &[*folder]));
            assert!(found, "no crate in {folder}: {}", rule.reason);
        }
    }
}

#[test]
fn indirect_dependency_breaks_a_rule() {
    let member = |name: &str, folder: &str, uses: &[&str]| {
        let uses = uses.iter().map(|used| (*used).to_owned()).collect();
        (
            name.to_owned(),
            Member { folder: folder.to_owned(), dependencies: uses, ..Member::default() },
        )
    };
    let workspace = Workspace(BTreeMap::from([
        member("top", "runtime/top", &["middle", "bottom"]),
        member("middle", "runtime/middle", &["bottom"]),
        member("bottom", "sandboxes/bottom", &[]),
    ]));
    let from = &["runtime/top"];
    let never = DependencyRule {
        reason: "never",
        folders: from,
        limit: DependencyLimit::Forbidden(&["sandboxes"]),
    };
    assert_eq!(workspace.violations(&never), ["top must not use bottom: never"]);
    let only = DependencyRule {
        reason: "only",
        folders: from,
        limit: DependencyLimit::Allowed(&["runtime/mid", "sandboxes"]),
    };
    assert_eq!(workspace.violations(&only), ["top must not use middle: only"]);
    let both = DependencyRule {
        reason: "both",
        folders: from,
        limit: DependencyLimit::Allowed(&["runtime/middle", "sandboxes"]),
    };
    assert!(workspace.violations(&both).is_empty());
    assert_eq!(workspace.reduced_dependencies("top"), ["middle"]);
    assert_eq!(workspace.level("top"), 2);
}

/// Building the agent starts a nested cargo and needs `libc.a`. Crates that grade or define
/// scaffolds must not wait for that build.
#[test]
fn only_crates_that_start_an_agent_build_one() {
    let workspace = Workspace::load();
    let agent = "proctor-embedded-agent";
    let names = workspace.0.keys().map(String::as_str);
    let found: Vec<_> = names
        .filter(|name| *name == agent || workspace.all_dependencies(name).contains(agent))
        .collect();
    assert_eq!(found, ["proctor", "proctor-docker", "proctor-embedded-agent", "proctor-native"]);
}

/// The collection of pull requests uses environments and checks from `collect`, but `collect` must
/// not depend on the collection of pull requests.
#[test]
fn collect_does_not_use_pulls() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../collection/src");
    let names_pulls = |folder: &str| {
        let files = rust_files(&source.join(folder));
        assert!(files.len() > 5, "{folder}: {} files", files.len());
        let text = |file: &PathBuf| fs::read_to_string(file).unwrap();
        files.into_iter().filter(|file| text(file).contains("pulls::")).collect::<Vec<_>>()
    };
    assert_eq!(names_pulls("collect"), Vec::<PathBuf>::new());
    let uses_collect = rust_files(&source.join("pulls"))
        .iter()
        .any(|file| fs::read_to_string(file).unwrap().contains("collect::"));
    assert!(uses_collect, "the modules of this rule have moved");
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_crate_has_a_description() {
    for (name, member) in Workspace::load().0 {
        let text = &member.description;
        assert!(text.len() > 20, "{name}: write a sentence into `description` in Cargo.toml");
        assert!(!text.contains(['|', '\n']), "{name}: the description does not fit into a table");
    }
}

/// Compares the table of crates in ARCHITECTURE.md with the workspace. `PROCTOR_WRITE=1` rewrites
/// the table.
#[test]
fn crate_map_is_current() {
    const BEGIN_MARKER: &str = "<!-- begin: crates -->\n";
    const END_MARKER: &str = "<!-- end: crates -->\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let page = fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once(BEGIN_MARKER).unwrap();
    let (_, after) = rest.split_once(END_MARKER).unwrap();
    let table = Workspace::load().crate_table();
    let expected = format!("{before}{BEGIN_MARKER}\n{table}\n{END_MARKER}{after}");
    if std::env::var_os("PROCTOR_WRITE").is_some() {
        fs::write(&file, &expected).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap();
    assert!(
        written == expected,
        "the table of crates in ARCHITECTURE.md is out of date\n\
         hint: run `PROCTOR_WRITE=1 cargo test -p proctor --test end_to_end crate_map`"
    );
}

#[test]
fn glossary_is_sorted_and_has_the_required_words() {
    const REQUIRED_TERMS: &str = "agentd arm attempt certificate evidence gold integrity mask noop \
                            policy recipe scaffold shape task trial verdict";
    let glossary = include_str!("../../docs/concepts/glossary.md");
    // The first two lines of the table are its header.
    let rows = glossary.lines().filter(|line| line.starts_with('|')).skip(2);
    let words: Vec<_> = rows
        .map(|row| row.split('|').nth(1).unwrap().trim().trim_matches('`').to_lowercase())
        .collect();
    assert!(words.is_sorted_by(|a, b| a < b), "not sorted, or a word twice: {words:?}");
    for word in REQUIRED_TERMS.split_whitespace() {
        assert!(words.iter().any(|one| one == word), "{word:?} is missing in the glossary");
    }
}
