//! Keeps track of lines that are not secret because the tree contains them or the model wrote them.

use std::collections::{BTreeSet, HashSet};

use proctor_record::{Blobs, RecordError, Remedy, Tree};
use proctor_types::Fault;
use proctor_wire::{EntryKind, WINDOW_LINES, fingerprint};

use super::solution::Solution;

/// Which lines of a solution are already known at a given point of a trial.
pub(super) struct KnownLines<'a> {
    pub solution: &'a Solution,
    /// For each line: whether the task row or the tree contains it.
    is_common: Vec<bool>,
    /// For each line: whether the model wrote it.
    is_written_by_model: Vec<bool>,
    /// For each line: how much of `model_text` was already searched for the line.
    searched_until: Vec<usize>,
    /// The normalized text of everything that the model wrote.
    model_text: Vec<u8>,
    /// Runs of lines that the model wrote in an encoded form such as base64.
    encoded_runs: BTreeSet<u32>,
    /// The words that the model wrote.
    vocabulary: HashSet<String>,
    /// The tree that the agent started with, and whether it was already searched for common lines.
    base_tree: Option<(&'a Blobs, &'a str)>,
    is_read: bool,
}

impl<'a> KnownLines<'a> {
    pub(super) fn new(solution: &'a Solution) -> Self {
        let count = solution.lines.len();
        Self {
            solution,
            is_common: solution.lines.iter().map(|line| line.is_common).collect(),
            is_written_by_model: vec![false; count],
            searched_until: vec![0; count],
            model_text: Vec::new(),
            encoded_runs: BTreeSet::new(),
            vocabulary: HashSet::new(),
            base_tree: None,
            is_read: false,
        }
    }

    /// Sets the initial tree. The tree is read only when the first run of lines is found, because
    /// reading a tree is expensive.
    pub(super) fn set_base_tree(&mut self, blobs: Option<&'a Blobs>, snapshot: &'a str) {
        self.base_tree = blobs.map(|blobs| (blobs, snapshot));
    }

    /// Adds text that the model wrote.
    pub(super) fn add_model_text(&mut self, text: &str) {
        self.encoded_runs.extend(self.solution.find_runs(text.as_bytes()));
        for word in words(text).filter(|word| !self.vocabulary.contains(*word)).collect::<Vec<_>>()
        {
            self.vocabulary.insert(word.to_owned());
        }
        self.model_text.extend(fingerprint::normalize(text.as_bytes()));
        // Add a separator, so that no match spans two strings.
        self.model_text.push(0);
    }

    /// Returns the runs that are not yet known.
    pub(super) fn unknown_runs(&mut self, runs: BTreeSet<u32>) -> Result<BTreeSet<u32>, Fault> {
        if runs.is_empty() {
            return Ok(runs);
        }
        self.read_tree()?;
        let mut news = runs;
        news.retain(|run| {
            let lines = self.solution.runs[*run as usize];
            let new = lines.iter().filter(|line| !self.is_known_line(**line)).count();
            !self.encoded_runs.contains(run) && new >= self.solution.settings.rare_lines
        });
        Ok(news)
    }

    /// Returns whether a line occurs in the tree or in text that the model wrote. Line breaks are
    /// ignored.
    fn is_known_line(&mut self, line: usize) -> bool {
        if self.is_common[line] || self.is_written_by_model[line] {
            return true;
        }
        let left = &self.solution.lines[line].normalized;
        // Start slightly earlier, because a match may begin in the part that was already searched.
        let from = self.searched_until[line].saturating_sub(left.len());
        self.is_written_by_model[line] =
            super::solution::contains_bytes(&self.model_text[from..], left);
        self.searched_until[line] = self.model_text.len();
        self.is_written_by_model[line]
    }

