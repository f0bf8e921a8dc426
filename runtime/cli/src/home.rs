//! Where Proctor keeps what can be made again.

use std::path::PathBuf;

use crate::error::UserError;

/// `$PROCTOR_CACHE`, else `$XDG_CACHE_HOME/proctor`, else `$HOME/.cache/proctor`.
pub fn cache() -> Result<PathBuf, UserError> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(cache) = from("PROCTOR_CACHE") {
        return Ok(cache.into());
    }
    if let Some(cache) = from("XDG_CACHE_HOME") {
        return Ok(PathBuf::from(cache).join("proctor"));
    }
    match from("HOME") {
        Some(home) => Ok(PathBuf::from(home).join(".cache/proctor")),
        None => Err(UserError::new("neither PROCTOR_CACHE nor HOME is set")
            .hint("set PROCTOR_CACHE to a folder for environments and sources")),
    }
}
