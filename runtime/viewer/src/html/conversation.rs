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
    /// Where the sub-agent was started. `None` for the agent itself, and for a sub-agent that began
    /// with the trial's first step.
    origin: Option<Origin>,
    /// The sub-agents that this conversation started, each with its number and its first step.
    children: Vec<(usize, u64)>,
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

/// The id of a conversation, with its steps.
type ConversationRows<'a> = (&'a str, Vec<&'a StepRow>);

/// Where a sub-agent was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Origin {
    /// The number of the parent conversation. `None` if the client does not name the parent.
    parent: Option<usize>,
    /// The parent's latest step before the sub-agent's first step. If the parent is unknown, the
    /// trial's latest step.
    step: u64,
}

/// Returns the conversations of a trial. The agent's own comes first. With `current_step`, only the
/// steps near that step are listed.
pub(crate) fn conversations(rows: &[StepRow], current_step: Option<u64>) -> Vec<Conversation<'_>> {
    let mut groups: Vec<ConversationRows<'_>> = vec![("", Vec::new())];
    for row in rows {
        let id = row.conversation.as_deref().unwrap_or_default();
        match groups.iter_mut().find(|(known, _)| *known == id) {
            Some((_, group)) => group.push(row),
            None => groups.push((id, vec![row])),
        }
    }
    let origins: Vec<Option<Origin>> =
        (0..groups.len()).map(|number| find_origin(number, &groups)).collect();
    let mut children: Vec<Vec<(usize, u64)>> = vec![Vec::new(); groups.len()];
    for (child, (origin, (_, group))) in origins.iter().zip(&groups).enumerate() {
        if let Some(parent) = origin.and_then(|origin| origin.parent) {
            children[parent].push((child, first_step(group)));
        }
    }
    (0..)
        .zip(groups)
        .filter(|(_, (_, group))| !group.is_empty())
        .map(|(number, (id, group))| Conversation {
            origin: origins[number],
            children: std::mem::take(&mut children[number]),
            ..conversation(number, id, group, current_step)
        })
        .collect()
}

fn first_step(rows: &[&StepRow]) -> u64 {
    rows.first().map_or(0, |row| row.number)
}

/// Returns where a conversation was started.
fn find_origin(number: usize, groups: &[ConversationRows<'_>]) -> Option<Origin> {
    let (_, rows) = groups.get(number).filter(|_| number > 0)?;
    let (start, named) = (first_step(rows), rows.iter().find_map(|row| row.parent.as_deref()));
    let latest_step = |(_, rows): &ConversationRows<'_>| {
        rows.iter().rev().map(|row| row.number).find(|step| *step < start)
    };
    let Some(named) = named else {
        return Some(Origin { parent: None, step: start.checked_sub(1).filter(|step| *step > 0)? });
    };
    // Some clients give the agent's own conversation an id, too. No step has this id.
    let parent = groups.iter().position(|(id, _)| *id == named).unwrap_or(0);
    Some(Origin { parent: Some(parent), step: groups.get(parent).and_then(latest_step)? })
}

fn conversation<'a>(
    number: usize,
    id: &'a str,
    group: Vec<&'a StepRow>,
    current_step: Option<u64>,
) -> Conversation<'a> {
    let count = group.len();
    let first_step = first_step(&group);
    let at = group.iter().position(|row| Some(row.number) == current_step);
    let whole = Conversation {
        number,
        id,
        count,
        first_step,
        origin: None,
        children: Vec::new(),
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
    fn sub_agents_and_their_parents_refer_to_each_other() {
        let row = |number, conversation: Option<&str>, parent: Option<&str>| StepRow {
            number,
            conversation: conversation.map(str::to_owned),
            parent: parent.map(str::to_owned),
            ..StepRow::default()
        };
        let rows = [
            row(1, None, None),
            // `main` is the id of the agent's own conversation.
            row(2, Some("x"), Some("main")),
            row(3, Some("x"), Some("main")),
            row(4, Some("y"), Some("x")),
            row(5, None, None),
            row(6, Some("z"), None),
        ];
        let found = conversations(&rows, None);
        let origins: Vec<_> =
            found.iter().map(|one| one.origin.map(|origin| (origin.parent, origin.step))).collect();
        assert_eq!(origins, [None, Some((Some(0), 1)), Some((Some(1), 3)), Some((None, 5))]);
        let children: Vec<_> = found.iter().map(|one| one.children.clone()).collect();
        assert_eq!(children, [vec![(1, 2)], vec![(2, 4)], vec![], vec![]]);
        let first = [row(1, Some("x"), None), row(2, None, None)];
        assert!(conversations(&first, None).iter().all(|one| one.origin.is_none()));
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