    /// Returns the runs that were not already known and that no program written by the model could
    /// have produced by replacing parts of existing text or by combining words.
    pub(super) fn underivable_runs(&mut self, runs: BTreeSet<u32>) -> Result<BTreeSet<u32>, Fault> {
        let mut news = self.unknown_runs(runs)?;
        let lines: BTreeSet<usize> =
            news.iter().flat_map(|run| self.solution.runs[*run as usize]).collect();
        let new = lines.into_iter().filter(|line| !self.is_known_line(*line)).collect();
        let foreign = self.lines_with_foreign_words(new)?;
        let rare = self.solution.settings.rare_lines;
        news.retain(|run| {
            let lines = self.solution.runs[*run as usize];
            lines.iter().filter(|line| foreign.contains(line)).count() >= rare
        });
        Ok(news)
    }

    /// Returns the lines that contain a foreign word. A word is foreign if the model did not write
    /// it and no line in the tree has it in the same position.
    fn lines_with_foreign_words(&self, lines: BTreeSet<usize>) -> Result<BTreeSet<usize>, Fault> {
        // A word that the model wrote may appear in any position.
        let own = |word: &'a str| (!self.vocabulary.contains(word)).then_some(word);
        let pattern = |line: usize| words(&self.solution.lines[line].text).map(own);
        let mut foreign: Vec<(usize, Vec<Option<&str>>)> =
            lines.into_iter().map(|line| (line, pattern(line).collect())).collect();
        foreign.retain(|(_, pattern)| pattern.iter().any(Option::is_some));
        if !foreign.is_empty() {
            self.for_each_source_file(&mut |bytes| {
                for line in String::from_utf8_lossy(bytes).lines() {
                    let there: Vec<&str> = words(line).collect();
                    foreign.retain(|(_, pattern)| {
                        let fits = |(word, there): (&Option<&str>, &&str)| {
                            word.is_none_or(|word| word == *there)
                        };
                        pattern.len() != there.len() || !pattern.iter().zip(&there).all(fits)
                    });
                }
            })?;
        }
        Ok(foreign.into_iter().map(|(line, _)| line).collect())
    }

    /// Returns the number of runs that are rare enough to search for: few of their lines are in the
    /// task row or the tree.
    pub(super) fn count_findable_runs(&self) -> usize {
        let rare = |run: &&[usize; WINDOW_LINES]| {
            let rare = run.iter().filter(|line| !self.is_common[**line]).count();
            rare >= self.solution.settings.rare_lines
        };
        self.solution.runs.iter().filter(rare).count()
    }

    /// Returns, for display, the first uncommon line in these runs.
    pub(super) fn sample_line(&self, runs: &BTreeSet<u32>) -> &'a str {
        let lines = runs.iter().flat_map(|run| self.solution.runs[*run as usize]);
        let rare = lines.filter(|line| !self.is_common[*line]).min();
        rare.map_or("", |line| self.solution.lines[line].text.trim())
    }

    fn read_tree(&mut self) -> Result<(), Fault> {
        if std::mem::replace(&mut self.is_read, self.base_tree.is_some()) {
            return Ok(());
        }
        let mut common = std::mem::take(&mut self.is_common);
        let read = self.for_each_source_file(&mut |bytes| {
            let lines = bytes.split(|byte| *byte == b'\n');
            lines
                .filter_map(|line| self.solution.find_line(line))
                .for_each(|line| common[line] = true);
        });
        self.is_common = common;
        read
    }

    /// Calls `visit` with the content of each source file in the tree.
    fn for_each_source_file(&self, visit: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
        let Some((blobs, snapshot)) = self.base_tree else { return Ok(()) };
        for entry in Tree::load(blobs, snapshot).map_err(unreadable_record_fault)?.entries.values()
        {
            let (EntryKind::File, Some(hash)) = (entry.kind, &entry.hash) else { continue };
            // Content is not stored if it is too large, or if it is an unchanged file from the
            // environment.
            if entry.size <= self.solution.settings.limits.file_bytes && blobs.contains(hash) {
                visit(&blobs.get(hash).map_err(unreadable_record_fault)?);
            }
        }
        Ok(())
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

pub(super) fn unreadable_record_fault(error: RecordError) -> Fault {
    error.fault().hint(Remedy::RestoreFromCopy.hint()).into_permanent()
}
