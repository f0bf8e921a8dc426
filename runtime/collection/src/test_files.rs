//! Finds a recipe's test files.

use std::path::Path;

use crate::RecipeError;

/// Returns the sorted paths below `root` that match at least one pattern. Fails if a pattern
/// matches no files.
pub(crate) fn find_test_files(
    root: &Path,
    patterns: &[String],
) -> Result<Vec<String>, RecipeError> {
    let no_tests = || RecipeError::NoTests { patterns: patterns.join(", ") };
    let mut out = Vec::new();
    for pattern in patterns {
        let full = Path::new(&glob::Pattern::escape(&root.to_string_lossy())).join(pattern);
        let found = glob::glob(&full.to_string_lossy()).map_err(|_| no_tests())?;
        let mut any = false;
        for path in found.filter_map(Result::ok).filter(|path| path.is_file()) {
            if let Some(below) = path.strip_prefix(root).ok().and_then(Path::to_str) {
                out.push(below.to_owned());
                any = true;
            }
        }
        // An outdated pattern must be an error. If it were ignored, the task would silently become
        // easier.
        if !any {
            return Err(RecipeError::NoTests { patterns: pattern.clone() });
        }
    }
    out.sort();
    out.dedup();
    Ok(out)
}
