//! Tests for the main results of a report: headlines, cost per resolved trial, soundness checks,
//! and the text that fits on one screen.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use proctor_report::{
    CheckLevel, Report, TextOptions, TrialResult, UsageKind, budget_curves, build_grid,
    build_report, cell_text, compare, failure_reasons, findings, headlines, headlines_with_escape,
    ranking_sentence, report_text, report_text_with_comparison, single_arm_headline,
    soundness_checks,
};
use proctor_types::{
    Arm, BudgetKind, Ending, ExitCause, FailureReason, Fault, FaultLayer, Integrity, Interruptions,
    NO_PREDICTION, Outcome, TaskId,
};

use crate::report::{submitted_ending, trial};

/// Returns a trial with this cost.
fn priced_trial(arm: &str, task: &str, resolved: bool, dollars: f64) -> TrialResult {
    let mut result = trial(arm, task, submitted_ending(), Some(f64::from(u8::from(resolved))));
    let spent = &mut result.outcome.as_mut().unwrap().spent;
    (spent.cost_usd, spent.grace_cost_usd) = (dollars, 0.0);
    result
}

/// Returns two arms on 20 tasks: `a` resolves the first five at 10 cents each, and `b` resolves the
/// first 15 at 13 cents.
fn two_arms() -> Vec<TrialResult> {
    let tasks = 0..20;
    tasks
        .flat_map(|at| {
            let task = format!("t{at:02}");
            [priced_trial("a", &task, at < 5, 0.10), priced_trial("b", &task, at < 15, 0.13)]
        })
        .collect()
}

#[test]
fn headline_names_better_arm_effect_and_price() {
    let comparison = compare(&two_arms(), None);
    let all = headlines(&comparison);
    assert_eq!(all.len(), 1);
    assert!(all[0].is_distinguishable && all[0].difference == 0.5, "{all:?}");
    // `b` is named first, and the ends of the interval are swapped accordingly.
    let pair = &comparison.pairs[0];
    assert_eq!((pair.a.as_str(), pair.difference), ("a", Some(-0.5)));
    let [lower, upper] = pair.interval_adjusted.unwrap().map(|end| -end * 100.0);
    let text = format!(
        "b resolves 50.0 points more than a (95% {upper:.1} to {lower:.1}, 20 tasks) at 1.3 times the cost."
    );
    assert_eq!(all[0].text, text);
    assert!(upper > 0.0 && upper < lower);
    let detail = "75.0% vs 25.0% of 20 shared tasks; p = 0.0020.";
    assert_eq!(all[0].detail, detail, "all tasks have the same ratio, so there is no interval");
    let escaped = headlines_with_escape(&comparison, |name| format!("<{name}>"));
    assert!(escaped[0].text.starts_with("<b> resolves 50.0 points more than <a> "));
}

#[test]
fn headline_reports_no_clear_difference_if_it_may_be_chance() {
    let mut trials = two_arms();
    for one in &mut trials {
        // The arms differ only in one task.
        let resolved = one.task == TaskId::new("t00") && one.arm_name == "b";
        let verdict = one.verdict.as_mut().unwrap();
        (verdict.resolved, verdict.passed_rate) = (resolved, f64::from(u8::from(resolved)));
    }
    let headline = headlines(&compare(&trials, None)).remove(0);
    assert!(!headline.is_distinguishable);
    assert!(
        headline.text.starts_with("No clear difference: b resolves 5.0 points more than a (95% -")
    );
    assert!(headline.text.ends_with(" at 1.3 times the cost."), "{}", headline.text);
    let needed = " tasks would be needed to detect a difference of this size";
    assert!(headline.detail.contains(needed), "{}", headline.detail);

    // Without prices, the headline compares tokens. They are equal here.
    for one in &mut trials {
        one.outcome.as_mut().unwrap().spent.unpriced = true;
    }
    let headline = headlines(&compare(&trials, None)).remove(0);
    assert!(headline.text.ends_with(" with as many tokens."), "{}", headline.text);
}

#[test]
fn headline_of_few_tasks_says_so_and_names_whose_usage_it_compares() {
    let few = |a: &[bool], b: &[bool]| {
        let mut trials = Vec::new();
        for (at, (a, b)) in a.iter().zip(b).enumerate() {
            trials.push(priced_trial("a", &format!("t{at}"), *a, 0.30));
            trials.push(priced_trial("b", &format!("t{at}"), *b, 0.10));
        }
        headlines(&compare(&trials, None)).remove(0).text
    };
    let equal = few(&[false; 2], &[false; 2]);
    assert!(
        equal.starts_with("Too few tasks to tell: a and b resolve equally many tasks"),
        "{equal}"
    );
    // So few tasks show nothing about the cost, either.
    assert!(equal.ends_with(", 2 tasks)."), "{equal}");
    let better = few(&[false; 5], &[true; 5]);
    assert!(better.starts_with("Too few tasks to tell: b resolves 100.0 points more"), "{better}");
    assert!(better.ends_with(", 5 tasks)."), "{better}");
    // Six tasks can show a difference, and they show none here.
    let more = few(&[true; 6], &[true; 6]);
    assert!(more.starts_with("No clear difference: a and b resolve equally many tasks"), "{more}");
    assert!(more.ends_with(", 6 tasks); a at 3.0 times the cost of b."), "{more}");
    assert!(few(&[false; 6], &[true; 6]).starts_with("b resolves 100.0 points more than a"));
}

