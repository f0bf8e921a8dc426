//! A pack of attacks on grading, as data, and the patch that each makes for a task.
//!
//! Attacks are made on the host from the task and the masked source: nothing runs here.

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
