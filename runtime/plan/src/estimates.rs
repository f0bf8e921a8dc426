//! Estimates for a plan before it starts: the maximum cost and time, the likely use according to
//! earlier runs of the same arms, and the differences that the plan can detect.

use std::{collections::BTreeMap, fs, path::Path};

use proctor_gateway::PriceTable;
use proctor_record::RunDir;
use proctor_statistics::{PowerTarget, detectable_difference, detectable_mean_difference};
use proctor_types::{
    Arm, ArmId, Outcome, RunRecord, ShippedTable, Spending, TrialId, Usage, UserError,
    count_with_noun,
};
use serde::Deserialize;

static POWER_DESIGN: ShippedTable<PowerDesign> =
    ShippedTable::new("tables/power.toml", include_str!("../../../configs/tables/power.toml"));

static PUBLISHED_TOKENS: ShippedTable<PublishedTokens> = ShippedTable::new(
    "tables/published-tokens.toml",
    include_str!("../../../configs/tables/published-tokens.toml"),
);

/// Maximum number of earlier runs to read, latest first.
const MAX_EARLIER_RUNS: usize = 20;
const MAX_TRIALS_PER_ARM: usize = 50;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PowerDesign {
    disagreement: f64,
    between_attempts: f64,
    advised_attempts: u32,
}

/// The table in `configs/tables/published-tokens.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedTokens {
    trial: Vec<PublishedTrial>,
}

/// The published mean token use of a trial with one scaffold and one of several models.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedTrial {
    source: String,
    scaffold: String,
    models: Vec<String>,
    input: u64,
    output: u64,
}

impl PublishedTokens {
    fn find_trial(&self, arm: &Arm) -> Option<&PublishedTrial> {
        let name = arm.model.as_ref()?.name.as_str();
        let bare = name.rsplit('/').next().unwrap_or(name);
        let is_of = |trial: &&PublishedTrial| {
            trial.scaffold == arm.scaffold && trial.models.iter().any(|model| model == bare)
        };
        self.trial.iter().find(is_of)
    }
}

/// Assumed number of requests per trial, because the sources do not publish this number. It only
/// selects the price tier.
const ASSUMED_REQUESTS_PER_TRIAL: u64 = 100;

/// The size of a plan.
pub struct PlanSize<'a> {
    pub arms: &'a [Arm],
    pub task_count: usize,
    pub attempts: u32,
    pub jobs: usize,
}

/// Total resource use of an arm's earlier trials.
#[derive(Debug, Default, Clone, Copy)]
struct EarlierUsage {
    trial_count: u64,
    spending: Spending,
    total_seconds: f64,
    total_bytes: f64,
}

impl EarlierUsage {
    /// Returns the cost in US dollars. Uses current prices, because recorded prices may be outdated
    /// or missing. `None` if the model has no price.
    fn cost(&self, arm: &Arm, prices: &PriceTable) -> Option<f64> {
        let Some(model) = &arm.model else { return Some(0.0) };
        let price = prices.price_for(model)?;
        let spent = &self.spending;
        let usage = Usage {
            input: spent.input_tokens,
            output: spent.output_tokens,
            cached: spent.cached_tokens,
            reasoning: spent.classes.reasoning.unwrap_or_default(),
            estimated: spent.estimated,
            classes: spent.classes,
        };
        let after = Usage {
            input: spent.grace_input_tokens,
            output: spent.grace_output_tokens,
            ..Usage::default()
        };
        let own = price.estimate_cost(&usage, spent.steps + spent.side_requests);
        Some(own + price.estimate_cost(&after, spent.grace_answers))
    }
}