#[test]
fn differing_limits_and_prices_are_part_of_each_sentence() {
    // `b` resolves 15 tasks, but takes 20 steps for every second task.
    let mut trials = two_arms();
    for (at, one) in trials.iter_mut().enumerate() {
        let is_long = one.arm_name == "b" && (at / 2) % 2 == 1;
        one.outcome.as_mut().unwrap().spent.steps = if is_long { 20 } else { 5 };
    }
    let priced = |name: &str, steps: u64, price: f64| {
        let mut arm = planned_arm(name, steps, "https://model.example/v1");
        let price = serde_json::json!({ "input": price, "output": price });
        arm.model.as_mut().unwrap().price = Some(serde_json::from_value(price).unwrap());
        arm
    };
    let arms = [priced("a", 8, 1.0), priced("b", 30, 2.0)];
    let comparison = compare(&trials, Some(&arms));
    let text = headlines(&comparison).remove(0).text;
    let claim = "b resolves 50.0 points more than a with limits of 30 and 8 steps (95% ";
    assert!(text.starts_with(claim), "{text}");
    let price =
        ") at 1.3 times the cost and with as many tokens, at different prices. Within 8 steps, ";
    assert!(text.contains(price), "{text}");
    // Seven of the tasks that `b` resolves take it 20 steps.
    let common = "Within 8 steps, b resolves at least 40.0% and a 25.0%: no clear difference (95% ";
    assert!(text.contains(common), "{text}");
    let pair = &comparison.pairs[0];
    let limited = pair.common_limit.unwrap();
    assert_eq!((limited.steps, limited.a_mean, limited.b_mean), (8, Some(0.25), Some(0.4)));
    assert_eq!((pair.clear, limited.clear), (Some(true), Some(false)));
    assert_eq!((limited.is_a_lower_bound, limited.is_b_lower_bound), (false, true));
    let said = &pair.sentence;
    let claim =
        "a resolves 50.0 points less than b with limits of 8 and 30 steps on 20 shared tasks, ";
    assert!(said.starts_with(claim), "{said}");
    let common = "; within 8 steps, a resolves 25.0% and b at least 40.0%: no clear";
    assert!(said.contains(common), "{said}");
    let cost = comparison.pairs.iter().find(|pair| pair.metric == "cost").unwrap();
    assert!(cost.sentence.contains("; the prices of their models differ"), "{}", cost.sentence);

    // Equal settings, or unknown ones, add nothing.
    let same = [priced("a", 30, 1.0), priced("b", 30, 1.0)];
    for comparison in [compare(&trials, Some(&same)), compare(&trials, None)] {
        let pair = &comparison.pairs[0];
        assert!(pair.limits.is_empty() && pair.common_limit.is_none() && !pair.prices_differ);
        let text = headlines(&comparison).remove(0).text;
        assert!(text.ends_with(" at 1.3 times the cost."), "{text}");
    }
}

#[test]
fn ratio_that_may_be_one_is_called_unclear() {
    // `b` costs 1.3 times as much as `a` on average. The factor depends on the task.
    let with = |factors: [f64; 2], unpriced: bool| {
        let mut trials = two_arms();
        for (at, one) in trials.iter_mut().enumerate().filter(|(_, one)| one.arm_name == "b") {
            let factor = factors[at / 2 % 2];
            let spent = &mut one.outcome.as_mut().unwrap().spent;
            (spent.cost_usd, spent.unpriced) = (0.10 * factor, unpriced);
            (spent.input_tokens, spent.output_tokens) = ((10_000.0 * factor) as u64, 100);
        }
        trials
    };
    let text = |trials: &[TrialResult]| headlines(&compare(trials, None)).remove(0).text;
    let near = text(&with([1.0, 1.6], false));
    assert!(near.ends_with(" at 1.3 times the cost (95% 1.2 to 1.4)."), "{near}");
    let far = text(&with([0.1, 2.5], false));
    assert!(far.contains(", 20 tasks); cost ratio unclear (95% 0."), "{far}");
    assert!(!far.contains("times the cost"), "{far}");
    let tokens = text(&with([0.1, 2.5], true));
    assert!(tokens.contains("; token ratio unclear (95% 0."), "{tokens}");

    // The totals of the tables include the tasks that the headline excludes.
    let mut trials = with([1.0, 1.6], false);
    trials[0].verdict = None;
    let shared = text(&trials);
    assert!(shared.contains(" times the cost on the shared tasks (95% 1."), "{shared}");
}

#[test]
fn pairs_with_equal_limits_are_compared_at_the_limit_of_another_arm() {
    // `c` has the smallest limit, and `b` takes 20 steps for every second task.
    let mut trials = two_arms();
    trials.extend((0..20).map(|at| priced_trial("c", &format!("t{at:02}"), at < 6, 0.1)));
    for (at, one) in trials.iter_mut().enumerate() {
        let is_long = one.arm_name == "b" && (at / 2) % 2 == 1;
        one.outcome.as_mut().unwrap().spent.steps = if is_long { 20 } else { 5 };
    }
    let url = "https://model.example/v1";
    let arms = [("a", 30), ("b", 30), ("c", 8)].map(|(name, steps)| planned_arm(name, steps, url));
    let comparison = compare(&trials, Some(&arms));
    let resolved = comparison.pairs.iter().filter(|pair| pair.metric == "resolved");
    let limits: Vec<_> =
        resolved.clone().map(|pair| pair.common_limit.map(|limit| limit.steps)).collect();
    assert_eq!(limits, [Some(8); 3]);
    let common =
        "ithin 8 steps, b resolves at least 40.0% and a at least 25.0%: no clear difference";
    let pair = resolved.clone().find(|pair| (pair.a.as_str(), pair.b.as_str()) == ("a", "b"));
    let sentence = &pair.unwrap().sentence;
    let turned = "; within 8 steps, a resolves at least 25.0% and b at least 40.0%: no clear";
    assert!(sentence.contains(turned), "{sentence}");
    // Their headline is about their own limits, so this result is a detail.
    let headline = headlines(&comparison)
        .into_iter()
        .find(|one| one.text.starts_with("b resolves 50.0 points more than a "))
        .unwrap();
    assert!(!headline.text.contains("ithin 8 steps"), "{headline:?}");
    assert!(headline.detail.contains(common), "{headline:?}");
}

