//! Creates tasks from real repositories. There are three ways: a recipe carves code out of a
//! library, `collect` starts from a library's tests, and `pulls` starts from merged pull requests.
//!
//! ```text
//! proctor-carve   edits Python source text
//! build           builds a task from a recipe
//! collect         creates tasks of both levels from a repository's objects and tests
//! pulls           creates tasks from merged pull requests, with collect's environments and checks
//! ```

mod build;
mod collect;
mod draft;
mod error;
mod freeze;
mod pulls;
mod statement;
mod test_files;

use proctor_carve as carve;

pub use build::build_cached;
pub use carve::{CarveError, CarveOptions, Carving, Kind, Object, carve, carve_with_options};
pub use collect::{
    AttackSelection, AttackSummary, CachedModel, CollectError, CollectionContext, Complexity,
    Coverage, LevelTwoResults, Model, Origin, Reject, RenewalResult, Report, Requirement,
    RequirementKind, Solvability, SolvabilityCounts, Stages, TaskMetrics, TopsScore, UnusedItem,
    collect, renew,
};
pub use draft::{Draft, draft_task};
pub use error::RecipeError;
pub use freeze::{FrozenTask, LeftOutTest, freeze};
pub use pulls::{
    CloneCollection, ClonesReport, CollectionGoal, FailedClone, FastValidation, PullReject,
    PullReport, PullSearch, PullTaskMetrics, collect_pulls, join_clones,
};
