//! Progress output of a run, on stderr (`docs/reference/output.md`).

mod board;
mod lines;
mod objects;
mod repeats;
mod screen;
mod straggler;
mod trial_name;
mod watch;

pub use board::{ProgressBoard, RunningTrial};
pub use repeats::{refer_to_printed, shorten_repeated};
pub use screen::Screen;
pub use straggler::{OpenTrial, describe_straggler};
pub use trial_name::trial_name;
pub use watch::{ProgressFormat, can_draw, progress_format, set_progress_format, show_progress};
