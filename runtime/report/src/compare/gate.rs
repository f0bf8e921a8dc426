//! Implements `compare --gate 'ARM >= ARM - POINTS'`, which checks that one arm's `resolved` is at
//! most that many points below another's.

use proctor_types::count_with_noun;

use super::comparison::{Comparison, GateReport, GateResult, Pair};
use crate::TrialResult;

/// An upper bound for the rounding error of a confidence interval's ends, in percentage points.
const ROUNDING_ERROR: f64 = 1e-9;
const QUOTES: [char; 2] = ['"', '\''];

/// A condition on two arms. The arms are identified by the names that the comparison shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// The gate as the user wrote it.
    pub text: String,
    /// The arm under test.
    pub arm: String,
    /// The arm to compare `arm` with.
    pub reference: String,
    /// How many percentage points of `resolved` the arm may be below the reference.
    pub margin_points: f64,
}

/// Why a text is not a valid gate, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateError {
    pub message: String,
    pub hint: String,
}

impl Gate {
    /// Parses `ARM >= ARM - POINTS`. A name may be quoted with `'` or `"`. `- POINTS` is optional
    /// and defaults to 0.
    ///
    /// # Errors
    /// Fails if the text does not have this form, or if it names an arm that is not in `names`.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self, GateError> {
        let (arm, right) = parse_left_side(text, names).ok_or_else(|| syntax_error(text))?;
        let (reference, points) =
            parse_right_side(right, names).ok_or_else(|| syntax_error(text))?;
        for name in [&arm, &reference] {
            if !names.contains(&name.as_str()) {
                return Err(unknown_arm_error(text, name, names));
            }
        }
        if arm == reference {
            let message = format!("--gate {text}: both sides are the arm `{arm}`");
            return Err(GateError { message, hint: "name two different arms".to_owned() });
        }
        Ok(Self { text: text.trim().to_owned(), arm, reference, margin_points: points })
    }

    /// Evaluates the gate. `comparison` must be the comparison of `trials`.
    pub fn evaluate(&self, comparison: &Comparison, trials: &[TrialResult]) -> GateReport {
        let mut pairs = comparison.pairs.iter().chain(&comparison.controls);
        let arm_result = pairs.find_map(|pair| self.result_for_arm(pair));
        let (tasks, difference, interval) = arm_result.unwrap_or((0, None, None));
        let missing = [&self.arm, &self.reference].map(|name| {
            let arm_trials: Vec<&TrialResult> =
                trials.iter().filter(|trial| trial.arm_name == *name).collect();
            (
                name,
                arm_trials.iter().filter(|trial| trial.verdict.is_none()).count(),
                arm_trials.len(),
            )
        });
        let missing: Vec<String> = missing
            .into_iter()
            .filter(|(_, missing, _)| *missing > 0)
            .map(|(name, missing, all)| {
                format!("{missing} of {} in {name}", count_with_noun(all, "trial"))
            })
            .collect();
        let result = match interval {
            _ if !missing.is_empty() => GateResult::Incomplete,
            Some([lower, _]) if lower * 100.0 >= -self.margin_points - ROUNDING_ERROR => {
                GateResult::Passed
            }
            Some([_, upper]) if upper * 100.0 < -self.margin_points - ROUNDING_ERROR => {
                GateResult::Failed
            }
            _ => GateResult::Undecided,
        };
        let points = |share: f64| format!("{:.1}", (share * 1000.0).round() / 10.0 + 0.0);
        let numbers = match (difference, interval) {
            (Some(difference), Some([lower, upper])) => format!(
                "difference {} points, 95% interval {} to {}, on {}",
                points(difference),
                points(lower),
                points(upper),
                count_with_noun(tasks, "shared task")
            ),
            _ => "no shared tasks".to_owned(),
        };
        let result_text = match result {
            GateResult::Passed => format!("passed: {numbers}"),
            GateResult::Failed => format!("failed: {numbers}"),
            GateResult::Undecided => format!("undecided: {numbers}"),
            GateResult::Incomplete => {
                format!("incomplete: no verdict for {}; {numbers}", missing.join(" and "))
            }
        };
        GateReport {
            gate: self.text.clone(),
            arm: self.arm.clone(),
            reference: self.reference.clone(),
            points: self.margin_points,
            result,
            tasks,
            difference,
            interval,
            sentence: format!("gate {}: {result_text}", self.text),
        }
    }

    /// Returns the number of tasks, the difference and its interval for the gate's two arms. The
    /// difference is the arm's rate minus the reference's, regardless of the order of the arms in
    /// `pair`.
    fn result_for_arm(&self, pair: &Pair) -> Option<(u64, Option<f64>, Option<[f64; 2]>)> {
        if pair.metric != "resolved" {
            return None;
        }
        if pair.a == self.arm && pair.b == self.reference {
            return Some((pair.tasks, pair.difference, pair.interval));
        }
        if pair.b == self.arm && pair.a == self.reference {
            // Subtract from zero so that reports never show -0.0.
            let turned = |value: f64| 0.0 - value;
            let interval = pair.interval.map(|[lower, upper]| [turned(upper), turned(lower)]);
            return Some((pair.tasks, pair.difference.map(turned), interval));
        }
        None
    }
}

fn syntax_error(text: &str) -> GateError {
    GateError {
        message: format!("--gate {text}: expected ARM >= ARM - POINTS"),
        hint: "example: --gate 'new >= old - 2'; quote names that contain spaces or operators: --gate '\"my arm\" >= \"gpt-5\" - 2'"
            .to_owned(),
    }
}