/// Returns the lines to show below a plan. `runs` is the directory of earlier runs.
pub fn estimate_lines(size: &PlanSize<'_>, runs: &Path) -> Result<Vec<String>, UserError> {
    let prices = PriceTable::shipped().map_err(|fault| UserError::new(fault.to_string()))?;
    let design = POWER_DESIGN.get().map_err(UserError::new)?;
    let published = PUBLISHED_TOKENS.get().map_err(UserError::new)?;
    let mut lines = vec![worst_case_line(size, &prices)];
    lines.extend(expected_cost_line(size, &prices, published));
    lines.push(time_line(size));
    let (needed, free) = (earlier_runs_estimate(size, runs, &prices), free_disk_space(runs));
    lines.extend(needed.as_ref().map(|(line, _)| line.clone()));
    lines.extend(free.map(|free| format!("disk: {:.1} GB free", free / 1e9)));
    lines.extend(disk_warning(needed.map(|(_, bytes)| bytes), free, runs));
    lines.extend(power_line(size, design));
    Ok(lines)
}

/// Returns a trial's maximum cost in US dollars, or `None` if its limits do not bound the cost.
fn max_trial_cost(arm: &Arm, prices: &PriceTable) -> Option<f64> {
    let Some(model) = &arm.model else { return Some(0.0) };
    let price = prices.price_for(model)?;
    // Use the highest rates: reasoning, cache writes and price tiers may cost more than the base
    // prices.
    let (input, output) = price.max_rates();
    if input.max(output) == 0.0 {
        return Some(0.0);
    }
    let million = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
    let budget = &arm.budget;
    let window = model.context_window.or_else(|| prices.find_model(&model.name)?.context_window);
    let by_steps = match (budget.steps, window, model.max_output_tokens) {
        (Some(steps), Some(window), answer) => {
            let answer = answer.unwrap_or(window);
            Some(steps as f64 * (million(window, input) + million(answer, output)))
        }
        _ => None,
    };
    let both = budget.input_tokens.zip(budget.output_tokens);
    let bounds = [
        budget.cost_usd,
        budget.total_tokens.map(|tokens| million(tokens, input.max(output))),
        both.map(|(read, written)| million(read, input) + million(written, output)),
        by_steps,
    ];
    bounds.into_iter().flatten().min_by(f64::total_cmp)
}

fn worst_case_line(size: &PlanSize<'_>, prices: &PriceTable) -> String {
    let trials = (size.task_count * size.attempts as usize) as f64;
    let of_run = size.arms.iter().find_map(|arm| arm.budget.run?.cost_usd);
    let (mut sum, mut unbounded) = (0.0, Vec::<&Arm>::new());
    for arm in size.arms {
        let shared = arm.budget.arm.and_then(|shared| shared.cost_usd);
        let own = max_trial_cost(arm, prices).map(|one| one * trials);
        match [own, shared].into_iter().flatten().min_by(f64::total_cmp) {
            Some(most) => sum += most,
            None => unbounded.push(arm),
        }
    }
    match (unbounded.first(), of_run) {
        (_, Some(limit)) if !unbounded.is_empty() || limit < sum => {
            format!("worst case: ${limit:.2}, the run's limit")
        }
        (None, _) => format!("worst case: ${sum:.2}, if every trial reaches its limit"),
        (Some(arm), _) => {
            let unpriced = unbounded.iter().find(|arm| {
                arm.model.as_ref().is_some_and(|model| prices.price_for(model).is_none())
            });
            let price = unpriced.map_or_else(String::new, |arm| {
                format!(", which needs a price for the model of `{}`", arm.name)
            });
            format!(
                "worst case: unbounded: the cost of {} has no limit (`{}`); set budget.cost_usd{price}",
                count_with_noun(unbounded.len(), "arm"),
                arm.name
            )
        }
    }
}

