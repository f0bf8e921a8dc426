//! Reads the repository's Markdown pages: their files, links, anchors and commands.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Returns the Markdown files in a folder and its subfolders, sorted.
pub fn markdown_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(markdown_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the lines of a page that are not in a code block.
fn prose_lines(page: &str) -> Vec<&str> {
    let mut is_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    page.lines().filter(is_prose).collect()
}

/// Returns the anchors of a page's headings, formed as on GitHub and in mdbook.
pub fn heading_anchors(page: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for line in prose_lines(page) {
        let title = line.trim_start_matches('#');
        if title == line || !title.starts_with(' ') {
            continue;
        }
        let title = title.trim().to_lowercase();
        let kept =
            title.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let anchor: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        let count = counts.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// Returns the targets of the links on a page, except URLs.
pub fn link_targets(page: &str) -> Vec<&str> {
    let after_links = prose_lines(page).into_iter().flat_map(|line| line.split("](").skip(1));
    let targets = after_links.filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains("://")).collect()
}

/// Returns the commands in the `sh` blocks of a page, without comments. A command that continues
/// after a backslash is one line. A command with a here-document ends at its line `END`.
pub fn shell_commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let (mut is_shell, mut is_document) = (false, false);
    let mut command = String::new();
    for line in page.lines() {
        if is_document {
            command += line;
            command.push('\n');
            is_document = line != "END";
        } else if line.starts_with("```") {
            is_shell = line == "```sh";
            continue;
        } else if !is_shell || line.trim().is_empty() || line.starts_with('#') {
            continue;
        } else {
            let line = line.split(" # ").next().unwrap_or_default().trim();
            is_document = line.ends_with("<<'END'");
            command += line.trim_end_matches('\\');
            if is_document {
                command.push('\n');
            } else if line.ends_with('\\') {
                continue;
            }
        }
        if !is_document {
            commands.push(std::mem::take(&mut command));
        }
    }
    commands
}

/// Returns the Proctor commands in a page's inline code.
pub fn inline_commands(page: &str) -> Vec<String> {
    let text = prose_lines(page).join(" ");
    let code = text.split('`').skip(1).step_by(2);
    code.filter(|code| code.starts_with("proctor ")).map(str::to_owned).collect()
}

/// Returns the files that a page shows: the path and the content of each code block whose first
/// line is a comment with a path.
pub fn shown_files(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("```").skip(1).step_by(2);
    let contents = blocks.filter_map(|block| Some(block.split_once('\n')?.1));
    let files = contents.filter_map(|content| {
        let path = content.lines().next()?.strip_prefix("# ")?;
        let is_path = path.contains('.') && !path.contains(' ');
        is_path.then_some((path, content))
    });
    files.collect()
}

#[test]
fn anchors_links_commands_and_files_of_a_page_are_found() {
    let page = "# A `b`\n## How it works\n```sh\n# x\na --b \\\n    c  # d\ncat > e <<'END'\nf  # g\nEND\n\
                [i](j)\n```\n## How it works\n[k](l.md), [m](https://n), [o](#a-b), [p](q r.md#s)\n#t\n\
                ```toml\n# u/v.toml\nw = 1\n```\n```toml\n# not a path.\n```\n";
    let anchors: Vec<_> = heading_anchors(page).into_iter().collect();
    assert_eq!(anchors, ["a-b", "how-it-works", "how-it-works-1"]);
    assert_eq!(link_targets(page), ["l.md", "#a-b", "q r.md#s"]);
    let commands = ["a --b c", "cat > e <<'END'\nf  # g\nEND\n", "[i](j)"];
    assert_eq!(shell_commands(page), commands);
    assert_eq!(
        inline_commands("Run `x` or `proctor run\nA`.\n```\n`proctor b`\n```\n"),
        ["proctor run A"]
    );
    assert_eq!(shown_files(page), [("u/v.toml", "# u/v.toml\nw = 1\n")]);
}
