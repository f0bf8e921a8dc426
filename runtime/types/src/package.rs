/// Normalizes a package name according to PEP 503: lowercase, and one `-` for every run of `-`, `_`
/// and `.`.
pub fn normalize_package_name(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for c in name.to_lowercase().chars() {
        match c {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            c => normal.push(c),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::normalize_package_name;

    #[test]
    fn package_name_normalizes_all_spellings() {
        for spelling in ["Friendly-Bard", "FRIENDLY_BARD", "friendly.bard", "friendly-._.-bard"] {
            assert_eq!(normalize_package_name(spelling), "friendly-bard");
        }
    }
}
