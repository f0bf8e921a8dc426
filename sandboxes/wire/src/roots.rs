//! Finds the repository or package that a file belongs to, so that it can be removed as a whole and
//! reported once.

/// The directories of repositories. A repository is removed as a whole, because removing single
/// objects would only corrupt it.
const REPOSITORIES: [&[u8]; 3] = [b".git", b".hg", b".svn"];

/// If the path is in a repository, returns the repository's own directory.
pub fn repository_root(path: &[u8]) -> Option<&[u8]> {
    let mut end = 0;
    for part in path.split(|&byte| byte == b'/') {
        end += part.len();
        if REPOSITORIES.contains(&part) && end < path.len() {
            return Some(&path[..end]);
        }
        end += 1;
    }
    // In a bare repository, the objects are at the top level.
    let at = path.windows(9).position(|nine| nine == b"/objects/")?;
    Some(&path[..at])
}

/// Returns the part of `path` that ends with the package, such as `.../site-packages/package`.
/// `path` ends in `module`, which has the form `package/module`. For a top-level module, returns
/// the path itself.
pub fn package_root<'a>(path: &'a [u8], module: &str) -> &'a [u8] {
    // Search from the end, because a package may contain a directory with the name of an import
    // root.
    let mut below = module.split('/').count();
    let mut end = path.len();
    loop {
        let start = path[..end].iter().rposition(|&byte| byte == b'/');
        let part = &path[start.map_or(0, |at| at + 1)..end];
        if !part.is_empty() && part != b"__pycache__" {
            below -= 1;
        }
        match start {
            _ if below == 0 => return &path[..end],
            Some(at) => end = at,
            None => return path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_functions_return_the_whole_repository_or_package() {
        assert_eq!(repository_root(b"/r/.git/objects/ab/cd"), Some(&b"/r/.git"[..]));
        assert_eq!(repository_root(b"/srv/x.git/objects/ab/cd"), Some(&b"/srv/x.git"[..]));
        assert_eq!(repository_root(b"/r/.gitignore"), None);
        // A file with that name belongs to a worktree or submodule and is not a repository.
        assert_eq!(repository_root(b"/r/.git"), None);
        let site = "/v/site-packages";
        for (path, module, whole) in [
            ("p/m.py", "p/m", "p"),
            ("p/q/__pycache__/m.cpython-311.pyc", "p/q/m", "p"),
            ("m.py", "m", "m.py"),
            ("pip/_vendor/p/q/m.py", "p/q/m", "pip/_vendor/p"),
            ("p/vendor/m.py", "p/vendor/m", "p"),
        ] {
            let (path, whole) = (format!("{site}/{path}"), format!("{site}/{whole}"));
            assert_eq!(package_root(path.as_bytes(), module), whole.as_bytes(), "{path}");
        }
        assert_eq!(package_root(b"m.py", "p/m"), b"m.py");
    }
}
