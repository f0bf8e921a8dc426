//! Progress output of a run, on stderr (`docs/progress.md`).

mod board;
mod lines;
mod objects;
mod repeats;
mod screen;
mod straggler;
mod watch;

pub use board::{Board, Running};
pub use repeats::{brief, refer};
pub use screen::Screen;
pub use straggler::{OpenTrial, straggler};
pub use watch::{ProgressFormat, choose, chosen, is_screen, name, watch};
