//! Finds the Python packages that shell commands install.

use std::sync::LazyLock;

use regex::Regex;

/// A PEP 508 requirement with a name. The second group contains the version specifiers.
static REQUIREMENT_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let specifier = r"(?:===|==|~=|!=|<=|>=|<|>)\s*[^\s,;()<>=!~]+";
    let name = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\s*(?:\[[A-Za-z0-9._,\s-]*\])?\s*";
    let list = format!(r"{specifier}(?:\s*,\s*{specifier})*\s*,?");
    Regex::new(&format!(r"^\s*{name}(\(?\s*(?:{list})?\s*\)?)\s*(?:;.*)?$")).ok()
});

/// Returns the packages that a pip or uv command installs, as they are written.
pub(super) fn installed_packages<'w>(
    command: &[&'w str],
    value_options: &[String],
) -> Vec<&'w str> {
    let (is_run, arguments) = match command {
        ["pip" | "pip3", "install", rest @ ..] => (false, rest),
        ["python" | "python3", "-m", "pip", "install", rest @ ..] => (false, rest),
        ["uv", "pip" | "tool", "install", rest @ ..] => (false, rest),
        ["uvx", rest @ ..] => (true, rest),
        _ => return Vec::new(),
    };
    let mut packages = Vec::new();
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        };
        if matches!(option, "--with" | "-w") {
            packages.push(value.or_else(|| words.next()).unwrap_or_default());
        } else if matches!(option, "-e" | "--editable") {
            let package = value.or_else(|| words.next()).unwrap_or_default();
            if package.contains("://") {
                packages.push(package);
            }
        } else if value_options.iter().any(|known| known == option) {
            if value.is_none() {
                words.next();
            }
        } else if !word.starts_with('-') {
            // `uvx` runs a program, and the remaining words are the program's arguments.
            if is_run {
                break;
            }
            packages.push(word);
        }
    }
    let upgrades = arguments.iter().any(|word| matches!(*word, "-U" | "--upgrade"));
    if packages == ["pip"] && upgrades { Vec::new() } else { packages }
}

/// Whether a later installation may install another version of the package. False for files,
/// folders and variables.
pub(super) fn is_unpinned(package: &str) -> bool {
    let is_local = [".", "/", "file:"].iter().any(|start| package.starts_with(start));
    if package.is_empty() || package.contains('$') || is_local {
        return false;
    }
    if package.contains("://") {
        return !has_commit(package) && !has_hash(package);
    }
    if [".whl", ".tar.gz", ".zip"].iter().any(|end| package.ends_with(end)) {
        return false;
    }
    let found = REQUIREMENT_PATTERN.as_ref().and_then(|pattern| pattern.captures(package));
    let Some(found) = found else { return false };
    let specifiers = found.get(1).map_or("", |group| group.as_str());
    let is_exact = |specifier: &str| specifier.trim().starts_with("==") && !specifier.contains('*');
    !specifiers.trim_matches(['(', ')', ' ']).split(',').any(is_exact)
}

/// Whether a URL contains `@` and a commit hash, either at its end or before `#`.
fn has_commit(address: &str) -> bool {
    address.match_indices('@').any(|(at, _)| {
        let rest = &address.as_bytes()[at + 1..];
        rest.len() >= 40
            && rest[..40].iter().all(u8::is_ascii_hexdigit)
            && matches!(rest.get(40), None | Some(b'#'))
    })
}

fn has_hash(address: &str) -> bool {
    address.rsplit_once("#sha256=").is_some_and(|(_, hash)| {
        hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Returns a package's name without extras and versions.
pub(super) fn package_name(package: &str) -> String {
    let end = package.find(['<', '>', '=', '!', '~', '[']).unwrap_or(package.len());
    package[..end].to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_parsed_from_install_commands() {
        let options = ["-r".to_owned(), "--from".to_owned()];
        for (command, expected) in [
            ("pip install a b==1 -r req.txt -q", vec!["a", "b==1"]),
            ("python3 -m pip install a", vec!["a"]),
            ("uv pip install -e . -e git+https://a/b", vec!["git+https://a/b"]),
            ("uvx --with a -w b==1 --from c pytest d", vec!["a", "b==1"]),
            ("uvx --with=a x", vec!["a"]),
            ("pip install -U pip", vec![]),
            ("apt install a", vec![]),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(installed_packages(&words, &options), expected, "{command}");
        }
    }

    #[test]
    fn only_exact_versions_commits_and_hashes_are_pins() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let (git, wheel) =
            (format!("git+https://a/b@{commit}#egg=c"), format!("https://a/b#sha256={commit}"));
        for (package, unpinned) in [
            ("pytest", true),
            ("pytest==8.4.1", false),
            ("pytest===8.4.1", false),
            ("pytest==8.*", true),
            ("pytest>=8,<9", true),
            ("pytest[extra]==8", false),
            ("pytest[extra]", true),
            ("a ; python_version < '3'", true),
            ("./a", false),
            ("$PACKAGES", false),
            ("a.whl", false),
            ("a=1", false),
            (git.as_str(), false),
            ("git+https://a/b@main", true),
            (wheel.as_str(), true),
        ] {
            assert_eq!(is_unpinned(package), unpinned, "{package}");
        }
        assert_eq!(package_name("Pytest_JSON_ctrf>=1"), "pytest-json-ctrf");
    }
}
