//! Turns the names of trials in findings into links.

use std::collections::HashMap;

use super::{PlannedTrial, pages::trial_name, planned_trials, urls::UrlForm};
use crate::{
    html::{Sentence, TrialName},
    viewed_run::ViewedRun,
};

/// Texts after which a trial's name may begin.
const NAME_STARTS: [&str; 4] = [", ", ": ", " and ", "  "];

/// The trials and arms of a run, by the names that findings give them.
pub struct RunNames<'a> {
    run: &'a ViewedRun,
    form: UrlForm,
    trials: HashMap<String, PlannedTrial<'a>>,
}

impl<'a> RunNames<'a> {
    pub fn new(run: &'a ViewedRun, form: UrlForm) -> Self {
        // A finding names the arm first.
        let name = |found: &PlannedTrial<'_>| {
            format!("{} / {} / {}", found.arm.name, found.task.task.id, found.attempt)
        };
        let trials = planned_trials(&run.record);
        let trials = trials.into_iter().map(|found| (name(&found), found)).collect();
        Self { run, form, trials }
    }

    /// Returns a finding with a link for each trial that it names.
    pub fn link_finding(&self, text: &str) -> Sentence {
        let mut sentence = Sentence::default();
        let mut rest = text;
        if let Some(arm) = self.leading_arm(text) {
            sentence = sentence.text(arm);
            rest = &text[arm.len()..];
        }
        while let Some((start, end, found)) = self.find_name(rest) {
            let (name, href) = self.trial_link(found);
            sentence = sentence.text(&rest[..start]).trial_link(&name, href);
            rest = &rest[end..];
        }
        sentence.text(rest)
    }

    /// Returns a trial's name and address.
    fn trial_link(&self, found: &PlannedTrial<'_>) -> (TrialName, String) {
        (trial_name(found), self.form.trial_url(self.run.number, found))
    }

    /// Returns the arm's name if the text begins with it, followed by a colon.
    fn leading_arm<'t>(&self, text: &'t str) -> Option<&'t str> {
        let names = self.run.record.arms.iter().map(|arm| arm.name.as_str());
        let longest = names
            .filter(|name| text.strip_prefix(*name).is_some_and(|rest| rest.starts_with(": ")))
            .map(str::len)
            .max()?;
        Some(&text[..longest])
    }

    /// Returns the first trial that the text names, with the range of its name.
    fn find_name(&self, text: &str) -> Option<(usize, usize, &PlannedTrial<'a>)> {
        for (slash, separator) in text.match_indices(" / ") {
            let number = &text[slash + separator.len()..];
            let digits = number.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                continue;
            }
            let end = slash + separator.len() + digits;
            let after_separators = NAME_STARTS.iter().flat_map(|start| {
                text[..slash].match_indices(start).map(|(at, start)| at + start.len())
            });
            let mut starts: Vec<usize> = after_separators.chain([0]).collect();
            // A name may contain a separator itself, so try the longest candidate first.
            starts.sort_unstable();
            for start in starts {
                if let Some(found) = self.trials.get(&text[start..end]) {
                    return Some((start, end, found));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_run::write_plan;

    #[test]
    fn findings_link_to_the_trials_that_they_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        write_plan(&path, &["tools/a", "b: c"], 2, 1);
        let run = ViewedRun::open(&path, 1).unwrap();
        let names = RunNames::new(&run, UrlForm::ServerPath);
        for (text, expected) in [
            ("tools/a: 3 / 4 failed", vec![]),
            ("tools/a / task-00001 / 1: boom", vec![1]),
            ("2 trials: b: c / task-00000 / 1, tools/a / task-00001 / 1 and 3 more", vec![0, 1]),
            ("  b: c / task-00001 / 1: model fault: a / b / 1", vec![1]),
            ("other / task-00001 / 1: boom", vec![]),
        ] {
            let sentence = names.link_finding(text);
            let found: Vec<String> =
                expected.iter().map(|task| format!("1/task%2D0000{task}/")).collect();
            let links = sentence.links();
            assert_eq!(links.len(), found.len(), "{text}: {links:?}");
            for (link, start) in links.iter().zip(&found) {
                assert!(link.starts_with(start.as_str()), "{text}: {links:?}");
            }
        }
        let arm = names.link_finding("b: c: failed").plain_text();
        assert_eq!(arm, "b: c: failed");
    }
}
