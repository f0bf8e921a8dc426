//! The interface through which scaffolds are looked up.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use proctor_types::{Arm, RunRecord, UserError};

use crate::Scaffold;

/// Scaffolds, keyed by arm id or scaffold name.
pub type Scaffolds = BTreeMap<String, Arc<dyn Scaffold>>;

/// A function that shows a progress message to the user.
pub type ProgressSink<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Why a scaffold cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The user made an error or changed something, such as a program.
    #[error(transparent)]
    User(#[from] UserError),
    /// The programs of the scaffold could not be built.
    #[error("{problem}")]
    Build {
        /// What failed.
        problem: String,
        /// How to fix it.
        hint: Option<String>,
    },
}

/// Looks up scaffolds by name. Planning and running access scaffolds only through this trait.
#[async_trait(?Send)]
pub trait ScaffoldSource {
    /// Returns the names that configurations use, sorted.
    fn names(&self) -> &[&'static str];

    /// Returns whether the scaffold's loop is a user's program that runs in its own sandbox.
    fn is_host_scaffold(&self, name: &str) -> bool;

    /// Returns the scaffold that has this name or is defined in this manifest file. Its programs
    /// are included if they are built. Returns `None` if there is no such scaffold.
    ///
    /// # Errors
    /// Fails if the scaffold exists but cannot be used.
    fn find_scaffold(&self, name: &str) -> Result<Option<Arc<dyn Scaffold>>, UserError>;

    /// Returns the scaffolds of a plan's arms, without bundles. A command-line agent has the
    /// version that the plan recorded.
    ///
    /// # Errors
    /// Fails if a recorded scaffold cannot be read.
    fn scaffolds_for_arms(&self, arms: &[Arm]) -> Result<Scaffolds, UserError>;

    /// Builds the missing programs of the given scaffolds. Returns whether anything was built,
    /// because a build may be a factor of an arm.
    ///
    /// # Errors
    /// Fails if a scaffold cannot be used or its programs cannot be built.
    async fn build(
        &self,
        names: &BTreeSet<&str>,
        report_progress: ProgressSink<'_>,
    ) -> Result<bool, SourceError>;

    /// Like [`Self::scaffolds_for_arms`], but with bundles. Builds missing bundles.
    ///
    /// # Errors
    /// Fails if a bundle or program differs from the plan or cannot be built.
    async fn scaffolds_with_bundles(
        &self,
        record: &RunRecord,
        report_progress: ProgressSink<'_>,
    ) -> Result<Scaffolds, SourceError>;
}