fn unknown_arm_error(text: &str, name: &str, names: &[&str]) -> GateError {
    // Several runs may have arms with the same name. The comparison adds these arms' ids to their
    // names.
    let same: Vec<&str> = names
        .iter()
        .copied()
        .filter(|known| known.strip_prefix(name).is_some_and(|rest| rest.starts_with(" (")))
        .collect();
    let (what, of) = match same.is_empty() {
        true => (format!("--gate {text}: unknown arm `{name}`"), names),
        false => (format!("--gate {text}: several arms have the name `{name}`"), &same[..]),
    };
    let known_names: Vec<String> = of.iter().map(|name| format!("`{name}`")).collect();
    GateError { message: what, hint: format!("arms: {}", known_names.join(", ")) }
}

/// Returns a quoted name and the text after it.
fn split_quoted_name(text: &str) -> Option<(&str, &str)> {
    let quote = QUOTES.into_iter().find(|quote| text.starts_with(*quote))?;
    text.strip_prefix(quote)?.split_once(quote)
}

/// Returns the first name and the text after the operator.
fn parse_left_side<'a>(text: &'a str, names: &[&str]) -> Option<(String, &'a str)> {
    let text = text.trim();
    if text.starts_with(QUOTES) {
        let (name, rest) = split_quoted_name(text)?;
        let rest = rest.trim_start().strip_prefix(">=")?;
        return Some((name.to_owned(), rest));
    }
    // A name may contain the operator, so use the first split that yields a known name.
    let splits =
        text.match_indices(">=").map(|(at, sign)| (text[..at].trim(), &text[at + sign.len()..]));
    let (name, rest) = splits
        .clone()
        .find(|(name, _)| names.contains(name))
        .or_else(|| splits.clone().find(|(name, _)| !name.is_empty()))?;
    Some((name.to_owned(), rest))
}

/// Returns the second name and the points.
fn parse_right_side(text: &str, names: &[&str]) -> Option<(String, f64)> {
    let text = text.trim();
    if text.starts_with(QUOTES) {
        let (name, rest) = split_quoted_name(text)?;
        let rest = rest.trim();
        let points = if rest.is_empty() { 0.0 } else { parse_points(rest.strip_prefix('-')?)? };
        return Some((name.to_owned(), points));
    }
    if names.contains(&text) {
        return Some((text.to_owned(), 0.0));
    }
    // A name may contain a minus sign, as in `gpt-5 - 2`. Split at the last minus sign before a
    // number, unless another split yields a known name.
    let splits = text.rmatch_indices('-').filter_map(|(at, _)| {
        Some((text[..at].trim(), parse_points(&text[at + 1..])?))
            .filter(|(name, _)| !name.is_empty())
    });
    let (name, points) = splits
        .clone()
        .find(|(name, _)| names.contains(name))
        .or_else(|| splits.clone().next())
        .or_else(|| Some((text, 0.0)).filter(|(name, _)| !name.is_empty()))?;
    Some((name.to_owned(), points))
}

fn parse_points(text: &str) -> Option<f64> {
    let text = text.trim();
    let text = text.strip_suffix("points").unwrap_or(text).trim_end();
    text.parse().ok().filter(|points: &f64| points.is_finite() && *points >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARM_NAMES: [&str; 7] =
        ["new", "old", "gpt-5", "gpt-5.1", "tools/steps=50", "my >= arm", "twice (0a1b)"];

    #[test]
    fn gate_parse_accepts_plain_and_quoted_names() {
        for (text, arm, reference, points) in [
            ("new >= old - 2", "new", "old", 2.0),
            ("new>=old-2.5", "new", "old", 2.5),
            ("  new  >=  old ", "new", "old", 0.0),
            ("new >= gpt-5", "new", "gpt-5", 0.0),
            ("new >= gpt-5 - 1", "new", "gpt-5", 1.0),
            ("gpt-5.1>=gpt-5-1e-1", "gpt-5.1", "gpt-5", 0.1),
            ("\"gpt-5.1\" >= 'gpt-5' - 3", "gpt-5.1", "gpt-5", 3.0),
            ("tools/steps=50 >= new - 0", "tools/steps=50", "new", 0.0),
            ("my >= arm >= old - 1", "my >= arm", "old", 1.0),
            ("'my >= arm' >= old - 1 points", "my >= arm", "old", 1.0),
            ("old >= my >= arm - 4", "old", "my >= arm", 4.0),
        ] {
            let gate = Gate::parse(text, &ARM_NAMES).unwrap();
            let found = (gate.arm.as_str(), gate.reference.as_str(), gate.margin_points);
            assert_eq!(found, (arm, reference, points), "{text}");
        }
    }

    #[test]
    fn gate_parse_error_has_an_example() {
        for text in ["", "new", "new > old", ">= old", "new >=", "'new >= old - 2", "'new' old"] {
            let error = Gate::parse(text, &ARM_NAMES).unwrap_err();
            assert!(error.message.contains("expected ARM >= ARM"), "{text}: {error:?}");
        }
        for text in [
            "new >= odl - 2",
            "nwe >= old - 2",
            "new >= old - x",
            "new >= old - -1",
            "new >= old - NaN",
        ] {
            let error = Gate::parse(text, &ARM_NAMES).unwrap_err();
            assert!(error.message.contains("unknown arm"), "{text}: {error:?}");
            assert!(error.hint.contains("`gpt-5.1`"), "{error:?}");
        }
        let error = Gate::parse("twice >= new - 1", &ARM_NAMES).unwrap_err();
        assert!(error.message.contains("several arms have the name `twice`"), "{error:?}");
        assert!(error.hint.contains("`twice (0a1b)`") && !error.hint.contains("gpt"), "{error:?}");
        assert!(
            Gate::parse("new >= new - 1", &ARM_NAMES).unwrap_err().message.contains("both sides")
        );
    }
}
