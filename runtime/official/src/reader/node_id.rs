//! Converts pytest's node ids to JUnit's notation.

/// Converts a node id to JUnit's class and name. For example, `tests/test_a.py::Case::test_b[x]` is
/// the test `test_b[x]` in the class `tests.test_a.Case`.
pub(super) fn split_node_id(id: &str) -> (String, String) {
    let (nodes, parameters) = match id.find('[') {
        Some(at) => id.split_at(at),
        None => (id, ""),
    };
    let Some((head, name)) = nodes.rsplit_once("::") else { return (String::new(), String::new()) };
    let mut parts = head.split("::");
    let file = parts.next().unwrap_or_default();
    let mut class = file.strip_suffix(".py").unwrap_or(file).replace('/', ".");
    for part in parts {
        class.push('.');
        class.push_str(part);
    }
    (class, format!("{name}{parameters}"))
}
