//! Task material beyond the statement, for scaffolds that build their own prompt.

use proctor_official::OfficialPolicy;
use proctor_patch::{Body, FilePatch, Patch, Side, gold_patch};
use proctor_scaffold_api::{GoldFacts, GoldFile, Material};
use proctor_types::{Fault, FaultLayer, Task};

/// Markers around the feature request in an FEA-Bench statement. The definitions section is outside
/// of them.
const REQUEST_MARKERS: [&str; 2] = ["<request>", "</request>"];

/// Returns a task's material. From the gold patch, it contains only the files' paths and the
/// signatures of added definitions.
///
/// # Errors
/// Fails if the mask cannot be reversed.
pub(crate) fn task_material(task: &Task) -> Result<Material, Fault> {
    let gold = gold_patch(task).map_err(|error| {
        Fault::new(FaultLayer::Setup, format!("cannot read the gold patch: {error}"))
            .context(&task.id)
            .hint("run `proctor tasks validate`")
    })?;
    let details = task.details();
    let text = |kept: Option<&proctor_types::DetailField<String>>| {
        kept.and_then(|kept| kept.non_empty_text()).unwrap_or_default().to_owned()
    };
    let components = details.and_then(|details| details.new_components.get().cloned());
    // Ignore an invalid policy here; grading reports it.
    let policy = OfficialPolicy::for_task(task).ok().flatten();
    Ok(Material {
        repo: task.repo.clone(),
        request: extract_feature_request(&task.statement),
        discussion: text(details.map(|details| &details.discussion)),
        description_changes: text(details.map(|details| &details.non_py_patch)),
        components: components.unwrap_or_default(),
        apply_commands: policy.map(|policy| policy.run.apply.clone()).unwrap_or_default(),
        gold: gold.map(|gold| gold_facts(&Patch::parse(&gold))).unwrap_or_default(),
    })
}

fn extract_feature_request(statement: &str) -> String {
    let [open, close] = REQUEST_MARKERS;
    let found = statement.find(open).zip(statement.rfind(close)).filter(|(from, to)| from < to);
    match found {
        Some((from, to)) => statement[from..to + close.len()].to_owned(),
        None => format!("{open}\n{}\n{close}", statement.trim()),
    }
}

fn gold_facts(patch: &Patch) -> GoldFacts {
    let mut gold = GoldFacts::default();
    for file in &patch.files {
        let path = file.path().to_string();
        if path.ends_with(".py") {
            gold.definitions
                .extend(added_signatures(file).into_iter().map(|line| (path.clone(), line)));
        }
        gold.files.push(GoldFile { path, is_new: file.old_path.is_none() });
    }
    gold.files.sort();
    gold
}

/// Returns the signatures in a patch's added lines, one line each. Skips definitions that the
/// patch also removes, because those were only moved or changed.
fn added_signatures(file: &FilePatch) -> Vec<String> {
    let Body::Text(hunks) = &file.body else { return Vec::new() };
    let side = |wanted: Side| {
        let mut out: Vec<String> = Vec::new();
        for hunk in hunks {
            let lines: Vec<String> = hunk
                .lines
                .iter()
                .filter(|line| line.side == wanted)
                .map(|line| String::from_utf8_lossy(&line.bytes).trim().to_owned())
                .collect();
            out.extend((0..lines.len()).filter_map(|at| parse_signature(&lines[at..])));
        }
        out
    };
    let gone = side(Side::Old);
    let name = |signature: &str| signature.split(['(', ':']).next().map(str::to_owned);
    let kept: Vec<_> = gone.iter().map(|signature| name(signature)).collect();
    side(Side::New).into_iter().filter(|signature| !kept.contains(&name(signature))).collect()
}

/// Returns the signature that starts on the first line, up to the colon that ends the signature.
fn parse_signature(lines: &[String]) -> Option<String> {
    let first = lines.first()?;
    if !["def ", "async def ", "class "].iter().any(|word| first.starts_with(word)) {
        return None;
    }
    let (mut out, mut depth) = (String::new(), 0_i32);
    for line in lines.iter().take(40) {
        if !out.is_empty() {
            out.push(' ');
        }
        for c in line.chars() {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                '#' if depth > 0 => break,
                _ => {}
            }
            out.push(c);
            if c == ':' && depth <= 0 {
                return Some(out);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extract_feature_request_excludes_definitions() {
        let fea = "This is\n<request>\nT\n</request>\n<definitions>\nx\n</definitions>";
        assert_eq!(extract_feature_request(fea), "<request>\nT\n</request>");
        assert_eq!(extract_feature_request(" Do it.\n"), "<request>\nDo it.\n</request>");
    }

    #[test]
    fn task_material_of_a_collected_task_lists_its_components() {
        let details = serde_json::json!({
            "new_components": [{"file": "a.py", "kind": "function", "name": "f", "signature": "def f():", "doc": "F."}],
            "non_py_patch": "diff", "discussion": "said",
        });
        let task = |own: bool| -> Task {
            let mut row = serde_json::json!({"schema_version": 1, "id": "t", "statement": "s", "environment": {},
                "fail_to_pass": [], "test_command": []});
            match own {
                true => row["details"] = details.clone(),
                false => {
                    row["benchmark"] = serde_json::json!({"name": "fea-bench", "details": details})
                }
            }
            serde_json::from_value(row).unwrap()
        };
        let (own, row) =
            (task_material(&task(true)).unwrap(), task_material(&task(false)).unwrap());
        assert_eq!(own.components.len(), 1);
        assert_eq!(own.components, row.components);
        assert_eq!((own.description_changes.as_str(), own.discussion.as_str()), ("diff", "said"));
    }

    #[test]
    fn gold_facts_list_only_paths_and_signatures() {
        let patch = "diff --git a/p/a.py b/p/a.py\n--- a/p/a.py\n+++ b/p/a.py\n@@ -1,2 +1,7 @@\n x = 1\n-def old(a):\n\
            +def old(a, b):\n+async def f(\n+    a,  # one\n+    b: dict = {},\n+) -> int:\n+    return secret\n\
            diff --git a/p/new.md b/p/new.md\nnew file mode 100644\n--- /dev/null\n+++ b/p/new.md\n@@ -0,0 +1 @@\n+text\n";
        let gold = gold_facts(&Patch::parse(patch.as_bytes()));
        let said: Vec<_> =
            gold.definitions.iter().map(|(_, signature)| signature.as_str()).collect();
        assert_eq!(said, ["async def f( a,   b: dict = {}, ) -> int:"]);
        assert_eq!(gold.files.iter().map(|file| file.is_new).collect::<Vec<_>>(), [false, true]);
        assert!(!format!("{gold:?}").contains("secret"));
    }
}
