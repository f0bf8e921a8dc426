use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use crate::analyzer::{for_each_word, term};

/// BM25's term frequency saturation (k1), with Pyserini's default value.
pub const K1: f64 = 0.9;
/// BM25's document length normalization (b), with Pyserini's default value.
pub const B: f64 = 0.4;

/// An index of the terms in a set of documents.
#[derive(Debug, Default)]
pub struct Index {
    names: Vec<String>,
    /// Number of terms in each document.
    lengths: Vec<u32>,
    term_numbers: FxHashMap<String, u32>,
    /// Maps words, as they are written, to the number of their term, or to `None` for stop words.
    term_by_word: FxHashMap<String, Option<u32>>,
    /// For each term: the documents that contain it, with its frequency in each, in document order.
    postings: Vec<Vec<(u32, u32)>>,
    total_length: u64,
}

/// A document that matches a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit<'a> {
    /// The document's name.
    pub name: &'a str,
    /// The BM25 score, greater than 0.
    pub score: f64,
}

impl Index {
    /// Adds a document.
    pub fn add(&mut self, name: impl Into<String>, text: &str) {
        let document = self.names.len() as u32;
        let mut length = 0;
        let (words, terms, postings) =
            (&mut self.term_by_word, &mut self.term_numbers, &mut self.postings);
        for_each_word(text, |word| {
            // Cache terms by the written word: nearly every word has occurred before, and stemming
            // is expensive.
            let id = match words.get(word) {
                Some(id) => *id,
                None => {
                    let id = term(word).map(|term| {
                        *terms.entry(term).or_insert_with(|| {
                            postings.push(Vec::new());
                            postings.len() as u32 - 1
                        })
                    });
                    words.insert(word.to_owned(), id);
                    id
                }
            };
            let Some(id) = id else { return };
            length += 1;
            let documents = &mut postings[id as usize];
            match documents.last_mut() {
                Some((last, count)) if *last == document => *count += 1,
                _ => documents.push((document, 1)),
            }
        });
        self.names.push(name.into());
        self.lengths.push(length);
        self.total_length += u64::from(length);
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns up to `max_hits` documents, best first. Documents with equal scores are sorted by
    /// name. Documents that contain none of the query's terms are omitted.
    ///
    /// ```text
    /// score(d, q) = sum over the terms t of q, each as often as q has it:
    ///               ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5)) * f / (f + k1 * (1 - b + b * |d| / avg))
    /// ```
    ///
    /// This is Lucene's variant of BM25: Robertson and Zaragoza 2009 without the factor k1 + 1, as
    /// in Kamphuis et al. 2020. Lengths are exact here, while Lucene stores each length in one
    /// byte.
    pub fn search(&self, query: &str, max_hits: usize) -> Vec<Hit<'_>> {
        let mut counts: FxHashMap<u32, u32> = FxHashMap::default();
        for_each_word(query, |word| {
            let known = term(word).and_then(|term| self.term_numbers.get(&term));
            known.into_iter().for_each(|id| *counts.entry(*id).or_default() += 1);
        });
        let mut term_counts: Vec<(u32, u32)> = counts.into_iter().collect();
        // Sort the terms, because the result of a floating-point sum depends on the order.
        term_counts.sort_unstable();
        let all = self.names.len() as f64;
        let average = self.total_length as f64 / all.max(1.0);
        let mut scores = vec![0.0; self.names.len()];
        for (term, count) in term_counts {
            let documents = &self.postings[term as usize];
            let with = documents.len() as f64;
            let weight = f64::from(count) * (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for (document, times) in documents {
                let at = *document as usize;
                let times = f64::from(*times);
                let length = f64::from(self.lengths[at]) / average;
                scores[at] += weight * times / (times + K1 * (1.0 - B + B * length));
            }
        }
        let mut hits: Vec<Hit<'_>> = self
            .names
            .iter()
            .zip(scores)
            .filter(|(_, score)| *score > 0.0)
            .map(|(name, score)| Hit { name, score })
            .collect();
        let best = |a: &Hit<'_>, b: &Hit<'_>| match b.score.total_cmp(&a.score) {
            Ordering::Equal => a.name.cmp(b.name),
            other => other,
        };
        hits.sort_unstable_by(best);
        hits.truncate(max_hits);
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_match_the_formula() {
        let mut index = Index::default();
        index.add("a", "red red blue");
        index.add("b", "red");
        index.add("c", "green green green green green");
        let hits = index.search("red unknown", 9);
        assert_eq!(hits.iter().map(|hit| hit.name).collect::<Vec<_>>(), ["a", "b"]);
        let idf = (1.0 + (3.0 - 2.0 + 0.5) / (2.0 + 0.5_f64)).ln();
        let tf = |times: f64, length: f64| times / (times + 0.9 * (1.0 - 0.4 + 0.4 * length / 3.0));
        assert!((hits[0].score - idf * tf(2.0, 3.0)).abs() < 1e-12);
        assert!((hits[1].score - idf * tf(1.0, 1.0)).abs() < 1e-12);
        // If a term occurs several times in the query, it counts several times.
        assert!((index.search("red red", 1)[0].score - 2.0 * hits[0].score).abs() < 1e-12);
        assert_eq!(index.search("", 9), []);
        assert!(Index::default().search("red", 9).is_empty());
    }

    #[test]
    fn equal_scores_are_sorted_by_name() {
        let mut index = Index::default();
        for name in ["c", "a", "b"] {
            index.add(name, "same words");
        }
        let names: Vec<_> = index.search("word", 2).iter().map(|hit| hit.name).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
