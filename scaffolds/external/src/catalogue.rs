//! Loads manifests: built-in ones and users' own.

use std::path::Path;

use proctor_bundles::BundleRecipe;
use proctor_types::RepositorySettings;

use crate::{Manifest, ManifestError, RepositoryFiles, templates};

/// The title of the manifest schema.
pub const SCHEMA_TITLE: &str = "A manifest of Proctor: a command-line agent as a scaffold";

macro_rules! manifests {
    ($($name:literal),* $(,)?) => {
        const NAMES: &[&str] = &[$($name),*];
        static TEXTS: [&str; NAMES.len()] = [$(include_str!(concat!("../manifests/", $name, ".toml"))),*];
    };
}

manifests!(
    "claude-code",
    "codex",
    "continue",
    "gemini-cli",
    "mini-swe-agent",
    "opencode",
    "openhands",
    "qwen-code",
);

/// A manifest and its text, which is a factor of every arm.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedManifest {
    /// The parsed manifest.
    pub manifest: Manifest,
    /// The text as written.
    pub text: String,
}

/// Returns the names that configurations use, sorted.
pub fn names() -> &'static [&'static str] {
    NAMES
}

/// Returns the built-in manifest for `NAME` or `NAME@VERSION`; `None` if no manifest has this name.
///
/// # Errors
/// Fails if the requested version is not the manifest's own version, which is pinned together with
/// its checksums.
pub fn shipped_manifest(requested_name: &str) -> Result<Option<LoadedManifest>, ManifestError> {
    let (name, version) = match requested_name.rsplit_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (requested_name, None),
    };
    let found = NAMES.iter().zip(&TEXTS).find(|(known, _)| **known == name);
    let Some((name, text)) = found else { return Ok(None) };
    let loaded = parse_manifest(&format!("{name}.toml"), text)?;
    let pinned = &loaded.manifest.version;
    match version {
        Some(version) if version != pinned => Err(ManifestError {
            file: requested_name.to_owned(),
            problem: format!("`{name}` is pinned at {pinned}, not {version}"),
            // Suggest a version number, because a run must record an exact version and a tag such
            // as `latest` moves.
            hint: match version.starts_with(|first: char| first.is_ascii_digit()) {
                true => {
                    format!(
                        "build another published version with `proctor scaffold add {requested_name}`"
                    )
                }
                false => format!(
                    "use a version number; `proctor scaffold add {requested_name}` builds the current `{version}` and prints its version"
                ),
            },
        }),
        _ => Ok(Some(loaded)),
    }
}

/// Loads a user's own manifest.
///
/// # Errors
/// Fails if the file cannot be read, is not a valid manifest, or has the name of a built-in
/// manifest.
pub fn load(path: &Path) -> Result<LoadedManifest, ManifestError> {
    let file = path.display().to_string();
    let problem = |what: String| ManifestError::new(&file, what);
    let text = std::fs::read_to_string(path)
        .map_err(|error| problem(format!("cannot be read: {error}")))?;
    let loaded = parse_manifest(&file, &text)?;
    let Manifest { name, version, bundle, .. } = &loaded.manifest;
    if NAMES.contains(&name.as_str()) {
        return Err(problem(format!(
            "`name`: `{name}` is a built-in scaffold; choose a different name"
        )));
    }
    if bundle.as_ref().is_some_and(|recipe| !recipe.has_version(version)) {
        return Err(problem(format!(
            "`version`: no package in `[bundle]` has version {version}; the two must agree"
        )));
    }
    Ok(loaded)
}

/// Returns the name for the manifest of another version of a built-in agent.
pub fn versioned_name(name: &str, version: &str) -> String {
    format!("{name}-{version}")
}

/// Returns the manifest of a built-in agent with another, untested version.
///
/// # Errors
/// Fails if the new manifest cannot be loaded.
pub fn manifest_for_version(
    name: &str,
    version: &str,
    recipe: BundleRecipe,
) -> Result<Option<LoadedManifest>, ManifestError> {
    let Some(loaded) = shipped_manifest(name)? else { return Ok(None) };
    let manifest = Manifest {
        name: versioned_name(name, version),
        version: version.to_owned(),
        says: format!(
            "{} Untested: created by `proctor scaffold add {name}@{version}`.",
            loaded.manifest.says
        ),
        untested: true,
        bundle: Some(recipe),
        ..loaded.manifest
    };
    let file = format!("{name}@{version}");
    let text = toml::to_string(&manifest)
        .map_err(|error| ManifestError::new(&file, format!("cannot be written: {error}")))?;
    parse_manifest(&file, &text).map(Some)
}