#[test]
fn headlines_start_with_distinguishable_pairs_and_omit_controls() {
    let mut trials = two_arms();
    trials.extend((0..20).map(|at| priced_trial("c", &format!("t{at:02}"), at < 6, 0.1)));
    trials.extend((0..20).map(|at| {
        let one = priced_trial("gold", &format!("t{at:02}"), true, 0.0);
        TrialResult { is_control: true, ..one }
    }));
    let all = headlines(&compare(&trials, None));
    let starts: Vec<_> = all.iter().map(|one| one.text.split(" (").next().unwrap()).collect();
    let expected = [
        "b resolves 50.0 points more than a",
        "b resolves 45.0 points more than c",
        "No clear difference: c resolves 5.0 points more than a",
    ];
    assert_eq!(starts, expected);
}

#[test]
fn headline_is_clear_only_if_missing_verdicts_cannot_change_it() {
    // `b` resolves ten tasks that `a` doesn't. Verdicts of `a` are missing on some of them.
    let with_missing = |count: usize| {
        let mut trials = two_arms();
        let missing = trials.iter_mut().filter(|one| one.arm_name == "a").skip(5).take(count);
        missing.for_each(|one| one.verdict = None);
        headlines(&compare(&trials, None)).remove(0)
    };
    let few = with_missing(2);
    assert!(few.is_distinguishable, "{few:?}");
    assert!(few.text.starts_with("b resolves 44.4 points more than a (95% "), "{few:?}");
    assert!(few.text.contains(", 18 of 20 tasks)"), "{few:?}");
    let bounds =
        "; with the 2 missing verdicts, the difference on 20 tasks is from 40.0 to 50.0 points";
    assert!(few.detail.contains(bounds), "{few:?}");

    // With four missing verdicts, six tasks differ in any case: p = 0.03. With five, p = 0.06.
    assert!(with_missing(4).is_distinguishable && !with_missing(5).is_distinguishable);

    // The verdicts of the tasks that `b` doesn't resolve are missing.
    let mut trials = two_arms();
    trials.iter_mut().filter(|one| one.arm_name == "a").skip(15).for_each(|one| one.verdict = None);
    let headline = headlines(&compare(&trials, None)).remove(0);
    assert!(!headline.is_distinguishable, "{headline:?}");
    // With all five verdicts against it, `b` is better on ten tasks and worse on five.
    let doubt = "The graded trials show a difference, but it would not be clear if the 5 missing \
                 verdicts went the other way (worst-case p = 0.30): b resolves 66.7 points more than a";
    assert!(headline.text.starts_with(doubt), "{headline:?}");
    assert!(headline.text.contains(", 15 of 20 tasks)"), "{headline:?}");
    let price = " times the cost on the shared tasks.";
    assert!(headline.text.ends_with(price), "{headline:?}");
    assert!(!headline.text.contains("No clear difference"), "{headline:?}");
}

#[test]
fn single_arm_headline_has_score_and_cost() {
    let report = build_report(two_arms().into_iter().filter(|one| one.arm_name == "a").collect());
    let [lower, upper] = report.arms[0].intervals.resolved_rate.unwrap().map(|end| end * 100.0);
    let text = format!(
        "a resolves 25.0% of 20 trials (95% {lower:.1} to {upper:.1}) at $0.40 per resolved trial."
    );
    assert_eq!(single_arm_headline(&report), Some(text));
    assert_eq!(single_arm_headline(&build_report(two_arms())), None);
}

#[test]
fn cost_per_resolved_interval_grows_with_missing_verdicts() {
    let mut trials: Vec<_> = (0..20)
        .map(|at| priced_trial("a", &format!("t{at:02}"), at % 2 == 0, 0.1 + f64::from(at) * 0.01))
        .collect();
    let each = build_report(trials.clone()).arms[0].per_resolved.unwrap();
    let cost = each.cost_usd.unwrap();
    // 20 * 0.1 + 0.01 * 190 dollars for 10 resolved trials.
    assert_eq!(cost.value, 0.39);
    let (lower, upper) = (cost.lower.unwrap(), cost.upper.unwrap());
    assert!(lower > 0.2 && lower < 0.39 && upper > 0.39 && upper < 0.9, "{cost:?}");
    assert_eq!(each.tokens.unwrap().value, 20.0 * 10_150.0 / 10.0);

    // A trial without a verdict may turn out to be resolved or not.
    trials[0].verdict = None;
    let open = build_report(trials.clone()).arms[0].per_resolved.unwrap().cost_usd.unwrap();
    assert!(open.value > cost.value && open.upper.unwrap() > upper && open.lower.unwrap() <= lower);

    for one in &mut trials {
        one.outcome.as_mut().unwrap().spent.unpriced = true;
    }
    let unpriced = build_report(trials.clone()).arms[0].per_resolved.unwrap();
    assert!(unpriced.cost_usd.is_none() && unpriced.tokens.is_some());
    trials.iter_mut().for_each(|one| one.verdict = None);
    assert_eq!(build_report(trials).arms[0].per_resolved, None, "no trial is resolved");
}

/// Returns the level and the text of the check that contains a word.
fn find_check(report: &Report, word: &str) -> (CheckLevel, String) {
    let check_line = soundness_checks(report).into_iter().find(|check| check.text.contains(word));
    check_line.map(|check| (check.level, check.text)).unwrap_or_else(|| panic!("no {word}"))
}

