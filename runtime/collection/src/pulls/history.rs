//! Finds merged pull requests in a clone's history.

use std::collections::{BTreeSet, HashMap, HashSet};

use proctor_datasets::fea_bench::Commit;

/// A merged pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pull {
    pub(super) number: u64,
    pub(super) title: String,
    pub(super) body: String,
    /// Time of the merge: `2024-05-01T12:00:00Z`.
    pub(super) date: String,
    pub(super) written_at: u64,
    pub(super) change: Change,
}

/// The two commits that enclose a pull request's changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// The parents of a merge commit: `main`, then `head`. The changes are the ones from their
    /// merge base to `head`.
    Merge(String, String),
    /// A squash commit: its parent, then the commit itself.
    Squash(String, String),
}

/// Returns the merged pull requests in a history, without duplicate numbers. Both the history and
/// the result are sorted newest first.
///
/// The first line of a merge or squash commit contains the pull request's number. Numbers in other
/// places are only mentions. The commits inside a merged pull request are skipped, because their
/// first lines may end with an issue number.
pub(super) fn find_pulls(history: &[Commit]) -> Vec<Pull> {
    let by_id: HashMap<&str, &Commit> =
        history.iter().map(|commit| (commit.id.as_str(), commit)).collect();
    let mut mainline: HashSet<&str> = HashSet::new();
    let mut open: Vec<&str> =
        history.first().map(|commit| commit.id.as_str()).into_iter().collect();
    while let Some(id) = open.pop() {
        let Some(commit) = by_id.get(id).filter(|_| mainline.insert(id)) else { continue };
        // A merge commit without a number merges another branch, which may contain pull requests.
        let own = if parse_pull(commit).is_some() { 1 } else { usize::MAX };
        open.extend(commit.parents.iter().take(own).map(String::as_str));
    }
    let mut numbers = BTreeSet::new();
    let on_mainline = history.iter().filter(|commit| mainline.contains(commit.id.as_str()));
    on_mainline.filter_map(parse_pull).filter(|pull| numbers.insert(pull.number)).collect()
}

fn parse_pull(commit: &Commit) -> Option<Pull> {
    let (first, rest) = commit.message.split_once('\n').unwrap_or((&commit.message, ""));
    let (number, title, body) = match first.strip_prefix("Merge pull request #") {
        Some(named) => {
            let (number, branch) = named.split_once(' ').unwrap_or((named, ""));
            let rest = rest.trim();
            let (title, body) = rest.split_once('\n').unwrap_or((rest, ""));
            let branch = branch.trim_start_matches("from ");
            (number, if title.is_empty() { branch } else { title }, body)
        }
        None => {
            let (title, number) = first.trim_end().strip_suffix(')')?.rsplit_once("(#")?;
            (number, title, rest)
        }
    };
    let change = match &commit.parents[..] {
        [parent] => Change::Squash(parent.clone(), commit.id.clone()),
        [main, head] => Change::Merge(main.clone(), head.clone()),
        _ => return None,
    };
    Some(Pull {
        number: number.parse().ok()?,
        title: title.trim().to_owned(),
        body: body.trim().to_owned(),
        date: commit.commit_date.clone(),
        written_at: commit.author_time,
        change,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(id: &str, parents: &[&str], message: &str) -> Commit {
        Commit {
            id: id.into(),
            parents: parents.iter().map(|it| (*it).to_owned()).collect(),
            author_time: 0,
            commit_date: String::new(),
            message: message.into(),
        }
    }

    #[test]
    fn pulls_finds_merges_and_squashes_but_not_commits_inside_a_pull_request() {
        let history = [
            commit(
                "m2",
                &["b", "h9"],
                "Merge pull request #9 from a/rotate\n\nRotate files\n\nText",
            ),
            commit("h9", &["b"], "Rotate, as asked for (#3)"),
            commit("b", &["s7", "k4"], "Merge branch 'stable'"),
            commit("k4", &["r"], "Add on stable (#4)"),
            commit("s7", &["m5"], "Find files (#7)\n\nIt takes `depth`. See (#1)"),
            commit("m5", &["r", "h5"], "Say more (#5)"),
            commit("h5", &["r"], "wip"),
            commit("r", &[], "first"),
        ];
        let merged_pulls = find_pulls(&history);
        let said: Vec<(u64, &str, &str)> = merged_pulls
            .iter()
            .map(|it| (it.number, it.title.as_str(), it.body.as_str()))
            .collect();
        assert_eq!(
            said,
            [
                (9, "Rotate files", "Text"),
                (4, "Add on stable", ""),
                (7, "Find files", "It takes `depth`. See (#1)"),
                (5, "Say more", "")
            ]
        );
        assert_eq!(merged_pulls[2].change, Change::Squash("m5".into(), "s7".into()));
        assert_eq!(merged_pulls[3].change, Change::Merge("r".into(), "h5".into()));
    }
}
