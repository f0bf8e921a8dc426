//! Finds the trials of a run's plan that match a task name, arm name and attempt.

use proctor_types::{Arm, RunRecord, RunTask, TrialId, UserError, similar_names};

/// A trial of the plan with its task and arm.
#[derive(Debug, Clone, Copy)]
pub struct PlannedTrial<'a> {
    pub task: &'a RunTask,
    pub arm: &'a Arm,
    pub attempt: u32,
}

impl PlannedTrial<'_> {
    pub fn id(&self) -> TrialId {
        let (task, arm) = (self.task.task.id.clone(), self.arm.id.clone());
        TrialId { task, arm, attempt: self.attempt }
    }

    /// Whether this trial is part of the run. Most runs exclude no trials, and then the trial's id
    /// is not computed.
    pub fn is_planned(&self, record: &RunRecord) -> bool {
        (1..=record.attempts).contains(&self.attempt)
            && (record.absent.is_empty() || !record.absent.contains(&self.id()))
    }

    /// Returns the trial's name in the form `TASK / ARM / ATTEMPT`.
    pub fn name(&self) -> String {
        format!("{} / {} / {}", self.task.task.id, self.arm.name, self.attempt)
    }
}

/// Returns every trial in execution order.
pub fn planned_trials(record: &RunRecord) -> Vec<PlannedTrial<'_>> {
    let mut all = Vec::new();
    for attempt in 1..=record.attempts {
        for task in &record.tasks {
            let found = record.arms.iter().map(|arm| PlannedTrial { task, arm, attempt });
            all.extend(found.filter(|found| found.is_planned(record)));
        }
    }
    all
}

/// Returns all trials that match the names, in plan order. `None` matches everything.
///
/// # Errors
/// Fails if a name has no match. The hint suggests similar names.
pub fn find_trials<'a>(
    record: &'a RunRecord,
    task: Option<&str>,
    arm: Option<&str>,
    attempt: Option<u32>,
) -> Result<Vec<PlannedTrial<'a>>, UserError> {
    let tasks: Vec<&RunTask> = match task {
        Some(name) => {
            select_by_name(&record.tasks, "task", name, |task| vec![task.task.id.as_str()])?
        }
        None => record.tasks.iter().collect(),
    };
    let arms: Vec<&Arm> = match arm {
        Some(name) => {
            select_by_name(&record.arms, "arm", name, |arm| vec![&arm.name, arm.id.as_str()])?
        }
        None => record.arms.iter().collect(),
    };
    if let Some(attempt) = attempt.filter(|attempt| !(1..=record.attempts).contains(attempt)) {
        return Err(UserError::new(format!("no attempt {attempt}"))
            .hint(format!("this run has attempts 1 to {}", record.attempts)));
    }
    let attempts: Vec<u32> = match attempt {
        Some(attempt) => vec![attempt],
        None => (1..=record.attempts).collect(),
    };
    let mut found = Vec::new();
    for task in tasks {
        for arm in &arms {
            let all = attempts.iter().map(|attempt| PlannedTrial { task, arm, attempt: *attempt });
            found.extend(all.filter(|found| found.is_planned(record)));
        }
    }
    Ok(found)
}

