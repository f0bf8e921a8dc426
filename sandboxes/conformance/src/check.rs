//! The definition of a check, and a macro for lists of checks.

use std::{future::Future, pin::Pin};

use super::fixture::{Fixture, Outcome};

pub(crate) type Body =
    for<'a> fn(&'a Fixture<'a>) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// A check of one property of sandboxes.
pub struct Check {
    pub name: &'static str,
    /// Whether `proctor doctor` runs the check.
    pub quick: bool,
    pub(super) body: Body,
}

/// Creates a list of checks. Each entry is the word `quick` or `full`, followed by a function.
macro_rules! list {
    ($($speed:ident $name:ident),* $(,)?) => {
        vec![$($crate::check::Check {
            name: stringify!($name),
            quick: stringify!($speed) == "quick",
            body: |fixture| Box::pin($name(fixture)),
        }),*]
    };
}
pub(super) use list;
