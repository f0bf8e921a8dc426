//! Real tasks from real repositories: carved out of a library by a recipe, or collected from one.

mod build;
mod collect;
mod draft;
mod error;
mod freeze;
mod statement;
mod tests;

use proctor_carve as carve;

pub use build::build_cached;
pub use carve::{CarveError, CarveOptions, Carving, Kind, Object, carve, carve_with};
pub use collect::{
    Answers, Attacked, Attacks, CloneCollection, ClonesReport, CollectError, CollectionContext,
    Complexity, Coverage, Extent, Facts, FailedClone, FastValidation, LevelTwo, Model, Origin,
    PullFacts, PullReject, PullReport, Pulls, Reject, Renewed, Report, Requirement,
    RequirementKind, Solvability, SolvabilityCounts, Stages, TopsScore, Unused, collect,
    collect_pulls, join_clones, renew,
};
pub use draft::{Draft, draft};
pub use error::RecipeError;
pub use freeze::{Frozen, LeftOut, freeze};
