//! Reads the pip settings that determine the package index, so that sdists come from the same index
//! as the packages that setup commands install.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

const DEFAULT_INDEX: &str = "https://pypi.org/simple";

/// The settings that pip would use. `find-links` is ignored, because a checksum identifies each
/// sdist, and an unreachable index should be reported instead of bypassed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PipSettings {
    /// Index URLs, in the order in which they are queried.
    pub(crate) indexes: Vec<String>,
    pub(crate) cert: Option<PathBuf>,
}

impl PipSettings {
    /// Reads environment variables and pip's configuration files as pip does: variables override
    /// files, and later files override earlier files.
    pub(crate) fn from_env() -> Self {
        let files: Vec<String> =
            config_files().iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        Self::from_env_and_files(
            &|key| env::var(key).ok().filter(|value| !value.is_empty()),
            &files,
        )
    }

    fn from_env_and_files(variable: &dyn Fn(&str) -> Option<String>, files: &[String]) -> Self {
        let value = |name: &str, key: &str| {
            variable(name).or_else(|| files.iter().rev().find_map(|text| find_setting(text, key)))
        };
        let index = value("PIP_INDEX_URL", "index-url").unwrap_or_else(|| DEFAULT_INDEX.into());
        let extra = value("PIP_EXTRA_INDEX_URL", "extra-index-url").unwrap_or_default();
        let indexes = std::iter::once(index.as_str())
            .chain(extra.split_whitespace())
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        Self { indexes, cert: value("PIP_CERT", "cert").map(PathBuf::from) }
    }
}

fn config_files() -> Vec<PathBuf> {
    let config_file = env::var_os("PIP_CONFIG_FILE").map(PathBuf::from);
    // This value makes pip ignore all configuration files.
    if config_file.as_deref() == Some(Path::new("/dev/null")) {
        return Vec::new();
    }
    let mut out = vec![PathBuf::from("/etc/xdg/pip/pip.conf"), PathBuf::from("/etc/pip.conf")];
    if let Some(home) = env::var_os("HOME").map(PathBuf::from) {
        out.push(home.join(".pip/pip.conf"));
        let config = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        out.push(config.unwrap_or_else(|| home.join(".config")).join("pip/pip.conf"));
    }
    out.extend(config_file);
    out
}

/// Returns the value of a key in the section `[global]`, `[install]` or `[download]`. The more
/// specific section takes precedence.
fn find_setting(text: &str, setting: &str) -> Option<String> {
    let mut section = String::new();
    let mut setting_value: Option<(u8, String)> = None;
    let mut open = None;
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim().to_owned();
            open = None;
            continue;
        }
        let rank = match section.as_str() {
            "global" => 1,
            "install" => 2,
            "download" => 3,
            _ => continue,
        };
        if line.starts_with([' ', '\t']) {
            // An indented line continues the value above it.
            if open == Some(rank)
                && let Some((_, value)) = &mut setting_value
            {
                value.push(' ');
                value.push_str(line.trim());
            }
            continue;
        }
        open = None;
        if line.starts_with(['#', ';']) {
            continue;
        }
        let Some((key, value)) = line.split_once(['=', ':']) else { continue };
        let same = key.trim().replace('_', "-").eq_ignore_ascii_case(setting);
        if same && setting_value.as_ref().is_none_or(|(best, _)| rank >= *best) {
            setting_value = Some((rank, value.trim().to_owned()));
            open = Some(rank);
        }
    }
    setting_value.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pip_variables_override_files_and_later_files_win() {
        let none = |_: &str| None;
        assert_eq!(PipSettings::from_env_and_files(&none, &[]).indexes, [DEFAULT_INDEX]);
        let files = [
            "[global]\nindex-url = https://one/simple/\ncert=/a.pem\n".to_owned(),
            "[global]\nindex_url: https://two/simple\nextra-index-url =\n  https://x/s\n  https://y/s\n"
                .to_owned(),
        ];
        let settings = PipSettings::from_env_and_files(&none, &files);
        assert_eq!(settings.indexes, ["https://two/simple", "https://x/s", "https://y/s"]);
        assert_eq!(settings.cert, Some("/a.pem".into()));
        let set = |key: &str| (key == "PIP_INDEX_URL").then(|| "https://three/simple".to_owned());
        assert_eq!(
            PipSettings::from_env_and_files(&set, &files).indexes[0],
            "https://three/simple"
        );
    }

    #[test]
    fn pip_command_section_wins() {
        let text = "[install]\nindex-url = https://i\n[global]\n# note\nindex-url = https://g\n";
        assert_eq!(find_setting(text, "index-url").as_deref(), Some("https://i"));
        assert_eq!(find_setting("[other]\nindex-url = x\n", "index-url"), None);
    }
}