#[test]
fn checks_cover_verdicts_controls_limits_and_faults() {
    let with_control = |name: &str, resolved: bool| {
        let mut trials = two_arms();
        trials.extend((0..20).map(|at| TrialResult {
            is_control: true,
            ..priced_trial(name, &format!("t{at:02}"), resolved || at == 0, 0.0)
        }));
        build_report(trials)
    };
    let sound = with_control("gold", true);
    assert_eq!(
        find_check(&sound, "verdict"),
        (CheckLevel::Good, "60 of 60 trials have a verdict".into())
    );
    let controls = (CheckLevel::Good, "Controls: gold resolves 20 of 20".into());
    assert_eq!(find_check(&sound, "Controls"), controls);
    assert_eq!(find_check(&sound, "suspect").0, CheckLevel::Good);
    assert_eq!(find_check(&sound, "limit").0, CheckLevel::Good);
    assert_eq!(find_check(&sound, "attempt").0, CheckLevel::Note);
    // Warn about a `gold` arm that fails and about a `noop` arm that resolves something.
    assert_eq!(find_check(&with_control("gold", false), "Controls").0, CheckLevel::Warning);
    assert_eq!(find_check(&with_control("noop", false), "Controls").0, CheckLevel::Warning);
    // `noop` alone doesn't show that the tasks have a solution.
    let mut trials = two_arms();
    trials.extend((0..20).map(|at| priced_trial("noop", &format!("t{at:02}"), false, 0.0)));
    let text = "Controls: noop resolves 0 of 20; no gold arm, so it isn't shown that the tasks can \
                be solved";
    let note = (CheckLevel::Note, text.to_owned());
    assert_eq!(find_check(&build_report(trials), "Controls"), note);
    let (level, text) = find_check(&build_report(two_arms()), "No controls");
    assert!(level == CheckLevel::Note && text.contains("gold") && text.contains("noop"), "{text}");

    let mut trials = two_arms();
    trials[0].verdict.as_mut().unwrap().integrity = Integrity::Contaminated;
    let steps = Ending::Budget { budget: BudgetKind::Steps, scope: Default::default() };
    trials[38].outcome.as_mut().unwrap().ending = steps;
    trials[1].outcome.as_mut().unwrap().interruptions.resumed_after = vec![3];
    let fault = Fault::new(FaultLayer::Model, "503");
    trials[3].outcome.as_mut().unwrap().ending = Ending::InfrastructureFault { fault };
    trials[3].verdict = None;
    let report = build_report(trials);
    assert_eq!(find_check(&report, "verdict").0, CheckLevel::Warning);
    let doubted = (CheckLevel::Warning, "a: 1 contaminated verdict, resolved".to_owned());
    assert_eq!(find_check(&report, "contaminated"), doubted);
    // One of 15 failures of the arm `a`: more than the 5% of configs/tables/noise.toml.
    let limit = (CheckLevel::Warning, "Ended at a limit: a 5.0%".to_owned());
    assert_eq!(find_check(&report, "limit"), limit);
    assert_eq!(find_check(&report, "interrupted").0, CheckLevel::Note);
    assert_eq!(find_check(&report, "infrastructure fault").0, CheckLevel::Warning);
}

#[test]
fn budget_curve_counts_trials_resolved_within_a_budget() {
    let mut trials = two_arms();
    for (at, one) in trials.iter_mut().enumerate() {
        one.outcome.as_mut().unwrap().spent.steps = 1 + at as u64 / 2;
    }
    let report = build_report(trials);
    let curves = budget_curves(&report, &report.arms_under_study(), UsageKind::Steps);
    let [a, b] = curves.as_slice() else { panic!("{curves:?}") };
    assert_eq!((a.trials, a.resolved_usage.len(), a.highest_usage), (20, 5, 20.0));
    assert_eq!(
        [
            a.resolved_fraction(0.0),
            a.resolved_fraction(1.0),
            a.resolved_fraction(5.0),
            a.resolved_fraction(100.0)
        ],
        [0.0, 0.05, 0.25, 0.25]
    );
    assert_eq!(
        [b.resolved_fraction(9.9), b.resolved_fraction(10.0), b.resolved_fraction(15.0)],
        [0.45, 0.5, 0.75]
    );
    // The cost is unknown.
    let mut trials = two_arms();
    trials.iter_mut().for_each(|one| one.outcome.as_mut().unwrap().spent.unpriced = true);
    let report = build_report(trials);
    assert!(budget_curves(&report, &report.arms_under_study(), UsageKind::Cost).is_empty());
    assert_eq!(budget_curves(&report, &report.arms_under_study(), UsageKind::Tokens).len(), 2);
}

#[test]
fn grid_has_every_task_and_arm() {
    let mut trials = two_arms();
    trials.extend(two_arms().into_iter().map(|one| TrialResult { attempt: 2, ..one }));
    // `a`'s attempt at the first task fails, and `b`'s attempt at the last task has no verdict.
    trials[0].verdict.as_mut().unwrap().resolved = false;
    trials[39].verdict = None;
    let report = build_report(trials);
    let study = report.arms_under_study();
    let grid = build_grid(&report, &study);
    assert_eq!(grid.rows.len(), 20);
    // t00 is mixed, t19 is open, and only b resolves t05 to t14.
    assert_eq!(grid.task_counts(), [4, 4, 12]);
    assert_eq!([grid.mixed_task_count(0), grid.mixed_task_count(1)], [1, 0]);
    assert_eq!((grid.rows[0].score(), grid.rows[1].score(), grid.rows[7].score()), (1.5, 2.0, 1.0));
    let cells =
        |at: usize| grid.rows[at].cells.iter().map(|cell| cell_text(cell)).collect::<Vec<_>>();
    assert_eq!(cells(0), ["1/2", "2/2"]);
    assert_eq!(cells(19), ["0/2", "0/2, 1 open"]);
}

