//! Computes the differences between two tables.

use std::{cmp::Ordering, iter::Peekable, slice::Iter};

use super::table::{EntryState, Table, push};

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
pub fn differences<'a>(before: &'a Table, seen: &'a Table) -> impl Iterator<Item = Difference<'a>> {
    let gone = before.folders().filter(|(path, _)| !seen.contains(path));
    let gone = gone.map(|(folder, old)| Listings::new(folder, old, &[]));
    let there =
        seen.folders().map(|(folder, new)| Listings::new(folder, before.listing(folder), new));
    gone.chain(there).flatten()
}

/// Two listings of the same directory, compared in one parallel pass. A directory may have hundreds
/// of entries, of which a step changes only a few.
struct Listings<'a> {
    folder: &'a [u8],
    old: Peekable<Iter<'a, (Vec<u8>, EntryState)>>,
    new: Peekable<Iter<'a, (Vec<u8>, EntryState)>>,
}

impl<'a> Listings<'a> {
    fn new(
        folder: &'a [u8],
        old: &'a [(Vec<u8>, EntryState)],
        new: &'a [(Vec<u8>, EntryState)],
    ) -> Self {
        Self { folder, old: old.iter().peekable(), new: new.iter().peekable() }
    }

    fn path(&self, name: &[u8]) -> Vec<u8> {
        let mut path = self.folder.to_vec();
        push(&mut path, name);
        path
    }
}

impl<'a> Iterator for Listings<'a> {
    type Item = Difference<'a>;

    fn next(&mut self) -> Option<Difference<'a>> {
        loop {
            let order = match (self.old.peek(), self.new.peek()) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            match order {
                Ordering::Less => {
                    let (name, _) = self.old.next()?;
                    return Some(Difference::Removed(self.path(name)));
                }
                Ordering::Greater => {
                    let (name, seen) = self.new.next()?;
                    return Some(Difference::Changed(self.path(name), seen));
                }
                Ordering::Equal => {
                    let ((_, old), (name, new)) = (self.old.next()?, self.new.next()?);
                    if !old.same_entry(new) {
                        return Some(Difference::Changed(self.path(name), new));
                    }
                }
            }
        }
    }
}
