//! Prefixes that a proxy adds to the names of tools, such as `mcp__tools__`.
//!
//! Some proxies rename the tools of a request for the service behind them, and don't restore the
//! names in responses. The model then calls the only tools that it sees.

/// The separators that end a prefix.
const SEPARATORS: [&str; 4] = ["__", ".", "/", ":"];

/// Returns the name of the tool that a call uses: the called name without a prefix, if the rest is
/// the name of a tool. Returns the called name if it is a tool's name, or if no tool or several
/// tools fit.
pub(super) fn strip_name_prefix<'a>(called: &'a str, tools: &[&'a str]) -> &'a str {
    if tools.contains(&called) {
        return called;
    }
    let has_prefix = |tool: &str| {
        let prefix = called.strip_suffix(tool).unwrap_or_default();
        SEPARATORS.iter().any(|separator| {
            prefix.strip_suffix(*separator).is_some_and(|vendor| !vendor.is_empty())
        })
    };
    let mut fitting = tools.iter().copied().filter(|tool| has_prefix(tool));
    match (fitting.next(), fitting.next()) {
        (Some(tool), None) => tool,
        _ => called,
    }
}

#[cfg(test)]
mod tests {
    use super::strip_name_prefix;

    #[test]
    fn only_a_prefix_before_one_tools_name_is_removed() {
        let tools = ["shell", "edit", "x.edit"];
        for (called, tool) in [
            ("shell", "shell"),
            ("mcp__client_tools__shell", "shell"),
            ("functions.shell", "shell"),
            ("default_api:edit", "edit"),
            ("tools/edit", "edit"),
            ("x.edit", "x.edit"),
            // Both `edit` and `x.edit` fit.
            ("a.x.edit", "a.x.edit"),
            ("__shell", "__shell"),
            ("myshell", "myshell"),
            ("my_shell", "my_shell"),
            ("shell.run", "shell.run"),
            ("bash", "bash"),
            ("", ""),
        ] {
            assert_eq!(strip_name_prefix(called, &tools), tool, "{called}");
        }
    }
}
