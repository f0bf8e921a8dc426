//! Matches the test ids of a report with the tests in a file.

use super::{ReportCanaryRules, source::Language};

/// The separator of titles in an id.
const TITLE_SEPARATOR: &str = " > ";
/// Names of Rust files to which ids refer by the name of the containing folder.
const FOLDER_NAMED_STEMS: [&str; 3] = ["mod", "main", "lib"];

/// Returns the number of characters in the id that a test's titles match; `None` if the id belongs
/// to another test.
pub(super) fn match_score(
    rules: &ReportCanaryRules,
    (language, path): (Language, &str),
    titles: &[String],
    id: &str,
) -> Option<usize> {
    match language {
        Language::JavaScript => match_javascript(rules, path, titles, id),
        Language::Rust => match_rust(path, titles, id),
    }
}

/// Matches `file::suite > name`, `suite > name`, `suite name`, or `name` alone.
fn match_javascript(
    rules: &ReportCanaryRules,
    path: &str,
    titles: &[String],
    id: &str,
) -> Option<usize> {
    let is_file = |head: &str| rules.language_for(head) == Some(Language::JavaScript);
    let parts = [id.split_once("::"), id.split_once(TITLE_SEPARATOR)];
    let mut rest = id;
    if let Some((file, within)) = parts.into_iter().flatten().find(|(head, _)| is_file(head)) {
        let is_end = |whole: &str, end: &str| {
            whole.strip_suffix(end).is_some_and(|head| head.is_empty() || head.ends_with('/'))
        };
        if !is_end(file, path) && !is_end(path, file) {
            return None;
        }
        rest = within;
    }
    let (last, suites) = titles.split_last()?;
    let whole = [titles.join(TITLE_SEPARATOR), titles.join(" "), titles.join("::"), last.clone()];
    // mocha's JSON report joins the titles of suites with spaces.
    let of_mocha =
        (!suites.is_empty()).then(|| format!("{}{TITLE_SEPARATOR}{last}", suites.join(" ")));
    let forms = whole.into_iter().chain(of_mocha).filter(|form| {
        rest.strip_suffix(form.as_str()).is_some_and(|head| {
            head.is_empty() || head.ends_with("::") || head.ends_with(TITLE_SEPARATOR)
        })
    });
    forms.map(|form| form.len()).max()
}

/// Matches `binary::module::name` or a suffix, such as `module::name`.
fn match_rust(path: &str, titles: &[String], id: &str) -> Option<usize> {
    let whole = titles.join("::");
    let head = id.strip_suffix(&whole)?;
    if head.is_empty() {
        return Some(whole.len());
    }
    let head = head.strip_suffix("::")?;
    let (_, module) = head.rsplit_once("::").unwrap_or(("", head));
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or(name);
    let stem = match FOLDER_NAMED_STEMS.contains(&stem) {
        true => folder.rsplit('/').next().unwrap_or(folder),
        false => stem,
    };
    (stem.replace('-', "_") == module.replace('-', "_")).then(|| whole.len() + module.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn score(language: Language, path: &str, titles: &[&str], id: &str) -> Option<usize> {
        let rules = &Policy::get().unwrap().report.canaries;
        let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
        match_score(rules, (language, path), &titles, id)
    }

    #[test]
    fn match_score_accepts_the_ids_of_each_javascript_runner() {
        let of =
            |id: &str| score(Language::JavaScript, "test/a.test.js", &["calc", "adds", "two"], id);
        for id in [
            "test/a.test.js::calc > adds > two",
            "/testbed/test/a.test.js::calc > adds > two",
            "test/a.test.js::calc adds > two",
            "test/a.test.js > calc > adds > two",
            "calc > adds > two",
            "calc adds two",
            "suite::calc adds two",
            "two",
        ] {
            assert!(of(id).is_some(), "{id}");
        }
        for id in ["test/b.test.js::calc > adds > two", "calc > adds > twenty-two", "two > one"] {
            assert!(of(id).is_none(), "{id}");
        }
        let shorter = score(Language::JavaScript, "test/a.test.js", &["two"], "calc > adds > two");
        assert!(of("calc > adds > two") > shorter);
    }

    #[test]
    fn match_score_accepts_rust_ids_with_binary_and_modules() {
        for (path, titles, id, is_one) in [
            ("tests/calc.rs", &["adds"][..], "adds", true),
            ("tests/calc.rs", &["adds"][..], "calc::adds", true),
            ("tests/calc.rs", &["adds"][..], "demo::calc::adds", true),
            ("tests/my-test.rs", &["adds"][..], "my_test::adds", true),
            ("tests/it/main.rs", &["adds"][..], "it::adds", true),
            ("tests/it/sums.rs", &["adds"][..], "it::sums::adds", true),
            ("tests/calc.rs", &["inner", "adds"][..], "calc::inner::adds", true),
            ("tests/other.rs", &["adds"][..], "calc::adds", false),
            ("tests/calc.rs", &["adds"][..], "calc::never_adds", false),
        ] {
            assert_eq!(score(Language::Rust, path, titles, id).is_some(), is_one, "{path} {id}");
        }
    }
}