/// Returns a line with the plan's cost, on the assumption that trials use the token counts
/// published for their scaffolds and models. `None` if nothing is published for any arm.
fn expected_cost_line(
    size: &PlanSize<'_>,
    prices: &PriceTable,
    published_tokens: &PublishedTokens,
) -> Option<String> {
    let trials = (size.task_count * size.attempts as usize) as f64;
    let (mut sum, mut known) = (0.0, 0);
    let mut sources: Vec<&str> = Vec::new();
    for arm in size.arms {
        let Some(trial) = published_tokens.find_trial(arm) else { continue };
        let Some(price) = arm.model.as_ref().and_then(|model| prices.price_for(model)) else {
            continue;
        };
        let usage = Usage { input: trial.input, output: trial.output, ..Usage::default() };
        sum += price.estimate_cost(&usage, ASSUMED_REQUESTS_PER_TRIAL) * trials;
        known += 1;
        if !sources.contains(&trial.source.as_str()) {
            sources.push(&trial.source);
        }
    }
    let asking = size.arms.iter().filter(|arm| arm.model.is_some()).count();
    (known > 0).then(|| {
        let of =
            if known < asking { format!(" for {known} of {asking} arms") } else { String::new() };
        format!(
            "expected: ${sum:.2}{of}, based on the token counts published by {}, without a prompt cache",
            sources.join(" and ")
        )
    })
}

fn time_line(size: &PlanSize<'_>) -> String {
    let each = (size.task_count * size.attempts as usize) as f64;
    let limits: Option<Vec<f64>> = size.arms.iter().map(|arm| arm.budget.wall_seconds).collect();
    match limits {
        Some(limits) => {
            // More parallel trials do not make a single trial faster.
            let longest = limits.iter().copied().fold(0.0, f64::max);
            let seconds =
                (limits.iter().sum::<f64>() * each / size.jobs.max(1) as f64).max(longest);
            format!(
                "time: at most {} for agents, {} in parallel",
                format_duration(seconds),
                count_with_noun(size.jobs, "trial")
            )
        }
        None => "time: unbounded: not every arm has budget.wall_seconds".to_owned(),
    }
}

/// Returns a line with an estimate from earlier runs of the same arms, scaled to the planned number
/// of trials. Also returns the estimated disk space in bytes.
fn earlier_runs_estimate(
    size: &PlanSize<'_>,
    runs: &Path,
    prices: &PriceTable,
) -> Option<(String, f64)> {
    let found = read_earlier_usage(size.arms, runs);
    if found.is_empty() {
        return None;
    }
    let each = (size.task_count * size.attempts as usize) as f64;
    let (mut seconds, mut bytes, mut trials) = (0.0, 0.0, 0);
    let mut cost: Option<f64> = None;
    let mut unpriced: Vec<&str> = Vec::new();
    for (arm, one) in size.arms.iter().filter_map(|arm| Some((arm, found.get(&arm.id)?))) {
        let count = one.trial_count.max(1) as f64;
        seconds += one.total_seconds / count * each;
        bytes += one.total_bytes / count * each;
        trials += one.trial_count;
        match one.cost(arm, prices) {
            Some(known) => cost = Some(cost.unwrap_or(0.0) + known / count * each),
            None => unpriced.push(arm.name.as_str()),
        }
    }
    let known = match found.len() == size.arms.len() {
        true => String::new(),
        false => format!(" for {} of {}", found.len(), count_with_noun(size.arms.len(), "arm")),
    };
    let line = format!(
        "estimate from {} in {}: {}, {}, {:.0} MB{known}",
        count_with_noun(trials, "earlier trial"),
        runs.display(),
        format_cost(cost, &unpriced),
        format_duration(seconds / size.jobs.max(1) as f64),
        bytes / 1e6
    );
    Some((line, bytes))
}

/// Formats the cost. `unpriced_arms` lists the arms whose cost is unknown.
fn format_cost(cost: Option<f64>, unpriced_arms: &[&str]) -> String {
    // Arms that call no model cost nothing. If the cost of all other arms is unknown, don't show
    // $0.
    let cost = cost.filter(|cost| unpriced_arms.is_empty() || *cost > 0.0);
    match (cost, unpriced_arms.first()) {
        (None, _) => "cost unknown (no price for the model)".to_owned(),
        (Some(cost), None) => format!("about ${cost:.2}"),
        (Some(cost), Some(arm)) => format!(
            "about ${cost:.2}, excluding {} without a price (`{arm}`)",
            count_with_noun(unpriced_arms.len(), "arm")
        ),
    }
}

