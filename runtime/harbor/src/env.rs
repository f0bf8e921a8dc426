//! Values of environment variables that refer to variables on the host.

use std::collections::BTreeMap;

/// Replaces `${NAME}` and `${NAME:-default}`, but only if they make up the whole value. Harbor does
/// the same when a trial starts.
///
/// # Errors
/// Fails if a variable is not set and has no default.
pub fn expand_env(
    env: &BTreeMap<String, String>,
    host_variable: &dyn Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, String> {
    let filled = env.iter().map(|(key, value)| {
        let Some((name, default)) = parse_reference(value) else {
            return Ok((key.clone(), value.clone()));
        };
        let found =
            host_variable(name).or_else(|| default.map(str::to_owned)).ok_or_else(|| {
                format!("`{key}` needs the variable {name}, which is not set on this machine")
            })?;
        Ok((key.clone(), found))
    });
    filled.collect()
}

fn parse_reference(value: &str) -> Option<(&str, Option<&str>)> {
    let inner = value.strip_prefix("${")?.strip_suffix('}')?;
    let (name, default) = match inner.split_once(':') {
        None => (inner, None),
        Some((name, rest)) => (name, Some(rest.strip_prefix('-')?)),
    };
    // A value such as `${A} and ${B}` is plain text, because it is not a single reference.
    (!name.is_empty() && !name.contains('}')).then_some((name, default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expand_env_replaces_only_entire_values() {
        let host = |name: &str| (name == "SET").then(|| "host".to_owned());
        for (value, found) in [
            ("${SET}", "host"),
            ("${SET:-x}", "host"),
            ("${UNSET:-x:y}", "x:y"),
            ("${UNSET:-}", ""),
            ("a ${SET}", "a ${SET}"),
            ("${A} ${B}", "${A} ${B}"),
            ("$SET", "$SET"),
        ] {
            let env = BTreeMap::from([("K".to_owned(), value.to_owned())]);
            assert_eq!(expand_env(&env, &host).unwrap()["K"], found, "{value}");
        }
        let env = BTreeMap::from([("K".to_owned(), "${UNSET}".to_owned())]);
        assert!(expand_env(&env, &host).unwrap_err().contains("UNSET"));
    }
}
