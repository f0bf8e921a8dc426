//! A pack of attacks on grading, defined as data, and the patches they generate for a task.
//!
//! Patches are generated on the host from the task and the masked source. No code is run.

mod attack;
mod make;
mod modules;
mod pack;
mod target;

pub use attack::{Attack, AttackFile, Each, Expected, How, Runner};
pub use make::{Made, make};
pub use modules::{Module, modules};
pub use pack::{digest, pack, script};
pub use target::{ReadStart, Target};