/// Parses and checks a manifest. `file` is the path to show in messages.
///
/// # Errors
/// Fails if a key is unknown, missing or has the wrong type, if a value is out of range, or if a
/// template cannot be rendered.
pub fn parse_manifest(file: &str, text: &str) -> Result<LoadedManifest, ManifestError> {
    let problem = |what: String| ManifestError::new(file, what);
    let manifest: Manifest = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
        problem(format!("line {line}: {}", error.message().replace('\n', " ")))
    })?;
    check_manifest(&manifest).map_err(problem)?;
    templates::check_templates(&manifest).map_err(problem)?;
    Ok(LoadedManifest { manifest, text: text.to_owned() })
}

/// Checks constraints that the types cannot express.
fn check_manifest(manifest: &Manifest) -> Result<(), String> {
    let Manifest { name, version, command, stop, files, .. } = manifest;
    let plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    if name.is_empty() || !name.chars().all(plain) || name.starts_with('.') {
        return Err("`name`: use letters, digits, `-`, `_` and `.`".into());
    }
    if version.trim().is_empty() {
        return Err("`version` is empty; set it to the agent's exact version".into());
    }
    if command.argv.first().is_none_or(|program| program.trim().is_empty()) {
        return Err("`command.argv` has no program".into());
    }
    if let Some(recipe) = &manifest.bundle {
        recipe.check_constraints().map_err(|error| error.to_string())?;
    }
    let seconds = [stop.leave_seconds, stop.grace_seconds];
    if seconds.iter().any(|one| !one.is_finite() || *one < 0.0) || seconds.iter().sum::<f64>() > 4.5
    {
        return Err("`stop`: `leave_seconds` plus `grace_seconds` must be from 0 to 4.5".into());
    }
    if stop.refusals == 0 {
        return Err("`stop.refusals` must be at least 1".into());
    }
    if !(1.0..=86_400.0).contains(&manifest.idle_seconds) {
        return Err("`idle_seconds` must be from 1 to 86400".into());
    }
    for file in files {
        if !is_contained_path(&file.path) {
            let path = &file.path;
            return Err(format!("`files`: `{path}` is not a path below HOME"));
        }
    }
    for rule in &manifest.exit {
        let means = serde_json::to_string(&rule.means).unwrap_or_default();
        if rule.codes.is_empty() && rule.output.is_empty() && rule.record.is_empty() {
            return Err(format!(
                "`exit`: the rule for {means} has no condition; add `codes`, `output` or `record`"
            ));
        }
        let Some(file) = &rule.file else { continue };
        if rule.record.is_empty() {
            return Err(format!("`exit`: the rule for {means} has a `file` but no `record`"));
        }
        if !is_contained_path(file) {
            return Err(format!("`exit`: `{file}` is not a path below HOME"));
        }
    }
    let RepositoryFiles { settings, knowledge } = &manifest.repository;
    if let Some(path) = settings.iter().chain(knowledge).find(|path| !is_contained_path(path)) {
        return Err(format!("`repository`: `{path}` is not a path below the work directory"));
    }
    if manifest.settings.contains_key(RepositorySettings::KEY) {
        let key = RepositorySettings::KEY;
        return Err(format!("`settings.{key}`: reserved for arms; choose a different name"));
    }
    Ok(())
}