fn read_earlier_usage(arms: &[Arm], runs: &Path) -> BTreeMap<ArmId, EarlierUsage> {
    let mut folders: Vec<_> = fs::read_dir(runs).into_iter().flatten().flatten().collect();
    folders.retain(|entry| entry.path().join("run.json").is_file());
    folders.sort_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok());
    let mut found: BTreeMap<ArmId, EarlierUsage> = BTreeMap::new();
    for folder in folders.iter().rev().take(MAX_EARLIER_RUNS) {
        let Ok(run) = RunDir::open_read_only(folder.path()) else { continue };
        let Ok(record): Result<RunRecord, _> = run.read_run() else { continue };
        for arm in arms.iter().filter(|arm| record.arms.iter().any(|one| one.id == arm.id)) {
            let attempts = (1..=record.attempts)
                .flat_map(|attempt| record.tasks.iter().map(move |task| (task, attempt)));
            for (task, attempt) in attempts.take(MAX_TRIALS_PER_ARM) {
                let id = TrialId { task: task.task.id.clone(), arm: arm.id.clone(), attempt };
                let dir = run.trial_dir(&id);
                let Ok(Some(outcome)): Result<Option<Outcome>, _> = dir.read_outcome() else {
                    continue;
                };
                if outcome.ending.is_fault() {
                    continue;
                }
                let taken = found.entry(arm.id.clone()).or_default();
                taken.trial_count += 1;
                taken.spending.merge(&outcome.spent);
                taken.total_seconds += outcome.wall_seconds;
                taken.total_bytes += folder_size(dir.path());
            }
        }
    }
    found
}

fn folder_size(folder: &Path) -> f64 {
    fs::read_dir(folder).into_iter().flatten().flatten().fold(0.0, |sum, entry| {
        sum + match entry.metadata() {
            Ok(data) if data.is_dir() => folder_size(&entry.path()),
            Ok(data) => data.len() as f64,
            Err(_) => 0.0,
        }
    })
}

/// Returns the free space, in bytes, on the disk where the run will be stored.
fn free_disk_space(runs: &Path) -> Option<f64> {
    let there = runs.ancestors().find(|folder| folder.is_dir());
    let there = there.unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(there).ok()?;
    Some(stat.f_bavail as f64 * stat.f_frsize as f64)
}

/// Returns a warning if the plan needs more disk space than is free. `needed_bytes` is `None` if
/// the arms have not run before.
fn disk_warning(needed_bytes: Option<f64>, free_bytes: Option<f64>, runs: &Path) -> Option<String> {
    let (needed, free) = (needed_bytes?, free_bytes?);
    (needed > free).then(|| {
        format!(
            "warning: the record of this run will take about {:.1} GB (estimated from earlier \
             trials), but {} has {:.1} GB free; free some space, or choose another folder with \
             --out",
            needed / 1e9,
            runs.display(),
            free / 1e9
        )
    })
}

/// Returns a line with the smallest difference between two arms that the plan can detect, and the
/// effect of more attempts. The calculation assumes the statistical test of `compare`, including
/// the adjustment for several pairs. Controls are compared with other arms, but not with each
/// other.
fn power_line(size: &PlanSize<'_>, design: &PowerDesign) -> Option<String> {
    let arms = size.arms.iter().filter(|arm| !arm.is_control()).count() as u64;
    if arms < 2 {
        return None;
    }
    let wanted = PowerTarget::for_comparisons(arms * (arms - 1) / 2);
    let shown = |attempts: u32| {
        let tasks = size.task_count as u64;
        let found = match attempts {
            0 | 1 => detectable_difference(tasks, design.disagreement, wanted),
            several => {
                let chance = design.between_attempts;
                let variance = design.disagreement * (1.0 - chance + chance / f64::from(several));
                detectable_mean_difference(tasks, variance.sqrt(), wanted)
            }
        };
        found.filter(|difference| *difference < 1.0).map(|difference| difference * 100.0)
    };
    let with = format!(
        "{} x {}",
        count_with_noun(size.task_count, "task"),
        count_with_noun(size.attempts, "attempt")
    );
    let Some(smallest) = shown(size.attempts) else {
        return Some(format!("power: {with} cannot detect any difference; add tasks"));
    };
    let between = if arms > 2 { format!(" between any 2 of {arms} arms") } else { String::new() };
    let advised = design.advised_attempts;
    let advice = shown(advised)
        .filter(|_| size.attempts < advised)
        .map_or_else(String::new, |less| format!(" ({less:.1} with {advised} attempts)"));
    Some(format!(
        "power: {with} can detect differences of {smallest:.1} points or more{between}{advice}"
    ))
}

