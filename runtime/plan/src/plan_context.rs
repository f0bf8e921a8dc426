//! The inputs of planning that do not come from the configuration.

use std::path::Path;

use proctor_scaffold_api::{ProgressSink, ScaffoldSource};

/// The parts of this machine and this program that planning needs.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    /// The cache directory, whose files Proctor can recreate.
    pub cache: &'a Path,
    /// The scaffolds that arms can use.
    pub scaffolds: &'a dyn ScaffoldSource,
    /// Returns an error if a scripted model's file cannot be read.
    pub check_script: &'a dyn Fn(&Path) -> Result<(), String>,
    /// Receives notes and the progress of builds.
    pub say: ProgressSink<'a>,
}
