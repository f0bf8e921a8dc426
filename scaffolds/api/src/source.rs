//! Where scaffolds come from.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use proctor_types::{Arm, RunRecord, UserError};

use crate::Scaffold;

/// Scaffolds by arm id, and by scaffold name.
pub type Scaffolds = BTreeMap<String, Arc<dyn Scaffold>>;

/// Receives lines about long work, for people.
pub type Say<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Why a scaffold cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A mistake of the user, such as a changed program.
    #[error(transparent)]
    User(#[from] UserError),
    /// Its programs cannot be built.
    #[error("{what}")]
    Build {
        /// What failed.
        what: String,
        /// What to change.
        hint: Option<String>,
    },
}

/// Scaffolds by name. Planning and running know scaffolds only through it.
#[async_trait(?Send)]
pub trait ScaffoldSource {
    /// The names that configurations use, sorted.
    fn names(&self) -> &[&'static str];

    /// Whether a scaffold's loop is a user's program in its own sandbox.
    fn is_host(&self, name: &str) -> bool;

    /// The scaffold of a name or a manifest file, with its programs if they are built. `None`: no
    /// scaffold has the name.
    ///
    /// # Errors
    /// It has the name but cannot be used.
    fn named(&self, name: &str) -> Result<Option<Arc<dyn Scaffold>>, UserError>;

    /// The scaffolds of planned arms, without bundles. A command-line agent is the one that the arm
    /// was planned with.
    ///
    /// # Errors
    /// A recorded scaffold cannot be read.
    fn of_arms(&self, arms: &[Arm]) -> Result<Scaffolds, UserError>;

    /// Builds what these scaffolds miss. Returns whether anything was built: it may be a factor of
    /// arms.
    ///
    /// # Errors
    /// A scaffold cannot be used, or its programs cannot be built.
    async fn build(&self, names: &BTreeSet<&str>, say: Say<'_>) -> Result<bool, SourceError>;

    /// Like [`Self::of_arms`], with bundles, which are built if they are missing.
    ///
    /// # Errors
    /// A bundle or a program is not the planned one, or cannot be built.
    async fn with_bundles(
        &self,
        record: &RunRecord,
        say: Say<'_>,
    ) -> Result<Scaffolds, SourceError>;
}
