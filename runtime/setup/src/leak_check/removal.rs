//! Removes a leak from a sandbox.

use proctor_sandbox_api::{SandboxHandle, wire::RawPath};
use proctor_types::Fault;

use super::leak::Leak;

/// Removes a leaked file and its compiled copies. Returns whether all of them were removed.
pub(crate) async fn remove_leak(handle: &SandboxHandle, leak: &Leak) -> Result<bool, Fault> {
    let Some(path) = &leak.remove else { return Ok(false) };
    let mut gone = find_compiled_copies(handle, path).await?;
    gone.push(path.clone());
    for path in gone {
        match handle.remove(&path).await {
            Ok(()) => {}
            Err(error) if error.is_broken() => {
                return Err(error.to_fault(format!("removing {path}")));
            }
            // The file cannot be removed, for example because it is part of a read-only base.
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// Returns the compiled copies of a Python file.
async fn find_compiled_copies(
    handle: &SandboxHandle,
    path: &RawPath,
) -> Result<Vec<RawPath>, Fault> {
    let name = file_name(path);
    let Some(stem) = name.strip_suffix(b".py") else { return Ok(Vec::new()) };
    let folder = &path.as_bytes()[..path.as_bytes().len() - name.len()];
    let cache = RawPath::new([folder, b"__pycache__"].concat());
    let start = [stem, b"."].concat();
    match handle.list(&cache).await {
        Ok(entries) => {
            let own = entries.iter().filter(|entry| entry.name.as_bytes().starts_with(&start));
            Ok(own.map(|entry| cache.join(&entry.name)).collect())
        }
        Err(error) if error.is_broken() => Err(error.to_fault(format!("listing {cache}"))),
        Err(_) => Ok(Vec::new()),
    }
}

/// Returns the last part of a path.
pub(crate) fn file_name(path: &RawPath) -> &[u8] {
    path.as_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}
