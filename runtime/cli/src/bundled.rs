//! The agents that run in the sandbox: their manifests, as far as their bundles are concerned.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proctor_bundles::BundleRecipe;

use crate::error::UserError;

macro_rules! manifests {
    ($($name:literal),* $(,)?) => {
        const SHIPPED: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!("../../../scaffolds/external/manifests/", $name, ".toml")),
        )),*];
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

/// One agent.
pub struct Bundled {
    /// As it was asked for.
    pub asked: String,
    pub name: String,
    pub version: String,
    /// `None` where the image of a task holds the program.
    pub recipe: Option<BundleRecipe>,
    /// The manifest.
    pub text: String,
    /// Where files lie that the manifest names.
    pub folder: PathBuf,
}

/// The folder of bundles below the cache.
pub fn folder(cache: &Path) -> PathBuf {
    cache.join("bundles")
}

pub fn is_shipped(name: &str) -> bool {
    SHIPPED.iter().any(|(known, _)| *known == name)
}

/// Every agent that Proctor ships.
pub fn shipped() -> Result<Vec<Bundled>, UserError> {
    let read = |(name, text): &(&str, &str)| {
        read(name, &format!("{name}.toml"), (*text).to_owned(), PathBuf::new())
    };
    SHIPPED.iter().map(read).collect()
}

/// The agent of a name, or of a manifest's path. `@VERSION` must be the manifest's own: a version is pinned with its
/// checksums.
pub fn find(asked: &str) -> Result<Bundled, UserError> {
    let path = Path::new(asked);
    if path.is_file() {
        let text = fs::read_to_string(path)
            .map_err(|error| UserError::new(format!("cannot read {asked}: {error}")))?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        return read(asked, asked, text, folder);
    }
    let (name, version) = match asked.rsplit_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (asked, None),
    };
    let Some((_, text)) = SHIPPED.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        let what =
            format!("no scaffold with a bundle is called `{name}`, and there is no such file");
        return Err(UserError::new(what)
            .hint(format!("known: {}; or name a manifest (docs/bundles.md)", known.join(", "))));
    };
    let found = read(asked, &format!("{name}.toml"), (*text).to_owned(), PathBuf::new())?;
    match version {
        Some(version) if version != found.version => {
            let what = format!("`{name}` is pinned at {}, not {version}", found.version);
            Err(UserError::new(what).hint(format!(
                "`proctor scaffold show {name} > my-{name}.toml`, change its name, versions and checksums, \
                 and name that file"
            )))
        }
        _ => Ok(found),
    }
}

fn read(asked: &str, file: &str, text: String, folder: PathBuf) -> Result<Bundled, UserError> {
    let wrong = |why: String| {
        UserError::new(format!("{file}: {}", why.trim_end().replace('\n', " ")))
            .hint("docs/bundles.md says what a manifest's [bundle] holds")
    };
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
        wrong(format!("line {line}: {}", error.message()))
    })?;
    let word = |key: &str| match table.get(key).and_then(toml::Value::as_str) {
        Some(word) if !word.is_empty() => Ok(word.to_owned()),
        _ => Err(wrong(format!("`{key}` is missing or no text"))),
    };
    let (name, version) = (word("name")?, word("version")?);
    let recipe = table.get("bundle").cloned().map(toml::Value::try_into::<BundleRecipe>);
    let recipe =
        recipe.transpose().map_err(|error| wrong(format!("[bundle]: {}", error.message())))?;
    if let Some(recipe) = &recipe {
        recipe.check().map_err(|error| wrong(error.what))?;
    }
    Ok(Bundled { asked: asked.to_owned(), name, version, recipe, text, folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_manifest_has_a_recipe_that_holds() {
        for found in shipped().unwrap() {
            assert_eq!(found.asked, found.name);
            let recipe = found.recipe.unwrap();
            // A checksum that nobody can check is none.
            assert!(
                !recipe.requirements.is_empty() || !recipe.packages.is_empty(),
                "{}",
                found.name
            );
        }
    }

    #[test]
    fn a_name_a_version_and_a_path_are_understood() {
        assert_eq!(find("codex").unwrap().name, "codex");
        let pinned = find("codex").unwrap().version;
        assert_eq!(find(&format!("codex@{pinned}")).unwrap().version, pinned);
        let error = find("codex@0.0.1").map(|_| ()).unwrap_err();
        assert!(error.what.contains(&format!("pinned at {pinned}, not 0.0.1")), "{}", error.what);
        let error = find("codecs").map(|_| ()).unwrap_err();
        assert!(error.hint.unwrap().contains("claude-code, codex"));

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        let name = file.display().to_string();
        let write = |text: &str| fs::write(&file, text).unwrap();
        write("name = 'mine'\nversion = '1'\n");
        assert!(find(&name).unwrap().recipe.is_none());
        for (text, says) in [
            ("name = 'mine'\n", "`version`"),
            ("name = 'mine\n", "line 1"),
            ("name = 'mine'\nversion = '1'\n[bundle]\nkind = 'apt'\n", "[bundle]"),
            (
                "name = 'mine'\nversion = '1'\n[bundle]\nkind = 'npm'\nbin = {a = 'b'}\n",
                "bundle.packages",
            ),
        ] {
            write(text);
            let error = find(&name).map(|_| ()).unwrap_err();
            assert!(error.what.starts_with(&name) && error.what.contains(says), "{}", error.what);
        }
    }
}
