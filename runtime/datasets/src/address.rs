//! Dataset addresses: `rows.jsonl` or `hf://owner/name@revision/split`, each optionally followed by
//! `#key=value` options.

use std::path::{Path, PathBuf};

use crate::{DatasetError, errors::nearest_key};

/// The prefix of a Hugging Face Hub address.
const HUB_PREFIX: &str = "hf://";

/// A dataset address from the command line or the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub location: DatasetLocation,
    pub options: AddressOptions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DatasetLocation {
    /// A file, a directory or a glob.
    Disk(String),
    Hub(HubName),
}

/// The name and revision of a hub dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HubName {
    /// `owner/name`.
    pub name: String,
    pub revision: Option<String>,
}

/// The options after `#`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AddressOptions {
    pub shape: Option<String>,
    pub split: Option<String>,
    pub ids: Option<PathBuf>,
    pub has_hints: bool,
    pub repos: Option<PathBuf>,
    pub image: Option<String>,
    pub base_image: Option<String>,
    pub bin_dir: Option<String>,
    /// Setup commands from the given file. They replace the shape's own setup commands.
    pub setup: Option<Vec<String>>,
}

const OPTION_KEYS: [&str; 9] =
    ["shape", "split", "ids", "hints", "repos", "image", "base", "bin", "setup"];

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, DatasetError> {
        let (place, options) = text.split_once('#').unwrap_or((text, ""));
        let mut options =
            AddressOptions::parse(options).map_err(|why| bad_address_error(text, why))?;
        let Some(rest) = place.strip_prefix(HUB_PREFIX) else {
            return Ok(Self { location: DatasetLocation::Disk(place.to_owned()), options });
        };
        let mut parts = rest.splitn(3, '/');
        let (owner, name, split) = (parts.next(), parts.next(), parts.next());
        let (Some(owner), Some(name)) = (owner.filter(is_valid_name), name) else {
            return Err(bad_address_error(
                text,
                "expected hf://owner/name or hf://owner/name@revision/split".into(),
            ));
        };
        let (name, revision) = match name.split_once('@') {
            Some((name, revision)) => (name, Some(revision.to_owned())),
            None => (name, None),
        };
        if !is_valid_name(&name)
            || revision.as_deref().is_some_and(|revision| !is_valid_name(&revision))
        {
            return Err(bad_address_error(
                text,
                "names and revisions may contain only letters, digits, and `.-_`".into(),
            ));
        }
        if let Some(split) = split.filter(|split| !split.is_empty()) {
            options.split = Some(split.to_owned());
        }
        let name = format!("{owner}/{name}");
        Ok(Self { location: DatasetLocation::Hub(HubName { name, revision }), options })
    }
}

impl Address {
    /// Like [`Address::parse`], but resolves the options' file paths relative to `base_dir`. If a
    /// file has the whole text as its name, including any `#`, the address refers to that file and
    /// has no options.
    pub(crate) fn parse_at(text: &str, base_dir: &Path) -> Result<Self, DatasetError> {
        if base_dir.join(text).is_file() {
            return Ok(Self {
                location: DatasetLocation::Disk(text.to_owned()),
                options: AddressOptions::default(),
            });
        }
        let mut address = Self::parse(text)?;
        for path in [&mut address.options.ids, &mut address.options.repos].into_iter().flatten() {
            *path = base_dir.join(&*path);
        }
        if let Some(setup) = &mut address.options.setup {
            let file = base_dir.join(setup.concat());
            let why =
                |error| bad_address_error(text, format!("`setup={}`: {error}", file.display()));
            let lines = std::fs::read_to_string(&file).map_err(why)?;
            *setup = lines
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .map(str::to_owned)
                .collect();
        }
        if let Some(repos) = &mut address.options.repos {
            let why =
                |error| bad_address_error(text, format!("`repos={}`: {error}", repos.display()));
            *repos = repos.canonicalize().map_err(why)?;
        }
        Ok(address)
    }
}

impl AddressOptions {
    fn parse(text: &str) -> Result<Self, String> {
        let mut out = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| format!("option `{pair}` has no value"))?;
            let truth = || match value {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(format!("option `{key}` must be true or false")),
            };
            let text = || Some(value.to_owned());
            match key {
                "shape" => out.shape = text(),
                "split" => out.split = text(),
                "ids" => out.ids = Some(value.into()),
                "hints" => out.has_hints = truth()?,
                "interfaces" | "white" => {
                    let now = if key == "white" { "tests" } else { key };
                    return Err(format!(
                        "option `{key}` was replaced by an arm's factor: set `{now} = {value}` \
                         below [statement] in the run configuration"
                    ));
                }
                "repos" => out.repos = Some(value.into()),
                "image" => out.image = text(),
                "base" => out.base_image = text(),
                "bin" => out.bin_dir = text(),
                "setup" => out.setup = Some(vec![value.to_owned()]),
                _ => {
                    let hint = nearest_key(key, OPTION_KEYS).map_or_else(
                        || OPTION_KEYS.join(", "),
                        |near| format!("did you mean `{near}`?"),
                    );
                    return Err(format!("unknown option `{key}`; {hint}"));
                }
            }
        }
        if out.image.is_some() && out.base_image.is_some() {
            return Err("has both `image` and `base`; keep one".into());
        }
        Ok(out)
    }
}

/// Names become part of URLs and cache paths, so they must not contain path separators or start
/// with a dot.
fn is_valid_name(text: &&str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn bad_address_error(text: &str, reason: String) -> DatasetError {
    DatasetError::BadAddress { address: text.to_owned(), why: reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_address_has_a_revision_and_a_split() {
        let read = |text: &str| Address::parse(text).unwrap();
        let full = read("hf://SWE-bench/SWE-bench_Lite@v1.0/dev#hints=true");
        let name =
            HubName { name: "SWE-bench/SWE-bench_Lite".into(), revision: Some("v1.0".into()) };
        assert_eq!(full.location, DatasetLocation::Hub(name));
        assert_eq!((full.options.split.as_deref(), full.options.has_hints), (Some("dev"), true));
        assert_eq!(read("data/*.parquet").location, DatasetLocation::Disk("data/*.parquet".into()));
    }

    #[test]
    fn unknown_option_error_suggests_the_nearest_option() {
        for (text, said) in [
            ("hf://name", "hf://owner/name"),
            ("hf://owner/../x", "letters, digits"),
            ("hf://owner/name@../x", "letters, digits"),
            ("a.jsonl#spilt=x", "did you mean `split`?"),
            ("a.jsonl#hints=yes", "true or false"),
            ("a.jsonl#shape", "has no value"),
            ("a.jsonl#image=x&base=host", "keep one"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