#[test]
fn grid_marks_missing_predictions() {
    let mut trials = two_arms();
    trials[0].verdict.as_mut().unwrap().resolved = false;
    let ending = Ending::ScaffoldExited { cause: ExitCause::Finished, why: NO_PREDICTION.into() };
    trials[0].outcome = Some(Outcome::from_ending(1, ending));
    let report = build_report(trials);
    let grid = build_grid(&report, &report.arms_under_study());
    let cells: Vec<String> = grid.rows[0].cells.iter().map(|cell| cell_text(cell)).collect();
    assert_eq!(cells, ["no prediction", "yes"]);
}

#[test]
fn failure_reasons_start_with_most_frequent() {
    let mut trials = two_arms();
    let failed = trials.iter_mut().filter(|one| one.arm_name == "a").skip(5);
    for (at, one) in failed.enumerate() {
        let reason = match at {
            0..9 => FailureReason::Assertion,
            9..13 => FailureReason::NeverEdited,
            13 => FailureReason::TimeOut,
            _ => FailureReason::BrokePassToPass,
        };
        one.verdict.as_mut().unwrap().reason = Some(reason);
    }
    let report = build_report(trials);
    let named = failure_reasons(&report.arms[0], 2).unwrap();
    assert_eq!(named, "9 failed an assertion, 4 changed nothing and 2 more");
    assert!(
        failure_reasons(&report.arms[0], 9)
            .unwrap()
            .starts_with("9 failed an assertion, 4 changed nothing, ")
    );
    let named = failure_reasons(&report.arms[0], 3).unwrap();
    assert!(named.ends_with(", 1 broke passing tests"), "a single reason is not left out: {named}");
    assert_eq!(failure_reasons(&report.arms[1], 9), None, "no trial of b has a reason");
}

#[test]
fn trials_without_a_verdict_have_not_failed() {
    let mut trials = two_arms();
    let fault = Fault::new(FaultLayer::Model, "503");
    trials[0].outcome.as_mut().unwrap().ending = Ending::InfrastructureFault { fault };
    trials[0].verdict = None;
    for one in &mut trials[2..4] {
        (one.outcome, one.verdict) = (None, None);
    }
    trials[4].verdict = None;
    let report = build_report(trials);
    assert_eq!(failure_reasons(&report.arms[0], 9), None, "infrastructure is not a failure");
    let reasons = "a: 1 infrastructure fault, 1 not graded, 1 not ended (a fault may have halted the \
                   arm); b: 1 not ended";
    assert_eq!(report.missing_verdict_reasons().as_deref(), Some(reasons));
    let text = format!(
        "36 of 40 trials have a verdict. Without a verdict, counted as not resolved: {reasons}"
    );
    assert_eq!(find_check(&report, "verdict"), (CheckLevel::Warning, text));
    let checks = soundness_checks(&report).into_iter();
    assert_eq!(checks.filter(|check| check.text.contains("fault")).count(), 1, "one line");
    assert_eq!(build_report(two_arms()).missing_verdict_reasons(), None);
}

/// Returns an arm with a step limit. Its id is the arm id that `trial` uses for the same name.
fn planned_arm(name: &str, steps: u64, base_url: &str) -> Arm {
    let arm: Arm = serde_json::from_value(serde_json::json!({
        "id": "", "name": name, "scaffold": "tools", "model": { "base_url": base_url, "name": "m" },
        "budget": { "steps": steps }, "network": {}, "prompts": { "system": name },
        "sandbox": { "kind": "native", "cpus": 1.0, "memory_mb": 512 }, "settings": null,
    }))
    .unwrap();
    Arm { id: trial(name, "t00", submitted_ending(), None).arm, ..arm }
}

/// Returns the report of two arms with the given step limits and model addresses.
fn planned_report(limits: [u64; 2], urls: [&str; 2]) -> Report {
    let mut report = build_report(two_arms());
    for (index, name) in ["a", "b"].into_iter().enumerate() {
        report.arms[index].add_plan_details(&planned_arm(name, limits[index], urls[index]));
    }
    report
}

const EQUAL_SETTINGS: &str = "Limits and settings are the same for all arms";

/// Returns the report of two arms with the same factors.
fn report_of_one_configuration() -> Report {
    let mut report = build_report(two_arms());
    let arm = planned_arm("a", 30, "https://model.example/v1");
    report.arms.iter_mut().for_each(|told| told.add_plan_details(&arm));
    report
}

#[test]
fn different_limits_are_a_warning() {
    let url = "https://model.example/v1";
    let report = planned_report([30, 8], [url, url]);
    let factors = report.find_differing_factors();
    let names: Vec<&str> = factors.iter().map(|one| one.factor.as_str()).collect();
    assert_eq!(names, ["budget.steps", "prompts"], "limits first");
    assert_eq!(factors[0].value_strings(), ["30", "8"]);
    assert!(factors[0].is_limit() && !factors[1].is_limit());
    let prompt = &factors[1].value_strings()[0];
    assert!(prompt.starts_with("sha256:") && prompt.len() == 19, "{prompt}");
    let text = "The arms' limits differ: steps 30 (a), 8 (b)";
    assert_eq!(find_check(&report, "limits differ"), (CheckLevel::Warning, text.to_owned()));
    let lines = findings(&report);
    assert!(lines.contains(&format!("{text}.")), "{lines:?}");
    let json = serde_json::to_value(report.with_findings()).unwrap();
    assert_eq!(json["differing_factors"][0]["values"], serde_json::json!([30, 8]));

    let equal = planned_report([30, 30], [url, url]);
    assert_eq!(equal.describe_differing_limits(), None);
    let text = "The limits are the same for all arms";
    assert_eq!(find_check(&equal, "limits"), (CheckLevel::Good, text.to_owned()));
    assert_eq!(report_of_one_configuration().describe_equal_limits(), Some(EQUAL_SETTINGS));
    assert_eq!(build_report(two_arms()).describe_equal_limits(), None, "unknown settings");
    assert!(!findings(&equal).iter().any(|line| line.contains("limits differ")));
}

