//! Finds paths that contain a hidden module, either importable or in an archive.

use proctor_wire::Secrets;

/// Returns the index of the hidden module that `path` is a copy of. `is_packed` means that the path
/// is in an archive, where the top directory may be `name-version`.
pub fn find_module(secrets: &Secrets, path: &[u8], is_packed: bool) -> Option<u32> {
    // Return early for nearly all paths.
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let suffix = name.rsplit(|&byte| byte == b'.').next()?;
    if !matches!(suffix, b"py" | b"pyc" | b"so" | b"pyx" | b"pyd") {
        return None;
    }
    let parts: Vec<&[u8]> = path
        .split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty() && *part != b"." && *part != b"__pycache__")
        .collect();
    let (last, folders) = parts.split_last()?;
    // The module name of `name.cpython-311-x86_64-linux-gnu.so` is `name`.
    let stem = last.split(|&byte| byte == b'.').next()?;
    let position = secrets.modules.iter().position(|module| {
        // Do this cheap test first, because there may be hundreds of modules.
        if !module.as_bytes().ends_with(stem) {
            return false;
        }
        let mut wanted: Vec<&[u8]> = module.split('/').map(str::as_bytes).collect();
        if wanted.pop() != Some(stem) {
            return false;
        }
        let Some(above) = folders.strip_suffix(&wanted[..]) else { return false };
        match above.last() {
            None => is_packed,
            Some(folder) => {
                let is_root = |root: &String| root.as_bytes() == *folder;
                secrets.import_roots.iter().any(is_root)
                    || (is_packed && above.len() == 1 && !wanted.is_empty())
            }
        }
    });
    position.map(|at| at as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_module_returns_importable_and_packed_modules() {
        let secrets = Secrets {
            modules: vec!["roman/tally".into(), "six".into()],
            import_roots: vec!["site-packages".into(), "_vendor".into()],
            ..Secrets::default()
        };
        let find = |path: &str, packed| find_module(&secrets, path.as_bytes(), packed);
        for path in [
            "/v/lib/python3.11/site-packages/roman/tally.py",
            "/v/site-packages/roman/__pycache__/tally.cpython-311.pyc",
            "/v/site-packages/roman/tally.cpython-311-x86_64-linux-gnu.so",
        ] {
            assert_eq!(find(path, false), Some(0), "{path}");
        }
        assert_eq!(find("/v/site-packages/six.py", false), Some(1));
        assert_eq!(find("/v/site-packages/pip/_vendor/six.py", false), Some(1));
        assert_eq!(find("pip/_vendor/six.py", true), Some(1));
        assert_eq!(find("roman/tally.py", true), Some(0));
        assert_eq!(find("roman-1.0/roman/tally.py", true), Some(0));
        for path in ["/testbed/roman/tally.py", "/v/site-packages/pip/_internal/six.py"] {
            assert_eq!(find(path, false), None, "{path}");
        }
        assert_eq!(find("pip/_internal/six.py", true), None);
    }
}
