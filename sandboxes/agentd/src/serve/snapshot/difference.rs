//! Computes the differences between two tables.

use std::{cmp::Ordering, iter::Peekable, slice::Iter};

use super::table::{EntryState, Table, push_name};

pub enum Difference<'a> {
    /// Created or changed.
    Changed(Vec<u8>, &'a EntryState),
    Removed(Vec<u8>),
}

impl Difference<'_> {
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Changed(path, _) | Self::Removed(path) => path,
        }
    }
}

/// Returns the differences directory by directory. Within a directory, removed entries come first.
pub fn differences<'a>(
    previous: &'a Table,
    current: &'a Table,
) -> impl Iterator<Item = Difference<'a>> {
    let gone = previous.folders().filter(|(path, _)| !current.contains(path));
    let gone = gone.map(|(folder, old)| ListingPair::new_entries(folder, old, &[]));
    let there = current
        .folders()
        .map(|(folder, new)| ListingPair::new_entries(folder, previous.listing(folder), new));
    gone.chain(there).flatten()
}

/// Two listings of the same directory, compared in one parallel pass. A directory may have hundreds
/// of entries, of which a step changes only a few.
struct ListingPair<'a> {
    folder: &'a [u8],
    old_entries: Peekable<Iter<'a, (Vec<u8>, EntryState)>>,
    new_entries: Peekable<Iter<'a, (Vec<u8>, EntryState)>>,
}

impl<'a> ListingPair<'a> {
    fn new_entries(
        folder: &'a [u8],
        old_entries: &'a [(Vec<u8>, EntryState)],
        new: &'a [(Vec<u8>, EntryState)],
    ) -> Self {
        Self {
            folder,
            old_entries: old_entries.iter().peekable(),
            new_entries: new.iter().peekable(),
        }
    }

    fn path(&self, name: &[u8]) -> Vec<u8> {
        let mut path = self.folder.to_vec();
        push_name(&mut path, name);
        path
    }
}

impl<'a> Iterator for ListingPair<'a> {
    type Item = Difference<'a>;

    fn next(&mut self) -> Option<Difference<'a>> {
        loop {
            let order = match (self.old_entries.peek(), self.new_entries.peek()) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            match order {
                Ordering::Less => {
                    let (name, _) = self.old_entries.next()?;
                    return Some(Difference::Removed(self.path(name)));
                }
                Ordering::Greater => {
                    let (name, seen) = self.new_entries.next()?;
                    return Some(Difference::Changed(self.path(name), seen));
                }
                Ordering::Equal => {
                    let ((_, old), (name, new)) =
                        (self.old_entries.next()?, self.new_entries.next()?);
                    if !old.has_same_entry(new) {
                        return Some(Difference::Changed(self.path(name), new));
                    }
                }
            }
        }
    }
}
