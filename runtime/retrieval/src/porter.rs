//! Porter's stemmer. It differs from the paper in two rules, in the same way as the author's own
//! code and Lucene: `bli` becomes `ble`, and `logi` becomes `log`. The Snowball crates implement
//! the later English stemmer, which produces different stems.

/// Returns the stem of a lower-case word.
pub(crate) fn stem(word: &str) -> String {
    // Words of one or two letters are not stemmed.
    if word.chars().nth(2).is_none() {
        return word.to_owned();
    }
    Word::new(word).stem()
}

struct Word {
    letters: Vec<char>,
    /// Length of the stem in front of the ending that matched last.
    stem_length: usize,
}

type Rule = (&'static str, &'static str);

const STEP_2: &[Rule] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
];

const STEP_3: &[Rule] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const STEP_4: &[&str] = &[
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
    "ism", "ate", "iti", "ous", "ive", "ize",
];

impl Word {
    fn new(word: &str) -> Self {
        Self { letters: word.chars().collect(), stem_length: 0 }
    }

    fn stem(mut self) -> String {
        self.step_1ab();
        if self.match_ending("y") && self.has_vowel() {
            self.letters[self.stem_length] = 'i';
        }
        self.apply_first_rule(STEP_2);
        self.apply_first_rule(STEP_3);
        self.step_4();
        self.step_5();
        self.letters.into_iter().collect()
    }

    fn is_consonant(&self, at: usize) -> bool {
        match self.letters[at] {
            'a' | 'e' | 'i' | 'o' | 'u' => false,
            'y' => at == 0 || !self.is_consonant(at - 1),
            _ => true,
        }
    }

    /// Returns the number of vowel-consonant sequences in the stem.
    fn measure(&self) -> usize {
        let kinds: Vec<bool> = (0..self.stem_length).map(|at| self.is_consonant(at)).collect();
        kinds.windows(2).filter(|pair| !pair[0] && pair[1]).count()
    }

    fn has_vowel(&self) -> bool {
        (0..self.stem_length).any(|at| !self.is_consonant(at))
    }

    /// Returns whether the word ends in two equal consonants.
    fn ends_with_double_consonant(&self) -> bool {
        let n = self.letters.len();
        n >= 2 && self.letters[n - 1] == self.letters[n - 2] && self.is_consonant(n - 1)
    }

    /// Returns whether the letters up to `end` are consonant, vowel, consonant, and the last letter
    /// is not w, x or y.
    fn is_cvc(&self, end: usize) -> bool {
        end >= 3
            && self.is_consonant(end - 1)
            && !self.is_consonant(end - 2)
            && self.is_consonant(end - 3)
            && !matches!(self.letters[end - 1], 'w' | 'x' | 'y')
    }

    fn match_ending(&mut self, ending: &str) -> bool {
        // Compare from the end, because the last letter nearly always decides. This needs no
        // allocation.
        let n = self.letters.len();
        let fits = ending.len() <= n
            && ending.chars().rev().zip(self.letters.iter().rev()).all(|(a, b)| a == *b);
        if fits {
            self.stem_length = n - ending.len();
        }
        fits
    }

    fn replace_ending(&mut self, ending: &str) {
        self.letters.truncate(self.stem_length);
        self.letters.extend(ending.chars());
    }

    fn step_1ab(&mut self) {
        if self.letters.last() == Some(&'s') {
            if self.match_ending("sses") {
                self.replace_ending("ss");
            } else if self.match_ending("ies") {
                self.replace_ending("i");
            } else if !self.match_ending("ss") {
                self.letters.pop();
            }
        }
        if self.match_ending("eed") {
            if self.measure() > 0 {
                self.letters.pop();
            }
            return;
        }
        if !((self.match_ending("ed") || self.match_ending("ing")) && self.has_vowel()) {
            return;
        }
        self.replace_ending("");
        if self.match_ending("at") {
            self.replace_ending("ate");
        } else if self.match_ending("bl") {
            self.replace_ending("ble");
        } else if self.match_ending("iz") {
            self.replace_ending("ize");
        } else if self.ends_with_double_consonant() {
            if !matches!(self.letters.last(), Some('l' | 's' | 'z')) {
                self.letters.pop();
            }
        } else {
            self.stem_length = self.letters.len();
            if self.measure() == 1 && self.is_cvc(self.stem_length) {
                self.letters.push('e');
            }
        }
    }

    /// Applies the first rule whose ending matches. Later rules are not tried, even if that rule's
    /// condition is not met.
    fn apply_first_rule(&mut self, rules: &[Rule]) {
        for (ending, new) in rules {
            if self.match_ending(ending) {
                if self.measure() > 0 {
                    self.replace_ending(new);
                }
                return;
            }
        }
    }

    fn step_4(&mut self) {
        for ending in STEP_4 {
            if !self.match_ending(ending) {
                continue;
            }
            let fits = *ending != "ion"
                || self
                    .stem_length
                    .checked_sub(1)
                    .is_some_and(|last| matches!(self.letters[last], 's' | 't'));
            if fits && self.measure() > 1 {
                self.replace_ending("");
            }
            return;
        }
    }

    fn step_5(&mut self) {
        if self.letters.last() == Some(&'e') {
            self.stem_length = self.letters.len() - 1;
            let measure = self.measure();
            if measure > 1 || (measure == 1 && !self.is_cvc(self.stem_length)) {
                self.letters.pop();
            }
        }
        if self.letters.last() == Some(&'l') && self.ends_with_double_consonant() {
            self.stem_length = self.letters.len() - 1;
            if self.measure() > 1 {
                self.letters.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stem;

    /// Examples from Porter's paper, and words that occur in code.
    #[test]
    fn stems_match_porter() {
        let pairs = "caresses caress, ponies poni, ties ti, caress caress, cats cat, feed feed, agreed agre, plastered plaster, \
            bled bled, motoring motor, sing sing, conflated conflat, troubled troubl, sized size, hopping hop, tanned tan, \
            falling fall, hissing hiss, fizzed fizz, failing fail, filing file, happy happi, sky sky, relational relat, \
            conditional condit, rational ration, valenci valenc, hesitanci hesit, digitizer digit, conformabli conform, \
            radicalli radic, differentli differ, vileli vile, analogousli analog, vietnamization vietnam, predication predic, \
            operator oper, feudalism feudal, decisiveness decis, hopefulness hope, callousness callous, formaliti formal, \
            sensitiviti sensit, sensibiliti sensibl, triplicate triplic, formative form, formalize formal, electriciti electr, \
            electrical electr, hopeful hope, goodness good, revival reviv, allowance allow, inference infer, airliner airlin, \
            gyroscopic gyroscop, adjustable adjust, defensible defens, irritant irrit, replacement replac, adjustment adjust, \
            dependent depend, adoption adopt, homologou homolog, communism commun, activate activ, angulariti angular, \
            homologous homolog, effective effect, bowdlerize bowdler, probate probat, rate rate, cease ceas, controll control, \
            roll roll, os.path.join os.path.join, 3.5 3.5, is is, generically gener, apologies apolog, naïve naïv, as as";
        for pair in pairs.split(", ") {
            let (word, expected) = pair.split_once(' ').unwrap_or_default();
            assert_eq!(stem(word.trim()), expected.trim(), "{word}");
        }
    }
}
