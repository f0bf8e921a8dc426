//! Finds similar names, for hints.

/// Returns the name most similar to `unknown_name`, or `None` if no name is similar enough: a wrong
/// guess is worse than none.
pub fn closest_name<'a>(
    unknown_name: &str,
    names: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    names
        .map(|name| (strsim::jaro_winkler(unknown_name, name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.75)
        .map(|(_, name)| name)
}

/// Returns at most three names that are similar to `unknown_name`, contain it or are contained in
/// it, best match first.
pub fn similar_names<'a>(unknown_name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = unknown_name.to_lowercase();
    let likeness = |name: &str| {
        let name = name.to_lowercase();
        let within = lower.len() > 2 && (name.contains(&lower) || lower.contains(&name));
        if within { 1.0 } else { strsim::jaro_winkler(&lower, &name) }
    };
    let mut found: Vec<_> = names.map(|name| (likeness(name), name)).collect();
    found.retain(|(likeness, _)| *likeness > 0.75);
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().take(3).map(|(_, name)| name).collect()
}
