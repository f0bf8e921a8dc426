//! Groups a trial's steps by conversation: the agent's own, and one for each sub-agent.

use serde::Serialize;

use super::step_row::StepRow;

/// Number of steps shown before and after the current one.
const NEARBY_STEPS: usize = 60;
/// Maximum number of steps shown at the start of a conversation, and at its end. Steps in between
/// are left out.
const MAX_ROWS_PER_END: usize = 1_000;

/// A conversation, with the steps that a page lists.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Conversation<'a> {
    /// 0 for the agent's own conversation. Sub-agents are numbered from 1, in order of their first
    /// step.
    number: usize,
    /// The sub-agent's id. Empty for the agent itself.
    id: &'a str,
    /// Number of steps.
    count: usize,
    first_step: u64,
    /// Whether the current step belongs to this conversation.
    is_current: bool,
    /// Number of steps before the listed ones.
    before: usize,
    rows: Vec<&'a StepRow>,
    /// The steps that are left out in the middle: the first one, and their number.
    gap: Option<(u64, usize)>,
    rest: Vec<&'a StepRow>,
    /// Number of steps after the listed ones.
    behind: usize,
}

/// Returns the conversations of a trial. The agent's own comes first. With `current_step`, only the
/// steps near that step are listed.
pub(crate) fn conversations(rows: &[StepRow], current_step: Option<u64>) -> Vec<Conversation<'_>> {
    let mut groups: Vec<(&str, Vec<&StepRow>)> = vec![("", Vec::new())];
    for row in rows {
        let id = row.conversation.as_deref().unwrap_or_default();
        match groups.iter_mut().find(|(known, _)| *known == id) {
            Some((_, group)) => group.push(row),
            None => groups.push((id, vec![row])),
        }
    }
    (0..)
        .zip(groups)
        .filter(|(_, (_, group))| !group.is_empty())
        .map(|(number, (id, group))| conversation(number, id, group, current_step))
        .collect()
}

fn conversation<'a>(
    number: usize,
    id: &'a str,
    group: Vec<&'a StepRow>,
    current_step: Option<u64>,
) -> Conversation<'a> {
    let count = group.len();
    let first_step = group.first().map_or(0, |row| row.number);
    let at = group.iter().position(|row| Some(row.number) == current_step);
    let whole = Conversation {
        number,
        id,
        count,
        first_step,
        is_current: at.is_some(),
        before: 0,
        rows: Vec::new(),
        gap: None,
        rest: Vec::new(),
        behind: 0,
    };
    match (at, current_step) {
        (Some(at), _) => {
            let from = at.saturating_sub(NEARBY_STEPS);
            let to = (at + NEARBY_STEPS + 1).min(count);
            let rows = group[from..to].to_vec();
            Conversation { before: from, rows, behind: count - to, ..whole }
        }
        // The page is about a step of another conversation.
        (None, Some(_)) => whole,
        (None, None) if count <= 2 * MAX_ROWS_PER_END => Conversation { rows: group, ..whole },
        (None, None) => {
            let (rows, rest) = group.split_at(MAX_ROWS_PER_END);
            let (gap, rest) = rest.split_at(rest.len() - MAX_ROWS_PER_END);
            Conversation {
                rows: rows.to_vec(),
                gap: gap.first().map(|row| (row.number, gap.len())),
                rest: rest.to_vec(),
                ..whole
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_rows(conversations: &[Option<&str>]) -> Vec<StepRow> {
        let row = |(number, id): (u64, &Option<&str>)| StepRow {
            number,
            conversation: id.map(str::to_owned),
            ..StepRow::default()
        };
        (1..).zip(conversations).map(row).collect()
    }

    #[test]
    fn sub_agents_have_their_own_conversations() {
        let rows = step_rows(&[Some("x"), None, Some("y"), Some("x"), None]);
        let found = conversations(&rows, None);
        let shown: Vec<(usize, &str, Vec<u64>)> = found
            .iter()
            .map(|one| (one.number, one.id, one.rows.iter().map(|row| row.number).collect()))
            .collect();
        assert_eq!(shown, [(0, "", vec![2, 5]), (1, "x", vec![1, 4]), (2, "y", vec![3])]);
        let near = conversations(&rows, Some(4));
        let listed: Vec<(bool, usize)> =
            near.iter().map(|one| (one.is_current, one.rows.len())).collect();
        assert_eq!(listed, [(false, 0), (true, 2), (false, 0)], "only the current one is listed");
        assert_eq!(conversations(&step_rows(&[Some("x")]), None).len(), 1, "no step of the agent");
    }

    #[test]
    fn long_conversations_are_shortened() {
        let rows = step_rows(&[None; 2 * MAX_ROWS_PER_END + 5]);
        let whole = conversations(&rows, None);
        assert_eq!(
            (whole[0].rows.len(), whole[0].rest.len()),
            (MAX_ROWS_PER_END, MAX_ROWS_PER_END)
        );
        assert_eq!(whole[0].gap, Some((MAX_ROWS_PER_END as u64 + 1, 5)));
        let near = conversations(&rows, Some(100));
        assert_eq!((near[0].before, near[0].rows.len()), (39, 2 * NEARBY_STEPS + 1));
        assert_eq!(near[0].before + near[0].rows.len() + near[0].behind, rows.len());
    }
}
