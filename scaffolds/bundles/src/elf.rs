//! Makes programs use the bundle's own C library instead of the image's.
//!
//! A program contains the absolute path of its loader, so bundles have a fixed mount point. The
//! loader could also be started explicitly, which would work with any path. But then the program
//! would mistake the loader's path for its own, and Node restarts itself from its own path.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{BundleError, MOUNT};

/// The directory of the C library in a bundle.
pub(crate) const LIBRARY_FOLDER: &str = "lib/glibc";
pub(crate) const LOADER_NAME: &str = "ld-linux-x86-64.so.2";
/// The path of the loader in ordinary glibc programs.
const STANDARD_LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The loader's built-in search paths. Their replacements have the same length and make the loader
/// search only in the bundle. Otherwise, a library that is not in the bundle would be loaded from
/// the image, together with the image's C library. Longer paths come first, because some of them
/// end with a shorter path.
const SEARCH_PATH_PATCHES: [(&[u8], &[u8]); 6] = [
    (b"/usr/lib/x86_64-linux-gnu/\0", b"/agent/lib/glibc//////////\0"),
    (b"/lib/x86_64-linux-gnu/\0", b"/agent/lib/glibc//////\0"),
    (b"\0/lib/\0", b"\0/////\0"),
    (b"\0/usr/lib/\0", b"\0/agent///\0"),
    (b"\0/etc/ld.so.cache\0", b"\0/agent/etc/cache\0"),
    (b"\0/etc/ld.so.preload\0", b"\0/agent/etc/preload\0"),
];

/// Restricts the loader to the bundle's libraries.
pub(crate) fn isolate_loader(mut loader: Vec<u8>) -> Result<Vec<u8>, BundleError> {
    for (from, to) in SEARCH_PATH_PATCHES {
        let mut at = 0;
        let mut found = 0;
        while let Some(next) = loader[at..].windows(from.len()).position(|window| window == from) {
            loader[at + next..at + next + to.len()].copy_from_slice(to);
            at += next + 1;
            found += 1;
        }
        if found == 0 {
            let what = String::from_utf8_lossy(from).trim_matches('\0').to_owned();
            return Err(BundleError::new(format!("the bundled loader does not contain {what}"))
                .hint("configs/bundles/parts.toml lists a libc6 version that this build of Proctor does not support"));
        }
    }
    Ok(loader)
}

/// Returns the loader that a program names. Returns `None` if the file is not a program, or if it
/// needs no loader.
pub(crate) fn read_interpreter(path: &Path) -> std::io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let mut head = [0; 64];
    if file.read_exact(&mut head).is_err() || head[..6] != *b"\x7fELF\x02\x01" {
        return Ok(None);
    }
    let number = |at: usize, bytes: usize| {
        head[at..at + bytes].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let (at, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    for index in 0..count {
        let mut entry = [0; 56];
        file.seek(SeekFrom::Start(at + index * size))?;
        if file.read_exact(&mut entry).is_err() {
            return Ok(None);
        }
        let long = |at: usize| {
            entry[at..at + 8].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        if entry[..4] == [3, 0, 0, 0] {
            let mut name = Vec::new();
            file.seek(SeekFrom::Start(long(8)))?;
            file.take(long(32).min(4096)).read_to_end(&mut name)?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            return Ok(Some(String::from_utf8_lossy(name).into_owned()));
        }
    }
    Ok(None)
}

/// Returns the programs in a tree that need the bundled C library.
pub(crate) fn find_programs(tree: &Path) -> Result<Vec<PathBuf>, BundleError> {
    let mut out = Vec::new();
    let own = tree.join(LIBRARY_FOLDER);
    for path in crate::tree::list_files(tree)? {
        let found = read_interpreter(&path).map_err(|error| BundleError::io(&path, &error))?;
        if found.as_deref() == Some(STANDARD_LOADER) && !path.starts_with(&own) {
            out.push(path);
        }
    }
    Ok(out)
}

/// Makes a program use the bundled C library.
pub(crate) fn patch_program(program: &Path, patchelf: &Path) -> Result<(), BundleError> {
    let told = |args: &[&str]| {
        let ran = Command::new(patchelf).args(args).arg(program).env_clear().output();
        let ran = ran.map_err(|error| BundleError::io(patchelf, &error))?;
        match ran.status.success() {
            true => Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned()),
            false => {
                let said = String::from_utf8_lossy(&ran.stderr);
                let what = format!("patchelf failed for {}: {}", program.display(), said.trim());
                Err(BundleError::new(what))
            }
        }
    };
    let own = told(&["--print-rpath"])?;
    let libraries = format!("{MOUNT}/{LIBRARY_FOLDER}");
    let rpath = if own.is_empty() { libraries.clone() } else { format!("{libraries}:{own}") };
    let loader = format!("{libraries}/{LOADER_NAME}");
    // Use RPATH and not the newer RUNPATH. RPATH also applies to libraries that the program loads
    // later, and it takes precedence over LD_LIBRARY_PATH in an image.
    told(&["--set-interpreter", &loader, "--force-rpath", "--set-rpath", &rpath])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_replacements_keep_lengths_and_stay_in_the_bundle() {
        for (from, to) in SEARCH_PATH_PATCHES {
            assert_eq!(from.len(), to.len());
            let to = String::from_utf8_lossy(to);
            let to = to.trim_matches('\0');
            assert!(to.starts_with(MOUNT) || to.chars().all(|c| c == '/'), "{to}");
        }
        let all = SEARCH_PATH_PATCHES.map(|(from, _)| from).concat();
        let patched = isolate_loader(all.clone()).unwrap();
        assert_eq!(patched.len(), all.len());
        let text = String::from_utf8_lossy(&patched);
        assert!(!text.contains("/usr") && !text.contains("/etc/ld") && !text.contains("linux-gnu"));
        assert!(isolate_loader(b"nothing".to_vec()).is_err());
    }

    #[test]
    fn interpreter_returns_the_loader_of_a_program() {
        let own = std::env::current_exe().unwrap();
        let found = read_interpreter(&own).unwrap().unwrap();
        assert!(found.contains("ld-"), "{found}");
        let text = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(read_interpreter(text.path()).unwrap(), None);
    }
}