fn format_duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_arms(lines: &[&str]) -> Vec<Arm> {
        let text: String = lines
            .iter()
            .enumerate()
            .map(|(index, line)| {
                format!("[[arms]]\nname = 'a{index}'\nscaffold = 'tools'\nmodel = 'm'\nbudget = {{ {line} }}\n")
            })
            .collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        let model = "[models.m]\nbase_url = 'http://h'\nname = 'm'\nprice = { input = 1, output = 10 }\n\
                     context_window = 1000\nmax_output_tokens = 100\n";
        fs::write(file.path(), format!("tasks = []\n{text}{model}")).unwrap();
        let (file, written) = proctor_config::read_config(file.path(), &[]).unwrap();
        let scaffold = |name: &str| {
            proctor_scaffolds::builtin_scaffold(name)
                .map_err(|error| UserError::new(error.to_string()))
        };
        let scaffolds = proctor_scaffolds::names();
        let known = proctor_config::NameLookup {
            find_scaffold: &scaffold,
            scaffold_names: scaffolds,
            validate_script: &|_| Ok(()),
        };
        proctor_config::resolve_config(file, &written, &known).unwrap().arms
    }

    fn plan_lines(arms: &[Arm], tasks: usize, attempts: u32) -> String {
        let size = PlanSize { arms, task_count: tasks, attempts, jobs: 2 };
        estimate_lines(&size, Path::new("/nowhere")).unwrap().join("\n")
    }

    #[test]
    fn worst_case_line_uses_the_limits() {
        for (line, said) in [
            ("cost_usd = 2", "$20.00"),
            ("total_tokens = 100000", "$10.00"),
            ("input_tokens = 1000000, output_tokens = 100000, cost_usd = 9", "$20.00"),
            // 100 steps with 1000 input tokens and 100 output tokens each cost $0.20.
            ("steps = 100", "$2.00"),
            ("cost_usd = 2, arm = { cost_usd = 3 }", "$3.00"),
            ("input_tokens = 5", "unbounded: the cost of 1 arm has no limit (`a0`)"),
        ] {
            let said_now = plan_lines(&parse_arms(&[line]), 5, 2);
            assert!(said_now.contains(&format!("worst case: {said}")), "{line}: {said_now}");
        }
        // The advice to set a price appears only if the price is missing.
        let mut arms = parse_arms(&["input_tokens = 5"]);
        assert!(!plan_lines(&arms, 5, 2).contains("needs a price"));
        if let Some(model) = &mut arms[0].model {
            model.price = None;
        }
        assert!(plan_lines(&arms, 5, 2).contains("needs a price for the model of `a0`"));
        let noop = arms_without_model();
        assert!(plan_lines(&noop, 5, 2).contains("worst case: $0.00"));
        let wall = plan_lines(&parse_arms(&["wall_seconds = 3600, steps = 1"]), 5, 2);
        assert!(wall.contains("at most 5.0 h for agents, 2 trials in parallel"), "{wall}");
    }

    #[test]
    fn expected_cost_uses_published_token_counts() {
        let mut two = parse_arms(&["cost_usd = 9", "cost_usd = 8"]);
        assert!(!plan_lines(&two, 5, 2).contains("expected:"));
        two[0].scaffold = "codex".to_owned();
        two[0].model.as_mut().unwrap().name = "openai/gpt-5.1-codex".to_owned();
        // 6.3 million input tokens at $1 per million and 39,000 output tokens at $10 per million:
        // $6.69 for each of ten trials.
        let said = plan_lines(&two, 5, 2);
        assert!(
            said.contains("expected: $66.90 for 1 of 2 arms, based on the token counts published by FeatureBench"),
            "{said}"
        );
        let said = plan_lines(&two[..1], 5, 2);
        assert!(
            said.contains("worst case: $90.00") && said.contains("expected: $66.90, based"),
            "{said}"
        );
    }

    /// Returns a list with one arm, which calls no model.
    fn arms_without_model() -> Vec<Arm> {
        let mut arms = parse_arms(&["steps = 1"]);
        arms[0].model = None;
        arms
    }

    #[test]
    fn earlier_runs_estimate_uses_current_prices() {
        let prices = PriceTable::shipped().unwrap();
        let spent = Spending {
            steps: 10,
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            unpriced: true,
            ..Spending::default()
        };
        let taken = EarlierUsage { trial_count: 1, spending: spent, ..EarlierUsage::default() };
        let mut arm = parse_arms(&["steps = 1"]).remove(0);
        // The tokens cost $1 for input and $1 for output at current prices, although the trial was
        // recorded without a price.
        assert!((taken.cost(&arm, &prices).unwrap() - 2.0).abs() < 1e-9);
        arm.model.as_mut().unwrap().price = None;
        assert_eq!(taken.cost(&arm, &prices), None);
        assert!(format_cost(None, &["a"]).contains("unknown"));
        assert!(format_cost(Some(0.0), &["a"]).contains("unknown"));
        assert_eq!(format_cost(Some(0.5), &[]), "about $0.50");
        assert!(format_cost(Some(0.5), &["a"]).contains("excluding 1 arm without a price (`a`)"));
    }

    #[test]
    fn disk_warning_appears_if_space_is_too_small() {
        let runs = Path::new("runs");
        let said = disk_warning(Some(3e9), Some(2e9), runs).unwrap();
        assert!(
            said.contains("3.0 GB") && said.contains("2.0 GB") && said.contains("--out"),
            "{said}"
        );
        assert_eq!(disk_warning(Some(1e9), Some(2e9), runs), None);
        assert_eq!(disk_warning(None, Some(0.0), runs), None, "the needed space is unknown");
    }

    #[test]
    fn power_grows_with_tasks_and_attempts() {
        let two = parse_arms(&["steps = 1", "steps = 2"]);
        let said = plan_lines(&two, 200, 1);
        // Computed with SciPy: McNemar's exact test has a power of 80% at 9.1 points if the arms
        // disagree on a fifth of the tasks.
        assert!(
            said.contains("200 tasks x 1 attempt can detect differences of 9.1 points"),
            "{said}"
        );
        assert!(said.contains("or more (7.3 with 3 attempts)"), "{said}");
        assert!(!plan_lines(&two, 200, 3).contains("with 3 attempts"));
        assert!(plan_lines(&two, 1, 1).contains("1 task x 1 attempt cannot detect any difference"));
        assert!(!plan_lines(&two[..1], 200, 1).contains("power"), "a single arm has no comparison");
    }

    #[test]
    fn power_adjusts_for_arms_and_ignores_controls() {
        let lines: Vec<String> = (1..=3).map(|steps| format!("steps = {steps}")).collect();
        let mut three = parse_arms(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let said = plan_lines(&three, 200, 1);
        assert!(
            said.contains("differences of 10.4 points or more between any 2 of 3 arms"),
            "{said}"
        );
        three[2].control = true;
        assert_eq!(
            plan_lines(&three, 200, 1).lines().last(),
            plan_lines(&three[..2], 200, 1).lines().last()
        );
        three[2].control = false;
        three[2].scaffold = "gold".to_owned();
        assert!(plan_lines(&three, 200, 1).contains("differences of 9.1 points"));
    }
}