/// Returns the trial for `TASK/ARM/ATTEMPT`. Task and arm names may contain slashes. The arm can be
/// given by its name or by a prefix of its id. Unique parts of the names are enough. The arm can be
/// omitted if the run has only one.
///
/// # Errors
/// Fails if there is no such trial. The hint explains how to find the existing trials.
pub fn find_by_name<'a>(
    record: &'a RunRecord,
    trial_name: &str,
) -> Result<PlannedTrial<'a>, UserError> {
    let (rest, attempt) = match trial_name.rsplit_once('/') {
        Some((rest, number)) => match number.parse() {
            Ok(attempt) => (rest, attempt),
            Err(_) => (trial_name, 1),
        },
        None => (trial_name, 1),
    };
    let mut found = Vec::new();
    for task in &record.tasks {
        for arm in &record.arms {
            let after = rest.strip_prefix(task.task.id.as_str());
            let of_arm = |name: &str| {
                name == arm.name || (name.len() >= 6 && arm.id.as_str().starts_with(name))
            };
            let is_it = match after.map(|after| after.strip_prefix('/').unwrap_or(after)) {
                Some("") => record.arms.len() == 1,
                Some(name) => of_arm(name),
                None => false,
            };
            let one = PlannedTrial { task, arm, attempt };
            if is_it && one.is_planned(record) {
                found.push(one);
            }
        }
    }
    if found.is_empty() {
        found = find_by_short_names(record, rest, attempt);
    }
    match found.as_slice() {
        [only] => Ok(*only),
        _ => {
            let first = record.tasks.first().zip(record.arms.first());
            let like = first.map_or_else(String::new, |(task, arm)| {
                format!(", such as `{}/{}/1`", task.task.id, arm.name)
            });
            Err(UserError::new(format!("--trial {trial_name}: the run has no such trial"))
                .hint(format!("use TASK/ARM/ATTEMPT{like}; `proctor show RUN` lists the trials")))
        }
    }
}

/// Returns the trials that `TASK/ARM` can mean if both are unique parts of names. The names may
/// contain slashes, so each slash may be the one that separates them.
fn find_by_short_names<'a>(
    record: &'a RunRecord,
    task_and_arm: &str,
    attempt: u32,
) -> Vec<PlannedTrial<'a>> {
    let mut found: Vec<PlannedTrial<'a>> = Vec::new();
    for (at, _) in task_and_arm.match_indices('/') {
        let (task, arm) = (&task_and_arm[..at], &task_and_arm[at + 1..]);
        let trials = find_trials(record, Some(task), Some(arm), Some(attempt)).unwrap_or_default();
        for trial in trials {
            if found.iter().all(|known| known.id() != trial.id()) {
                found.push(trial);
            }
        }
    }
    found
}

/// Returns the items with exactly the wanted name. If there are none, returns the one item whose
/// name or id starts with the wanted text, or else the one whose name contains it.
fn select_by_name<'a, T>(
    items: &'a [T],
    item_kind: &str,
    query: &str,
    item_names: impl Fn(&'a T) -> Vec<&'a str>,
) -> Result<Vec<&'a T>, UserError> {
    let wanted_lower = query.to_lowercase();
    let that = |is: &dyn Fn(&str) -> bool| -> Vec<&'a T> {
        items.iter().filter(|one| item_names(one).into_iter().any(is)).collect()
    };
    // Two arms may have the same name. In that case, both match.
    let exact = that(&|name| name == query);
    if !exact.is_empty() {
        return Ok(exact);
    }
    for is in [
        &(|name: &str| name.to_lowercase().starts_with(&wanted_lower)) as &dyn Fn(&str) -> bool,
        &|name: &str| name.to_lowercase().contains(&wanted_lower),
    ] {
        match that(is).as_slice() {
            [] => {}
            [only] => return Ok(vec![*only]),
            several => {
                let named =
                    several.iter().take(3).filter_map(|one| item_names(one).first().copied());
                let named: Vec<&str> = named.collect();
                return Err(UserError::new(format!("`{query}` matches several {item_kind}s"))
                    .hint(format!("use a full name: `{}`", named.join("`, `"))));
            }
        }
    }
    let known: Vec<&str> =
        items.iter().filter_map(|one| item_names(one).first().copied()).collect();
    let near = similar_names(query, known.iter().copied());
    let hint = match near.is_empty() {
        true => format!("this run has: `{}`", known[..known.len().min(5)].join("`, `")),
        false => format!("did you mean `{}`?", near.join("` or `")),
    };
    Err(UserError::new(format!("this run has no {item_kind} `{query}`")).hint(hint))
}
