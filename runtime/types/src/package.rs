/// A package's name by PEP 503: lower case, and one `-` for every run of `-`, `_` and `.`.
pub fn package_name(name: &str) -> String {
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
    use super::package_name;

    #[test]
    fn every_spelling_is_one_name() {
        for spelt in ["Friendly-Bard", "FRIENDLY_BARD", "friendly.bard", "friendly-._.-bard"] {
            assert_eq!(package_name(spelt), "friendly-bard");
        }
    }
}
