//! Whether a pull request is about a new feature, by rules.

use super::settings::IntentSettings;

/// What was decided, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intent {
    pub(super) feature: bool,
    pub(super) why: String,
}

pub(super) fn intent(
    title: &str,
    body: &str,
    labels: &[String],
    settings: &IntentSettings,
) -> Intent {
    let has = |list: &[String], word: &str| list.iter().any(|it| it.eq_ignore_ascii_case(word));
    let decided = |feature: bool, why: String| Intent { feature, why };
    if let Some(kind) = conventional(title) {
        let said = || format!("its title has the type {kind:?}");
        if has(&settings.feature_types, kind) {
            return decided(true, said());
        }
        if has(&settings.other_types, kind) {
            return decided(false, said());
        }
    }
    // A label that speaks against counts first: `enhancement` is put on much.
    for (list, feature) in [(&settings.other_labels, false), (&settings.feature_labels, true)] {
        if let Some(label) = labels.iter().find(|label| has(list, label)) {
            return decided(feature, format!("it has the label {label:?}"));
        }
    }
    for (text, place) in [(title, "title"), (body, "text")] {
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            let feature = has(&settings.feature_words, word);
            if feature || has(&settings.other_words, word) {
                return decided(feature, format!("its {place} says {word:?}"));
            }
        }
    }
    decided(true, "nothing speaks against it".to_owned())
}

/// The type of `fix: x`, `fix(core): x`, `fix!: x`.
fn conventional(title: &str) -> Option<&str> {
    let (head, _) = title.split_once(':')?;
    let head = head.trim_end_matches('!');
    let kind = head.split_once('(').map_or(head, |(kind, _)| kind);
    (!kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphabetic())).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::{super::settings::PullSettings, *};

    #[test]
    fn the_first_thing_that_says_something_decides() {
        let settings = &PullSettings::get().unwrap().intent;
        let label = |name: &str| vec![name.to_owned()];
        for (title, body, labels, feature, why) in [
            ("feat(cli)!: rename x", "", vec![], true, "the type \"feat\""),
            ("fix: add a check", "", vec![], false, "the type \"fix\""),
            ("Fix x", "", label("Enhancement"), true, "the label \"Enhancement\""),
            ("Add x", "", label("bug"), false, "the label \"bug\""),
            ("Add x to fix y", "", vec![], true, "title says \"Add\""),
            ("Bump black from 1 to 2", "", vec![], false, "title says \"Bump\""),
            ("Lazy files", "It introduces lazy files.", vec![], true, "text says \"introduces\""),
            ("Lazy files", "", vec![], true, "nothing speaks against it"),
        ] {
            let found = intent(title, body, &labels, settings);
            assert!(found.feature == feature && found.why.contains(why), "{title}: {found:?}");
        }
    }
}