/// Returns whether a path is relative and has no `..`.
fn is_contained_path(path: &str) -> bool {
    !path.is_empty() && !path.split('/').any(|part| ["", ".", ".."].contains(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL_MANIFEST: &str =
        "name = 'mine'\nversion = '1'\napi = 'chat'\n[command]\nargv = ['/bin/x']\n";

    #[test]
    fn shipped_manifests_load_under_their_names() {
        for name in names() {
            assert_eq!(shipped_manifest(name).unwrap().unwrap().manifest.name, *name);
        }
        assert!(names().is_sorted());
        assert_eq!(shipped_manifest("Codex").unwrap(), None);
        assert_eq!(shipped_manifest("Codex@1").unwrap(), None);
        let tag = shipped_manifest("codex@latest").unwrap_err();
        assert!(tag.hint.starts_with("use a version number"), "{tag:?}");
    }

    #[test]
    fn all_manifest_files_are_shipped() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().path();
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            if file.extension().is_some_and(|ext| ext == "toml") {
                assert!(names().contains(&name.as_str()), "{name}");
            }
        }
    }

    #[test]
    fn manifest_errors_name_the_key_or_line() {
        assert_eq!(parse_manifest("m", SMALL_MANIFEST).unwrap().manifest.idle_seconds, 600.0);
        let wrong = [
            (SMALL_MANIFEST.replace("api", "apy"), "line 3"),
            (SMALL_MANIFEST.replace("'mine'", "'a/b'"), "`name`"),
            (SMALL_MANIFEST.replace("'/bin/x'", ""), "`command.argv`"),
            (format!("{SMALL_MANIFEST}stdin = '{{{{ promt }}}}'\n"), "`command.stdin`"),
            (format!("{SMALL_MANIFEST}[stop]\nleave_seconds = 4.0\n"), "`stop`"),
            (format!("{SMALL_MANIFEST}[[files]]\npath = '../x'\ncontent = ''\n"), "`../x`"),
            (format!("{SMALL_MANIFEST}[[files]]\npath = 'x'\ncontent = '{{% if'\n"), "`files`"),
            (format!("{SMALL_MANIFEST}[env]\nA = '{{{{ settings.effort }}}}'\n"), "`env.A`"),
            (format!("{SMALL_MANIFEST}[[exit]]\nmeans = 'loop'\n"), "no condition"),
            (format!("{SMALL_MANIFEST}[[exit]]\nmeans = 'stuck'\n"), "line 7"),
            (
                format!("{SMALL_MANIFEST}[[exit]]\nmeans = 'loop'\ncodes = [1]\nfile = 'x'\n"),
                "no `record`",
            ),
            (format!("{SMALL_MANIFEST}[repository]\nsettings = ['../x.json']\n"), "`../x.json`"),
            (format!("{SMALL_MANIFEST}[repository]\nknowledge = ['/AGENTS.md']\n"), "`/AGENTS.md`"),
            (format!("{SMALL_MANIFEST}[repository]\nsetting = ['x']\n"), "line 7"),
            (format!("{SMALL_MANIFEST}[settings]\nrepository_settings = 'use'\n"), "`settings.rep"),
        ];
        for (text, says) in wrong {
            let error = parse_manifest("my.toml", &text).unwrap_err().to_string();
            assert!(error.starts_with("my.toml: ") && error.contains(says), "{says}: {error}");
        }
    }

    #[test]
    fn manifest_for_version_changes_only_packages() {
        for name in names() {
            let tested = shipped_manifest(name).unwrap().unwrap().manifest;
            assert!(!tested.untested, "{name}");
            let recipe = tested.bundle.clone().unwrap();
            assert!(recipe.has_version(&tested.version), "{name}");
            let other = manifest_for_version(name, "99.1.0", recipe).unwrap().unwrap().manifest;
            assert!(other.untested && other.name == format!("{name}-99.1.0"), "{name}");
            let same = Manifest {
                name: tested.name.clone(),
                version: tested.version.clone(),
                says: tested.says.clone(),
                untested: false,
                ..other
            };
            assert_eq!(same, tested, "{name}: the TOML round trip loses a value");
        }
        assert_eq!(manifest_for_version("none", "1", shipped_recipe()).unwrap(), None);
    }

    fn shipped_recipe() -> BundleRecipe {
        shipped_manifest("codex").unwrap().unwrap().manifest.bundle.unwrap()
    }

    #[test]
    fn load_rejects_a_version_that_no_package_has() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        let bundle = "[bundle]\nkind = 'npm'\nbin = { a = 'a' }\n[[bundle.packages]]\nname = 'a'\n\
                      version = '1'\nintegrity = 'sha512-x'\n";
        std::fs::write(&file, format!("{SMALL_MANIFEST}{bundle}")).unwrap();
        assert!(load(&file).is_ok());
        let newer =
            format!("{SMALL_MANIFEST}{bundle}").replacen("version = '1'", "version = '2'", 1);
        std::fs::write(&file, newer).unwrap();
        let error = load(&file).unwrap_err().to_string();
        assert!(error.contains("no package in `[bundle]` has version 2"), "{error}");
    }

    #[test]
    fn load_rejects_names_of_shipped_manifests() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        std::fs::write(&file, SMALL_MANIFEST).unwrap();
        assert_eq!(load(&file).unwrap().manifest.name, "mine");
        std::fs::write(&file, SMALL_MANIFEST.replace("mine", "codex")).unwrap();
        assert!(load(&file).unwrap_err().to_string().contains("`codex` is a built-in scaffold"));
        assert!(
            load(&folder.path().join("none")).unwrap_err().to_string().contains("cannot be read")
        );
    }
}