#[test]
fn use_of_the_hosts_python_is_a_check() {
    let mut report = build_report(two_arms());
    assert!(!soundness_checks(&report).iter().any(|check| check.text.contains("Python")));
    let remark = "These tasks used this machine's Python: results may differ on another machine.";
    report.remarks.push(remark.to_owned());
    let text = remark.trim_end_matches('.').to_owned();
    assert_eq!(find_check(&report, "Python"), (CheckLevel::Note, text));
}

#[test]
fn differing_addresses_and_prices_are_listed_as_settings() {
    let report = planned_report([30, 30], ["https://one.example/v1", "https://two.example/v1"]);
    let names = |report: &Report| -> Vec<String> {
        report.find_differing_factors().into_iter().map(|one| one.factor).collect()
    };
    assert_eq!(names(&report), ["model.base_url", "prompts"]);
    let mut priced = report.clone();
    for (arm, input) in priced.arms.iter_mut().zip([1.0, 2.0]) {
        arm.endpoint = Some(serde_json::json!({ "price": { "input": input, "output": 4.0 } }));
    }
    assert_eq!(names(&priced), ["model.price.input", "prompts"]);
}

#[test]
fn ranking_starts_with_the_common_limit_if_it_changes_the_result() {
    let mut trials = two_arms();
    trials.extend((0..20).map(|at| priced_trial("c", &format!("t{at:02}"), at < 6, 0.1)));
    for (at, one) in trials.iter_mut().enumerate() {
        // Half of the trials take 5 steps, and the others 10.
        one.outcome.as_mut().unwrap().spent.steps = if (at / 2) % 2 == 0 { 5 } else { 10 };
    }
    let rank = |trials: &[TrialResult], limits: [u64; 3]| {
        let names = ["a", "b", "c"].into_iter().zip(limits);
        let url = "https://model.example/v1";
        let arms: Vec<Arm> = names.map(|(name, steps)| planned_arm(name, steps, url)).collect();
        let mut report = build_report(trials.to_vec());
        for (told, arm) in report.arms.iter_mut().zip(&arms) {
            told.add_plan_details(arm);
        }
        ranking_sentence(&report, &compare(trials, Some(&arms))).unwrap()
    };
    let own = "b is first: it resolves 75.0%, clearly more than c, a.";
    assert_eq!(rank(&trials, [30, 30, 30]), own);
    // `a` resolves t00, t02 and t04 in 5 steps, and `b` also t06 to t14. The trials of `c` take 5
    // steps for t00, t01, t04 and t05.
    let differing = "The arms' limits differ: steps 30 (a, b), 8 (c).";
    assert_eq!(
        rank(&trials, [30, 30, 8]),
        format!(
            "Within 8 steps, no arm is clearly first: b resolves the most (at least 40.0%), but not \
             clearly more than c (20.0%), a (at least 15.0%). With their own limits, {own} {differing}"
        )
    );
    // Every trial takes at most 10 steps, so this limit changes nothing. The arm that has it is not
    // first.
    assert_eq!(
        rank(&trials, [10, 30, 10]),
        format!(
            "{own} The arms' limits differ: steps 10 (a, c), 30 (b). Within 10 steps, a resolves 25.0%, \
             b at least 75.0%, c 30.0%."
        )
    );
    // Missing verdicts are a range, not failures.
    let mut open = trials.clone();
    open[58..].iter_mut().for_each(|one| one.verdict = None);
    let said = rank(&open, [30, 30, 8]);
    assert!(said.contains("c (20.0% to 30.0% with 2 missing verdicts)"), "{said}");
    open[1].verdict = None;
    let said = rank(&open, [30, 30, 8]);
    assert!(said.contains(" b resolves the most (70.0% to 75.0%)"), "{said}");
    assert!(said.contains("b resolves the most (at least 35.0%)"), "{said}");
    let long: Vec<_> = trials
        .iter()
        .cloned()
        .map(|mut one| {
            one.outcome.as_mut().unwrap().spent.steps = 9;
            one
        })
        .collect();
    assert_eq!(
        rank(&long, [30, 30, 8]),
        format!(
            "No trial is known to resolve its task within 8 steps. With their own limits, {own} {differing}"
        )
    );
}

#[test]
fn unreadable_tool_calls_are_not_failures_at_a_limit() {
    let with = |reason: Option<FailureReason>| {
        let mut trials = two_arms();
        trials[38].outcome.as_mut().unwrap().ending =
            Ending::Budget { budget: BudgetKind::Steps, scope: Default::default() };
        trials[38].verdict.as_mut().unwrap().reason = reason;
        build_report(trials)
    };
    let warns = |report: &Report| {
        findings(report).iter().any(|line| line.contains("the score depends on this limit"))
    };
    let (limited, unreadable) = (with(None), with(Some(FailureReason::FormatErrors)));
    assert!(warns(&limited) && !warns(&unreadable));
    let text = "Ended at a limit: a 5.0% (1 of 1 sent unreadable tool calls)".to_owned();
    assert_eq!(find_check(&unreadable, "Ended at a limit"), (CheckLevel::Note, text));
    assert_eq!(find_check(&limited, "Ended at a limit").0, CheckLevel::Warning);
}

