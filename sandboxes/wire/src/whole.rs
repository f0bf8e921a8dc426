//! The whole that a found file belongs to: what is removed with it, and reported once.

/// A repository is one: without some of its objects it is only broken.
const REPOSITORIES: [&[u8]; 3] = [b".git", b".hg", b".svn"];

/// The repository's own folder, where the path lies in one.
pub fn repository(path: &[u8]) -> Option<&[u8]> {
    let mut end = 0;
    for part in path.split(|&byte| byte == b'/') {
        end += part.len();
        if REPOSITORIES.contains(&part) && end < path.len() {
            return Some(&path[..end]);
        }
        end += 1;
    }
    // A bare one has the objects at its top.
    let at = path.windows(9).position(|nine| nine == b"/objects/")?;
    Some(&path[..at])
}

/// `.../site-packages/package` of a module below one of the import roots; else the path itself.
pub fn package<'a>(path: &'a [u8], roots: &[String]) -> &'a [u8] {
    let mut end = 0;
    let mut is_below = false;
    for part in path.split(|&byte| byte == b'/') {
        end += part.len();
        if is_below {
            return &path[..end];
        }
        is_below = roots.iter().any(|root| root.as_bytes() == part);
        end += 1;
    }
    path
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
        let roots = ["site-packages".to_owned()];
        assert_eq!(package(b"/v/site-packages/p/m.py", &roots), b"/v/site-packages/p");
        assert_eq!(package(b"/v/m.py", &roots), b"/v/m.py");
    }
}
