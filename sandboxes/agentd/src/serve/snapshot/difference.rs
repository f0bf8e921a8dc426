//! What two tables say differently.

use std::{cmp::Ordering, collections::btree_map, iter::Peekable};

use super::table::{Seen, Table};

pub enum Difference<'a> {
    /// Made, or not what it was.
    Changed(&'a [u8], &'a Seen),
    Removed(&'a [u8]),
}

/// Both tables are walked once, side by side: a tree has thousands of entries of which a step changes few, and
/// looking each one up in the other table took longer than the walk over the disk.
pub struct Differences<'a> {
    before: Peekable<btree_map::Iter<'a, Vec<u8>, Seen>>,
    seen: Peekable<btree_map::Iter<'a, Vec<u8>, Seen>>,
}

impl<'a> Differences<'a> {
    pub fn new(before: &'a Table, seen: &'a Table) -> Self {
        Self { before: before.iter().peekable(), seen: seen.iter().peekable() }
    }
}

impl<'a> Iterator for Differences<'a> {
    type Item = Difference<'a>;

    fn next(&mut self) -> Option<Difference<'a>> {
        loop {
            let order = match (self.before.peek(), self.seen.peek()) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            match order {
                Ordering::Less => {
                    return self.before.next().map(|(path, _)| Difference::Removed(path));
                }
                Ordering::Greater => {
                    return self.seen.next().map(|(path, entry)| Difference::Changed(path, entry));
                }
                Ordering::Equal => {
                    let (old, new) = (self.before.next(), self.seen.next());
                    if let (Some((_, old)), Some((path, entry))) = (old, new)
                        && !old.same_entry(entry)
                    {
                        return Some(Difference::Changed(path, entry));
                    }
                }
            }
        }
    }
}
