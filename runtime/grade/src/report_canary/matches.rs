//! Which test of a file an id of a report refers to.

use super::{ReportCanaryRules, source::Language};

/// The separator of titles in an id.
const WITHIN: &str = " > ";
/// Files that have the name of their folder in ids of Rust.
const OF_FOLDER: [&str; 3] = ["mod", "main", "lib"];

/// How much of an id a test's titles account for. `None`: the id is another test's.
pub(super) fn fit(
    rules: &ReportCanaryRules,
    (language, path): (Language, &str),
    titles: &[String],
    id: &str,
) -> Option<usize> {
    match language {
        Language::JavaScript => of_javascript(rules, path, titles, id),
        Language::Rust => of_rust(path, titles, id),
    }
}

/// `file::suite > name`, `suite > name`, `suite name`, or `name` alone.
fn of_javascript(
    rules: &ReportCanaryRules,
    path: &str,
    titles: &[String],
    id: &str,
) -> Option<usize> {
    let is_file = |head: &str| rules.language_of(head) == Some(Language::JavaScript);
    let parts = [id.split_once("::"), id.split_once(WITHIN)];
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
    let whole = [titles.join(WITHIN), titles.join(" "), titles.join("::"), last.clone()];
    // mocha's JSON joins the titles of suites by spaces.
    let of_mocha = (!suites.is_empty()).then(|| format!("{}{WITHIN}{last}", suites.join(" ")));
    let forms = whole.into_iter().chain(of_mocha).filter(|form| {
        rest.strip_suffix(form.as_str())
            .is_some_and(|head| head.is_empty() || head.ends_with("::") || head.ends_with(WITHIN))
    });
    forms.map(|form| form.len()).max()
}

/// `binary::module::name`, or a part of it.
fn of_rust(path: &str, titles: &[String], id: &str) -> Option<usize> {
    let whole = titles.join("::");
    let head = id.strip_suffix(&whole)?;
    if head.is_empty() {
        return Some(whole.len());
    }
    let head = head.strip_suffix("::")?;
    let (_, module) = head.rsplit_once("::").unwrap_or(("", head));
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or(name);
    let stem = match OF_FOLDER.contains(&stem) {
        true => folder.rsplit('/').next().unwrap_or(folder),
        false => stem,
    };
    (stem.replace('-', "_") == module.replace('-', "_")).then(|| whole.len() + module.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn fits(language: Language, path: &str, titles: &[&str], id: &str) -> Option<usize> {
        let rules = &Policy::get().unwrap().report.canaries;
        let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
        fit(rules, (language, path), &titles, id)
    }

    #[test]
    fn ids_of_each_javascript_runner_refer_to_their_test() {
        let of =
            |id: &str| fits(Language::JavaScript, "test/a.test.js", &["calc", "adds", "two"], id);
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
        let shorter = fits(Language::JavaScript, "test/a.test.js", &["two"], "calc > adds > two");
        assert!(of("calc > adds > two") > shorter);
    }

    #[test]
    fn ids_of_rust_name_binaries_and_modules() {
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
            assert_eq!(fits(Language::Rust, path, titles, id).is_some(), is_one, "{path} {id}");
        }
    }
}
