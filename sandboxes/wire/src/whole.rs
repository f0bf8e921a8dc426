//! The repository or package of a found file: it is removed as a whole and reported once.

/// Repositories are removed as a whole: without some of its objects one is only broken.
const REPOSITORIES: [&[u8]; 3] = [b".git", b".hg", b".svn"];

/// The repository's own directory, if the path is in one.
pub fn repository(path: &[u8]) -> Option<&[u8]> {
    let mut end = 0;
    for part in path.split(|&byte| byte == b'/') {
        end += part.len();
        if REPOSITORIES.contains(&part) && end < path.len() {
            return Some(&path[..end]);
        }
        end += 1;
    }
    // A bare repository has the objects at its top.
    let at = path.windows(9).position(|nine| nine == b"/objects/")?;
    Some(&path[..at])
}

/// `.../site-packages/package` of a path that ends in `module`, given as `package/module`; else the
/// path itself.
pub fn package<'a>(path: &'a [u8], module: &str) -> &'a [u8] {
    // From the end: a package may contain a directory named like a directory of packages.
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
    fn what_is_removed_is_whole() {
        assert_eq!(repository(b"/r/.git/objects/ab/cd"), Some(&b"/r/.git"[..]));
        assert_eq!(repository(b"/srv/x.git/objects/ab/cd"), Some(&b"/srv/x.git"[..]));
        assert_eq!(repository(b"/r/.gitignore"), None);
        // A file of that name (a worktree's or a submodule's pointer) is itself.
        assert_eq!(repository(b"/r/.git"), None);
        let site = "/v/site-packages";
        for (path, module, whole) in [
            ("p/m.py", "p/m", "p"),
            ("p/q/__pycache__/m.cpython-311.pyc", "p/q/m", "p"),
            ("m.py", "m", "m.py"),
            ("pip/_vendor/p/q/m.py", "p/q/m", "pip/_vendor/p"),
            ("p/vendor/m.py", "p/vendor/m", "p"),
        ] {
            let (path, whole) = (format!("{site}/{path}"), format!("{site}/{whole}"));
            assert_eq!(package(path.as_bytes(), module), whole.as_bytes(), "{path}");
        }
        assert_eq!(package(b"m.py", "p/m"), b"m.py");
    }
}
