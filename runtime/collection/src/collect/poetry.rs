//! Converts requirements in Poetry's format to PEP 508.

use std::sync::LazyLock;

use regex::Regex;
use toml::{Table, Value};

use super::settings::EnvironmentSettings;

/// Returns the test requirements in Poetry's tables: from a group or `dev-dependencies`, and from
/// an extra.
pub(super) fn test_requirements(
    poetry: Option<&Table>,
    settings: &EnvironmentSettings,
) -> Vec<String> {
    let Some(poetry) = poetry else { return Vec::new() };
    let table = |key: &str| poetry.get(key).and_then(Value::as_table);
    let group = |name: &String| table("group")?.get(name)?.get("dependencies")?.as_table();
    let found = settings.groups.iter().find_map(group).or_else(|| table("dev-dependencies"));
    let mut out: Vec<String> = found
        .into_iter()
        .flatten()
        .flat_map(|(name, value)| entry_requirements(name, value))
        .collect();
    let extra = |name: &String| table("extras")?.get(name)?.as_array();
    for name in settings.extras.iter().find_map(extra).into_iter().flatten() {
        let name = name.as_str().map(proctor_types::normalize_package_name);
        let of_package = table("dependencies").into_iter().flatten();
        let same = of_package
            .filter(|(other, _)| Some(proctor_types::normalize_package_name(other)) == name)
            .flat_map(|(name, value)| entry_requirements(name, value));
        out.extend(same);
    }
    out
}

/// Returns the `Requires-Python` condition from Poetry's dependencies.
pub(super) fn requires_python(poetry: Option<&Table>) -> Option<String> {
    let limits = to_version_specifiers(poetry?.get("dependencies")?.get("python")?.as_str()?);
    // `3.8` stands for any 3.8 release.
    let is_one = limits.starts_with("==") && limits.matches('.').count() == 1;
    Some(if is_one { limits + ".*" } else { limits })
}

/// Returns the requirements of one entry: a version, a table, or a list of these.
fn entry_requirements(name: &str, value: &Value) -> Vec<String> {
    if name == "python" {
        return Vec::new();
    }
    match value {
        Value::String(version) => vec![format!("{name}{}", to_version_specifiers(version))],
        Value::Table(table) => table_requirement(name, table).into_iter().collect(),
        Value::Array(list) => {
            list.iter().flat_map(|value| entry_requirements(name, value)).collect()
        }
        _ => vec![name.to_owned()],
    }
}

/// Returns the requirement for an entry that is a table. Returns `None` for a local path, because a
/// package with the same name on the index may be a different project. A dependency on a repository
/// or URL becomes a requirement without a version.
fn table_requirement(name: &str, table: &Table) -> Option<String> {
    if table.contains_key("path") || table.contains_key("file") {
        return None;
    }
    let text = |key: &str| table.get(key).and_then(Value::as_str);
    let extras: Vec<&str> = table
        .get("extras")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let extras = if extras.is_empty() { String::new() } else { format!("[{}]", extras.join(",")) };
    let platform = text("platform").filter(|it| it.chars().all(char::is_alphanumeric));
    let markers: Vec<String> = [
        text("markers").map(str::to_owned),
        text("python").and_then(to_python_marker),
        platform.map(|it| format!("sys_platform == '{it}'")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let markers = match &markers[..] {
        [] => String::new(),
        [one] => format!("; {one}"),
        more => format!("; ({})", more.join(") and (")),
    };
    Some(format!(
        "{name}{extras}{}{markers}",
        text("version").map(to_version_specifiers).unwrap_or_default()
    ))
}

/// Converts a version condition to PEP 440 specifiers. If there are alternatives (`||`), only the
/// last one is used, which is usually the newest. Returns an empty string if the condition cannot
/// be parsed.
fn to_version_specifiers(text: &str) -> String {
    let last = text.rsplit("||").next().unwrap_or(text);
    let clauses = parse_clauses(last).unwrap_or_default();
    clauses.iter().map(Clause::to_string).collect::<Vec<_>>().join(",")
}

/// Converts a condition on the Python version to a marker.
fn to_python_marker(text: &str) -> Option<String> {
    let all = |part: &str| -> Option<String> {
        let of = parse_clauses(part)?.into_iter().map(|clause| {
            // As in Poetry, `3.8` stands for any 3.8 release.
            let name = match clause.version.trim_end_matches(".*").split('.').count() {
                0..=2 => "python_version",
                _ => "python_full_version",
            };
            format!("{name} {} '{}'", clause.operator, clause.version)
        });
        let of: Vec<String> = of.collect();
        (!of.is_empty()).then(|| of.join(" and "))
    };
    let parts: Option<Vec<String>> = text.split("||").map(all).collect();
    parts.map(|parts| parts.join(" or "))
}

struct Clause {
    operator: &'static str,
    version: String,
}

impl std::fmt::Display for Clause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.operator, self.version)
    }
}

/// Parses a list of conditions that must all be met. Returns an empty list for `*`, and `None` if
/// the text cannot be parsed.
fn parse_clauses(text: &str) -> Option<Vec<Clause>> {
    static CLAUSE_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^[\s,]*(\^|~=|~|===|==|=|>=|<=|!=|>|<|)\s*v?(\*|[0-9][0-9A-Za-z.*+!-]*)").ok()
    });
    let clause = CLAUSE_PATTERN.as_ref()?;
    let (mut out, mut rest) = (Vec::new(), text);
    while !rest.trim_matches([' ', ',']).is_empty() {
        let found = clause.captures(rest)?;
        let (operator, version) = (found.get(1)?.as_str(), found.get(2)?.as_str());
        rest = &rest[found.get(0)?.end()..];
        add_clauses(operator, version, &mut out)?;
    }
    Some(out)
}