#[test]
fn faults_of_resumed_trials_share_a_line_with_the_other_faults() {
    let mut trials = two_arms();
    for one in &mut trials[..2] {
        let fault = Fault::new(FaultLayer::Model, "503");
        one.outcome.as_mut().unwrap().ending = Ending::InfrastructureFault { fault };
        one.verdict = None;
    }
    trials[0].outcome.as_mut().unwrap().interruptions.resumed_after = vec![3];
    let report = build_report(trials);
    let (_, text) = find_check(&report, "Without a verdict");
    let reasons = "a: 1 infrastructure fault; b: 1 infrastructure fault";
    assert!(
        text.ends_with(&format!("{reasons} (1 of them was resumed and failed again)")),
        "{text}"
    );
    assert!(!soundness_checks(&report).iter().any(|check| check.text.contains("interrupted")));
    let lines = findings(&report);
    assert!(!lines.iter().any(|line| line.contains("interrupted")), "{lines:?}");
    let line = "Infrastructure faults (scores count these trials as not resolved; 1 of them was \
                resumed and failed again):";
    assert!(lines.iter().any(|one| one == line), "{lines:?}");
}

#[test]
fn doubtful_verdicts_are_counted_per_arm_with_their_results() {
    for (verdicts, said) in [
        (vec![(0, Integrity::Suspect)], "a: 1 suspect verdict, resolved"),
        (vec![(38, Integrity::Contaminated)], "a: 1 contaminated verdict, not resolved"),
        (
            vec![(0, Integrity::Suspect), (2, Integrity::Suspect), (38, Integrity::Suspect)],
            "a: 3 suspect verdicts, 2 of them resolved",
        ),
        (
            vec![(36, Integrity::Suspect), (38, Integrity::Suspect)],
            "a: 2 suspect verdicts, none resolved",
        ),
        (
            vec![(0, Integrity::Suspect), (38, Integrity::Contaminated), (1, Integrity::Suspect)],
            "a: 1 suspect and 1 contaminated verdict, 1 of them resolved; b: 1 suspect verdict, resolved",
        ),
    ] {
        let mut trials = two_arms();
        for (at, integrity) in verdicts {
            trials[at].verdict.as_mut().unwrap().integrity = integrity;
        }
        let report = build_report(trials);
        assert_eq!(find_check(&report, said), (CheckLevel::Warning, said.to_owned()));
        let lines = findings(&report);
        for line in said.split("; ").map(|line| format!("{line}.")) {
            assert!(lines.contains(&line), "{line}: {lines:?}");
        }
    }
}

#[test]
fn doubtful_verdicts_name_the_reasons_of_failures() {
    let (edited, gave_up) = (FailureReason::EditedNeverRan, FailureReason::GaveUp);
    for (verdicts, said) in [
        (
            vec![(38, Some(edited))],
            "1 suspect verdict, not resolved: it ran nothing after its last edit",
        ),
        (
            vec![(36, Some(edited)), (38, Some(edited))],
            "2 suspect verdicts, none resolved: all ran nothing after their last edit",
        ),
        (
            vec![(34, Some(gave_up)), (36, Some(edited)), (38, Some(gave_up))],
            "3 suspect verdicts, none resolved: 2 gave up, 1 ran nothing after its last edit",
        ),
        (
            vec![(0, None), (36, Some(gave_up)), (38, None)],
            "3 suspect verdicts, 1 of them resolved (the others: 1 gave up)",
        ),
    ] {
        let mut trials = two_arms();
        for (at, reason) in verdicts {
            let verdict = trials[at].verdict.as_mut().unwrap();
            (verdict.integrity, verdict.reason) = (Integrity::Suspect, reason);
        }
        let said = format!("a: {said}");
        assert_eq!(find_check(&build_report(trials), "suspect"), (CheckLevel::Warning, said));
    }
}

#[test]
fn scripted_model_is_the_first_check_and_finding() {
    let url = "https://model.example/v1";
    let report = planned_report([30, 30], [url, "script:/some/file.json"]);
    let checks = soundness_checks(&report);
    let first = checks.first().unwrap();
    assert_eq!(first.text, "The model is a script, so the results are meaningless: b");
    assert_eq!(first.level, CheckLevel::Warning);
    let line = "b: its model is a script, so its results are meaningless.";
    assert_eq!(findings(&report).first().map(String::as_str), Some(line));
    let both = planned_report([30, 30], ["script:/some/file.json"; 2]);
    let line = "a, b: their models are scripts, so the results are meaningless.";
    assert_eq!(findings(&both).first().map(String::as_str), Some(line));
    let real = planned_report([30, 30], [url, url]);
    assert!(!soundness_checks(&real)[0].text.contains("script"));
}

#[test]
fn ranking_names_first_arm_and_unclear_leads() {
    let with_third = |resolved: u32| {
        let mut trials = two_arms();
        let tasks = 0..20;
        trials.extend(tasks.map(|at| priced_trial("c", &format!("t{at:02}"), at < resolved, 0.1)));
        ranking_sentence(&build_report(trials.clone()), &compare(&trials, None))
    };
    for (resolved, sentence) in [
        (6, "b is first: it resolves 75.0%, clearly more than c, a."),
        (14, "b resolves the most (75.0%), clearly more than a, but not clearly more than c."),
        (20, "c resolves the most (100%), clearly more than a, but not clearly more than b."),
    ] {
        assert_eq!(with_third(resolved).as_deref(), Some(sentence), "{resolved}");
    }
    let mut close = Vec::new();
    for at in 0..20 {
        for (arm, resolved) in [("a", 5), ("b", 7), ("c", 6)] {
            close.push(priced_trial(arm, &format!("t{at:02}"), at < resolved, 0.1));
        }
    }
    let said = ranking_sentence(&build_report(close.clone()), &compare(&close, None));
    let sentence =
        "No arm is clearly first: b resolves the most (35.0%), but not clearly more than c, a.";
    assert_eq!(said.as_deref(), Some(sentence));
    let two = two_arms();
    assert_eq!(ranking_sentence(&build_report(two.clone()), &compare(&two, None)), None);
}

