//! Defines a pack of attacks on grading as data, and generates each attack's patch for a task.
//!
//! Patches are generated on the host from the task and the masked source. No code is run.

mod attack;
mod generation;
mod modules;
mod pack;
mod target;

pub use attack::{Attack, AttackFile, ExpectedVerdict, ForEach, Runner, WriteMode};
pub use generation::{AttackPatch, generate_patch};
pub use modules::{Module, ReadInitialFile, find_changed_modules};
pub use pack::{find_script, load_pack, pack_digest};
pub use target::Target;
