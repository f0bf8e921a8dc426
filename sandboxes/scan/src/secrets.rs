//! Lookup tables for fingerprints, and a tally of the matches in one file.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

use proctor_wire::{FindingKind, Secrets, WINDOW_LINES};

/// A hasher that returns the key itself, because the keys are already hashes.
#[derive(Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key ^ (key >> 29);
    }
}

type SecretTable = HashMap<u64, Vec<(u32, u32)>, BuildHasherDefault<IdentityHasher>>;

pub struct SecretIndex {
    pub secrets: Secrets,
    /// The (block, number) pairs of each window hash.
    windows: SecretTable,
    /// The (set, number) pairs of each name hash.
    names: SecretTable,
    /// The window lengths, in lines, that occur in the secrets.
    pub window_lengths: Vec<usize>,
}

impl SecretIndex {
    pub fn new(secrets: Secrets) -> Self {
        let (mut windows, mut names) = (SecretTable::default(), SecretTable::default());
        let mut window_lengths = Vec::new();
        for (block, of) in secrets.blocks.iter().enumerate() {
            let length = usize::from(of.lines);
            if (1..=WINDOW_LINES).contains(&length) && !window_lengths.contains(&length) {
                window_lengths.push(length);
            }
            for (number, window) in of.windows.iter().enumerate() {
                windows.entry(*window).or_default().push((block as u32, number as u32));
            }
        }
        for (set, of) in secrets.names.iter().enumerate() {
            for (number, name) in of.names.iter().enumerate() {
                names.entry(*name).or_default().push((set as u32, number as u32));
            }
        }
        Self { secrets, windows, names, window_lengths }
    }

    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }
}

/// The matches in one file: distinct windows by block, and distinct names by set.
#[derive(Default)]
pub struct Tally {
    windows: BTreeMap<u32, HashSet<u32>>,
    names: BTreeMap<u32, HashSet<u32>>,
}

impl Tally {
    pub fn add_window(&mut self, index: &SecretIndex, window: u64) {
        for &(block, number) in index.windows.get(&window).into_iter().flatten() {
            self.windows.entry(block).or_default().insert(number);
        }
    }

    pub fn add_name(&mut self, index: &SecretIndex, name: u64) {
        for &(set, number) in index.names.get(&name).into_iter().flatten() {
            self.names.entry(set).or_default().insert(number);
        }
    }

    /// Returns the numbers of the windows that were found, in any block.
    pub fn windows(&self) -> impl Iterator<Item = u32> {
        self.windows.values().flatten().copied()
    }

    /// Returns the block with the most matches among those with enough matches. One finding per
    /// file is enough.
    pub fn best_text_match(&self, index: &SecretIndex) -> Option<FindingKind> {
        self.windows
            .iter()
            .filter_map(|(block, seen)| {
                let of = index.secrets.blocks.get(*block as usize)?;
                let matched = seen.len() as u32;
                (matched >= of.need.max(1)).then_some((matched, *block))
            })
            .max()
            .map(|(matched, block)| FindingKind::Text { block, matched })
    }

    /// Like [`Tally::best_text_match`], but for sets of names. `has_name` returns whether the
    /// bytecode comes from a set's module.
    pub fn best_bytecode_match(
        &self,
        index: &SecretIndex,
        has_name: &dyn Fn(&str) -> bool,
    ) -> Option<FindingKind> {
        self.names
            .iter()
            .filter_map(|(set, seen)| {
                let of = index.secrets.names.get(*set as usize)?;
                let matched = seen.len() as u32;
                let need = if has_name(&of.module) { of.need } else { of.need_elsewhere };
                (matched >= need.max(1)).then_some((matched, *set))
            })
            .max()
            .map(|(matched, set)| FindingKind::Bytecode { set, matched })
    }
}
