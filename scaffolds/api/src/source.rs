//! Where scaffolds come from.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use proctor_types::{Arm, RunRecord, UserError};

use crate::Scaffold;

/// Scaffolds by arm id or scaffold name.
pub type Scaffolds = BTreeMap<String, Arc<dyn Scaffold>>;

/// Receives progress messages for the user.
pub type ProgressSink<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Why a scaffold cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A user error, such as a changed program.
    #[error(transparent)]
    User(#[from] UserError),
    /// The scaffold's programs cannot be built.
    #[error("{what}")]
    Build {
        /// What failed.
        what: String,
        /// How to fix it.
        hint: Option<String>,
    },
}

/// Looks up scaffolds by name. Planning and running access scaffolds only through this trait.
#[async_trait(?Send)]
pub trait ScaffoldSource {
    /// Returns the names used in configurations, sorted.
    fn names(&self) -> &[&'static str];

    /// Returns whether a scaffold's loop is a user's program in its own sandbox.
    fn is_host_scaffold(&self, name: &str) -> bool;

    /// Returns the scaffold for a name or a manifest file, with its programs if they are built.
    /// Returns `None` if no scaffold has the name.
    ///
    /// # Errors
    /// Returns an error if the scaffold exists but cannot be used.
    fn find_scaffold(&self, name: &str) -> Result<Option<Arc<dyn Scaffold>>, UserError>;

    /// Returns the scaffolds of planned arms, without bundles. Command-line agents have the version
    /// recorded in the plan.
    ///
    /// # Errors
    /// Returns an error if a recorded scaffold cannot be read.
    fn scaffolds_for_arms(&self, arms: &[Arm]) -> Result<Scaffolds, UserError>;

    /// Builds whatever is missing for these scaffolds. Returns whether anything was built, because
    /// the build may be a factor of arms.
    ///
    /// # Errors
    /// Returns an error if a scaffold cannot be used or its programs cannot be built.
    async fn build(
        &self,
        names: &BTreeSet<&str>,
        say: ProgressSink<'_>,
    ) -> Result<bool, SourceError>;

    /// Like [`Self::scaffolds_for_arms`], with bundles. Missing bundles are built.
    ///
    /// # Errors
    /// Returns an error if a bundle or program differs from the plan or cannot be built.
    async fn scaffolds_with_bundles(
        &self,
        record: &RunRecord,
        say: ProgressSink<'_>,
    ) -> Result<Scaffolds, SourceError>;
}
