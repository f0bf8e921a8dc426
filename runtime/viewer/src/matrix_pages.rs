//! Splits the matrix of a run's trials into pages.

use crate::html::MatrixCell;

/// One task's row in the matrix: the task's trials by arm, and how many of them resolve the task.
#[derive(Debug)]
pub struct TaskGroup<'a> {
    pub task: &'a str,
    pub cells: Vec<Vec<MatrixCell>>,
    pub trial_count: usize,
    pub resolved: usize,
}

/// Returns the rows of each page, in order. There is at least one page. A page has at most `limit`
/// trials, so a task with more trials has several rows.
pub fn matrix_pages(groups: Vec<TaskGroup<'_>>, limit: usize) -> Vec<Vec<TaskGroup<'_>>> {
    let (mut pages, mut page, mut trial_count) = (Vec::new(), Vec::new(), 0);
    for group in groups.into_iter().flat_map(|group| split_group(group, limit)) {
        if trial_count > 0 && trial_count + group.trial_count > limit {
            pages.push(std::mem::take(&mut page));
            trial_count = 0;
        }
        trial_count += group.trial_count;
        page.push(group);
    }
    pages.push(page);
    pages
}

/// Splits a row with more than `limit` trials. Each part has the next attempts of every arm.
fn split_group(group: TaskGroup<'_>, limit: usize) -> Vec<TaskGroup<'_>> {
    if group.trial_count <= limit {
        return vec![group];
    }
    let attempts = (limit / group.cells.len().max(1)).max(1);
    let most = group.cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut arms: Vec<_> = group.cells.into_iter().map(Vec::into_iter).collect();
    let mut part = || {
        let cells = arms.iter_mut().map(|cells| cells.by_ref().take(attempts).collect::<Vec<_>>());
        let cells: Vec<Vec<MatrixCell>> = cells.collect();
        TaskGroup {
            task: group.task,
            trial_count: cells.iter().map(Vec::len).sum(),
            resolved: cells.iter().flatten().filter(|cell| cell.class == "yes").count(),
            cells,
        }
    };
    (0..most.div_ceil(attempts)).map(|_| part()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(task: &str, attempts_by_arm: [u32; 2]) -> TaskGroup<'_> {
        let cell = |attempt| MatrixCell {
            href: String::new(),
            attempt,
            word: "resolved",
            class: if attempt == 1 { "yes" } else { "no" },
            ending: String::new(),
            reason: String::new(),
            failure: String::new(),
            integrity: String::new(),
            steps: String::new(),
        };
        TaskGroup {
            task,
            cells: attempts_by_arm.iter().map(|most| (1..=*most).map(cell).collect()).collect(),
            trial_count: attempts_by_arm.iter().sum::<u32>() as usize,
            resolved: 2,
        }
    }

    /// Returns the pages as text: each row is a task with the attempts of its two arms.
    fn page_texts(groups: Vec<TaskGroup<'_>>, limit: usize) -> Vec<Vec<String>> {
        let attempts = |cells: &Vec<MatrixCell>| -> Vec<u32> {
            cells.iter().map(|cell| cell.attempt).collect()
        };
        let row = |group: &TaskGroup<'_>| {
            assert!(group.trial_count <= limit, "{group:?}");
            let arms: Vec<_> = group.cells.iter().map(attempts).collect();
            format!("{} {arms:?} {}", group.task, group.resolved)
        };
        matrix_pages(groups, limit).iter().map(|page| page.iter().map(row).collect()).collect()
    }

    #[test]
    fn tasks_stay_on_one_page_unless_they_are_larger_than_a_page() {
        assert_eq!(page_texts(vec![], 4), [[""; 0]], "an empty matrix has one page");
        let small = || vec![group("a", [1, 1]), group("b", [1, 1]), group("c", [2, 1])];
        assert_eq!(
            page_texts(small(), 4),
            [vec!["a [[1], [1]] 2", "b [[1], [1]] 2"], vec!["c [[1, 2], [1]] 2"]]
        );
        assert_eq!(page_texts(small(), 100).len(), 1);
        assert_eq!(
            page_texts(vec![group("a", [1, 1]), group("d", [5, 2]), group("b", [1, 1])], 4),
            [
                vec!["a [[1], [1]] 2"],
                vec!["d [[1, 2], [1, 2]] 2"],
                vec!["d [[3, 4], []] 0", "d [[5], []] 0"],
                vec!["b [[1], [1]] 2"],
            ]
        );
    }
}
