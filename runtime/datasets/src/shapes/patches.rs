//! Which files a patch names. Whether it applies is the record's to judge.

/// Paths of a git diff after it is applied, or before where it deletes them; in order, each once.
pub(crate) fn files(patch: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    // Renames and empty or binary files have no `+++` line.
    for line in patch.lines() {
        if let Some(path) = line.strip_prefix("diff --git ").and_then(after_of) {
            push(&mut out, path);
        }
    }
    if !out.is_empty() {
        return out;
    }
    let mut before = None;
    for line in patch.lines() {
        if let Some(path) = line.strip_prefix("--- ") {
            before = Some(path);
        } else if let Some(path) = line.strip_prefix("+++ ")
            && let Some(before) = before.take()
        {
            let path = if path.starts_with("/dev/null") { before } else { path };
            let path = path.split('\t').next().unwrap_or(path);
            push(&mut out, unprefixed(path));
        }
    }
    out
}

fn push(out: &mut Vec<String>, path: String) {
    if !out.contains(&path) {
        out.push(path);
    }
}

/// The second path of `a/x b/y`. Where both are the same, spaces in them do no harm.
fn after_of(rest: &str) -> Option<String> {
    if let Some(quoted) = rest.strip_suffix('"') {
        let (_, path) = quoted.rsplit_once(" \"")?;
        return Some(unprefixed(path));
    }
    let half = rest.len() / 2;
    if let (Some(one), Some(two)) = (rest.get(..half), rest.get(half + 1..))
        && unprefixed(one) == unprefixed(two)
    {
        return Some(unprefixed(two));
    }
    rest.rsplit_once(" b/").map(|(_, path)| path.to_owned())
}

fn unprefixed(path: &str) -> String {
    let path = path.trim_matches('"');
    path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path).to_owned()
}

/// The parts of a git diff, one a file.
pub(crate) fn parts(patch: &str) -> Vec<&str> {
    let mut starts: Vec<usize> =
        patch.match_indices("\ndiff --git ").map(|(at, _)| at + 1).collect();
    if patch.starts_with("diff --git ") {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    starts.iter().zip(ends).filter_map(|(start, end)| patch.get(*start..end)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_deleted_renamed_and_odd_names_are_found() {
        let patch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n--- not a file\n+++ b/nor this\n\
            diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
            diff --git a/old name.py b/new name.py\nsimilarity index 100%\n\
            diff --git a/a b/c.py b/a b/c.py\n\
            diff --git \"a/\\303\\251.py\" \"b/\\303\\251.py\"\n";
        assert_eq!(files(patch), ["x.py", "gone.py", "new name.py", "a b/c.py", "\\303\\251.py"]);
        assert_eq!(parts(patch).len(), 5);
        assert_eq!(files("--- a/x.py\t2020\n+++ b/x.py\t2021\n@@ -1 +1 @@\n"), ["x.py"]);
    }
}