fn add_clauses(operator: &str, version: &str, out: &mut Vec<Clause>) -> Option<()> {
    let plain = version.trim_end_matches(".*");
    if plain == "*" {
        return Some(());
    }
    if plain.contains('*') {
        return None;
    }
    let mut add = |operator, version: &str| out.push(Clause { operator, version: version.into() });
    let exact = if plain == version { plain.to_owned() } else { format!("{plain}.*") };
    match operator {
        "" | "=" | "==" | "===" => add("==", &exact),
        "!=" => add("!=", &exact),
        "^" => {
            add(">=", plain);
            add("<", &upper_bound(plain, |numbers| numbers.iter().position(|&number| number > 0))?);
        }
        "~" => {
            add(">=", plain);
            add("<", &upper_bound(plain, |numbers| Some(1).filter(|_| numbers.len() > 1))?);
        }
        ">=" => add(">=", plain),
        "<=" => add("<=", plain),
        ">" => add(">", plain),
        "<" => add("<", plain),
        _ => add("~=", plain),
    }
    Some(())
}

/// Returns the upper end of a range, by incrementing one of the version's numbers and dropping the
/// numbers after it. `choose_index` returns the index of the number to increment. If `choose_index`
/// returns `None`, the first number is incremented, or the last one if all numbers are zero.
fn upper_bound(version: &str, choose_index: impl Fn(&[u64]) -> Option<usize>) -> Option<String> {
    let digits = |part: &&str| part.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    let mut numbers = Vec::new();
    for part in version.split('.').take_while(digits) {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        numbers.push(part[..end].parse::<u64>().ok()?);
        // In `2b1`, the suffix is not part of the release number.
        if end < part.len() {
            break;
        }
    }
    let all_zero = numbers.iter().all(|&number| number == 0);
    let last = if all_zero { numbers.len().checked_sub(1)? } else { 0 };
    let index = choose_index(&numbers).unwrap_or(last).min(numbers.len().checked_sub(1)?);
    numbers.truncate(index + 1);
    *numbers.last_mut()? += 1;
    Some(numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::{super::settings::Settings, *};

    #[test]
    fn to_version_specifiers_converts_poetry_conditions() {
        for (poetry, pip) in [
            ("*", ""),
            ("^1.2.3", ">=1.2.3,<2"),
            ("^0.2.3", ">=0.2.3,<0.3"),
            ("^0.0.3", ">=0.0.3,<0.0.4"),
            ("^0.0", ">=0.0,<0.1"),
            ("^0", ">=0,<1"),
            ("^7.0b1", ">=7.0b1,<8"),
            ("~1", ">=1,<2"),
            ("~1.2", ">=1.2,<1.3"),
            ("~1.2.3", ">=1.2.3,<1.3"),
            ("~=1.2", "~=1.2"),
            ("1.*", "==1.*"),
            ("1.2.*", "==1.2.*"),
            ("1.2", "==1.2"),
            (">=1,<2", ">=1,<2"),
            (">= 1.0 <2.0, !=1.5", ">=1.0,<2.0,!=1.5"),
            ("^1.0 || ^2.1", ">=2.1,<3"),
            ("@latest", ""),
            ("1.*.2", ""),
            ("", ""),
        ] {
            assert_eq!(to_version_specifiers(poetry), pip, "{poetry}");
        }
    }

    #[test]
    fn test_requirements_reads_groups_extras_and_tables() {
        let settings = &Settings::get().unwrap().environment;
        let read = |text: &str| test_requirements(Some(&text.parse().unwrap()), settings);
        let group = read(
            "[dependencies]\npython = '^3.8'\nOrjson = {version = '>=3', optional = true}\nidle = '1'\n\
             [extras]\ntest = ['orjson']\n[group.test.dependencies]\na = '^1.2'\nb = {version = '~2.1', extras = ['x', 'y']}\n\
             c = {version = '*', markers = \"os_name == 'nt' or extra == 'z'\", python = '^3.8'}\n\
             d = [{version = '<2', python = '<3.10'}, {version = '^2', python = '>=3.10.1 || 3.7'}]\n\
             e = {git = 'https://h.test/e.git', rev = 'x'}\nf = {path = '../f', develop = true}\n\
             g = {url = 'https://h.test/g.tar.gz', platform = 'linux'}\npython = '*'\n",
        );
        assert_eq!(
            group,
            [
                "a>=1.2,<2",
                "b[x,y]>=2.1,<2.2",
                "c; (os_name == 'nt' or extra == 'z') and (python_version >= '3.8' and python_version < '4')",
                "d<2; python_version < '3.10'",
                "d>=2,<3; python_full_version >= '3.10.1' or python_version == '3.7'",
                "e",
                "g; sys_platform == 'linux'",
                "Orjson>=3",
            ]
        );
        assert_eq!(read("[dev-dependencies]\npytest = '^6.2'\n"), ["pytest>=6.2,<7"]);
        assert!(test_requirements(None, settings).is_empty());
        let table: Table = "[dependencies]\npython = '~2.7 || ^3.8'\n".parse().unwrap();
        assert_eq!(requires_python(Some(&table)).as_deref(), Some(">=3.8,<4"));
        let table: Table = "[dependencies]\npython = '3.8'\n".parse().unwrap();
        assert_eq!(requires_python(Some(&table)).as_deref(), Some("==3.8.*"));
        assert_eq!(requires_python(None), None);
    }
}
