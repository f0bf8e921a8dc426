//! Decides by rules whether a pull request adds a feature.

use super::settings::IntentSettings;

/// Whether a pull request adds a feature, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intent {
    pub(super) is_feature: bool,
    pub(super) reason: String,
}

pub(super) fn classify_intent(
    title: &str,
    body: &str,
    labels: &[String],
    settings: &IntentSettings,
) -> Intent {
    let has = |list: &[String], word: &str| list.iter().any(|it| it.eq_ignore_ascii_case(word));
    let decided = |feature: bool, why: String| Intent { is_feature: feature, reason: why };
    if let Some(kind) = commit_type(title) {
        let said = || format!("its title has the type {kind:?}");
        if has(&settings.feature_types, kind) {
            return decided(true, said());
        }
        if has(&settings.other_types, kind) {
            return decided(false, said());
        }
    }
    // Check the non-feature labels first, because projects use the label `enhancement` for many
    // purposes.
    for (list, feature) in [(&settings.other_labels, false), (&settings.feature_labels, true)] {
        if let Some(label) = labels.iter().find(|label| has(list, label)) {
            return decided(feature, format!("it has the label {label:?}"));
        }
    }
    for (text, place) in [(title, "title"), (body, "text")] {
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            let feature = has(&settings.feature_words, word);
            if feature || has(&settings.other_words, word) {
                return decided(feature, format!("its {place} contains {word:?}"));
            }
        }
    }
    decided(true, "no rule rejects it".to_owned())
}

/// Returns the type in a conventional commit title: `fix` for `fix: x`, `fix(core): x` and `fix!:
/// x`.
fn commit_type(title: &str) -> Option<&str> {
    let (head, _) = title.split_once(':')?;
    let head = head.trim_end_matches('!');
    let kind = head.split_once('(').map_or(head, |(kind, _)| kind);
    (!kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphabetic())).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::{super::settings::PullSettings, *};

    #[test]
    fn intent_follows_first_matching_rule() {
        let settings = &PullSettings::get().unwrap().intent;
        let label = |name: &str| vec![name.to_owned()];
        for (title, body, labels, feature, why) in [
            ("feat(cli)!: rename x", "", vec![], true, "the type \"feat\""),
            ("fix: add a check", "", vec![], false, "the type \"fix\""),
            ("Fix x", "", label("Enhancement"), true, "the label \"Enhancement\""),
            ("Add x", "", label("bug"), false, "the label \"bug\""),
            ("Add x to fix y", "", vec![], true, "title contains \"Add\""),
            ("Bump black from 1 to 2", "", vec![], false, "title contains \"Bump\""),
            (
                "Lazy files",
                "It introduces lazy files.",
                vec![],
                true,
                "text contains \"introduces\"",
            ),
            ("Lazy files", "", vec![], true, "no rule rejects it"),
        ] {
            let classified = classify_intent(title, body, &labels, settings);
            assert!(
                classified.is_feature == feature && classified.reason.contains(why),
                "{title}: {classified:?}"
            );
        }
    }
}