/// Returns three arms and two controls on 30 tasks. A third of the trials were resumed, every
/// verdict of one arm is suspect, and each arm has failures for several reasons.
fn trials_with_many_findings() -> Vec<TrialResult> {
    let arms = ["tools/gpt-5.1", "tools/sonnet-5", "bash/gpt-5.1", "gold", "noop"];
    let mut trials = Vec::new();
    for task in 0..30_u64 {
        for (index, arm) in arms.into_iter().enumerate() {
            let resolved = match arm {
                "gold" => true,
                "noop" => false,
                _ => (task * 7 + index as u64 * 3) % 10 < 4 + index as u64,
            };
            let control = matches!(arm, "gold" | "noop");
            let mut result =
                priced_trial(arm, &format!("some-owner__some-project-{task}"), resolved, 0.25);
            result.is_control = control;
            let outcome = result.outcome.as_mut().unwrap();
            (outcome.malformed_calls, outcome.waited_seconds) = (0, 0.0);
            (outcome.spent.side_requests, outcome.spent.grace_answers) = (0, 0);
            if control {
                outcome.spent = Default::default();
                trials.push(result);
                continue;
            }
            if task % 3 == 0 {
                outcome.interruptions =
                    Interruptions { resumed_after: vec![1 + task], started_again: None };
            }
            if task % 10 == 9 && !resolved {
                outcome.ending =
                    Ending::Budget { budget: BudgetKind::Steps, scope: Default::default() };
            }
            result.facts.repo = Some(format!("some-owner/some-project-{}", task % 12));
            let verdict = result.verdict.as_mut().unwrap();
            if index == 2 {
                verdict.integrity = Integrity::Suspect;
            }
            if !resolved {
                let reasons = [
                    FailureReason::Assertion,
                    FailureReason::TypeOrAttributeError,
                    FailureReason::TimeOut,
                ];
                verdict.reason = Some(reasons[(task % 3) as usize]);
                verdict.exceptions.insert("AssertionError".to_owned(), 1 + task);
            }
            trials.push(result);
        }
    }
    trials
}

/// Returns the number of lines in a terminal of 80 columns.
fn count_terminal_lines(text: &str) -> usize {
    text.lines().map(|line| line.chars().count().div_ceil(80).max(1)).sum()
}

#[test]
fn text_of_three_arms_on_thirty_tasks_fits_on_a_screen() {
    let trials = trials_with_many_findings();
    let (report, comparison) = (build_report(trials.clone()), compare(&trials, None));
    let shown = report_text_with_comparison(&report, Some(&comparison), TextOptions::default());
    assert!(count_terminal_lines(&shown) <= 50, "{} lines:\n{shown}", count_terminal_lines(&shown));
    // The headline is in the first lines, and each control has one line.
    let first = shown.lines().next().unwrap();
    assert!(first.contains(" resolves the most ") || first.contains(" is first: "), "{shown}");
    let headlines: Vec<&str> =
        shown.lines().filter(|line| line.contains(" points more than ")).collect();
    assert_eq!(headlines.len(), 3, "{shown}");
    for line in [
        "control gold: 30/30 resolved, 100% of F2P passed\n",
        "control noop: 0/30 resolved, 0% of F2P passed\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(!shown.contains("│ gold"), "controls are listed separately: {shown}");
    // The suspect verdicts of an arm share one line, and each arm has a line about its failures.
    // Findings without room are counted.
    let suspect = "bash/gpt-5.1: 30 suspect verdicts, 18 of them resolved (the others: ";
    assert!(shown.contains(suspect), "{shown}");
    for arm in ["tools/gpt-5.1", "tools/sonnet-5", "bash/gpt-5.1"] {
        assert_eq!(shown.matches(&format!("{arm}: failed: ")).count(), 1, "{arm}: {shown}");
    }
    assert!(!shown.contains("some-project-17 "), "no line for each task: {shown}");
    let last = shown.lines().last().unwrap();
    assert!(last.starts_with("left out: tasks (--tasks)"), "{shown}");
    assert!(last.ends_with(" findings (--findings)"), "{shown}");
}

#[test]
fn text_shows_all_tasks_and_findings_on_request() {
    let report = build_report(trials_with_many_findings());
    let tasks = report_text(&report, TextOptions { show_tasks: true, ..TextOptions::default() });
    for task in 0..30 {
        let name = format!("some-project-{task} ");
        assert!(tasks.contains(&name), "{name}: {tasks}");
    }
    assert!(!tasks.contains("(--tasks)"));
    let all = report_text(&report, TextOptions { show_findings: true, ..TextOptions::default() });
    assert_eq!(all.matches(": the verdict is suspect").count(), 30, "{all}");
    assert_eq!(all.matches(": interrupted: resumed after step ").count(), 30, "{all}");
    assert!(!all.contains("(--findings)"));
    // Other formats have one line for each condition, too.
    let lines = findings(&report);
    let suspect: Vec<_> = lines.iter().filter(|line| line.contains("verdict is suspect")).collect();
    assert_eq!(suspect.len(), 1, "{lines:?}");
    assert!(suspect[0].contains("and 28 more (30 times): the verdict is suspect"), "{lines:?}");
}
