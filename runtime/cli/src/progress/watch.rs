//! From the dispatcher's events to what somebody sees.

use std::{
    io::IsTerminal as _,
    sync::OnceLock,
    time::{Duration, Instant},
};

use proctor_core::Progress;
use proctor_report::wrapped;
use proctor_types::TrialId;
use tokio::{sync::mpsc::UnboundedReceiver, time::interval};

use super::{board::Board, lines::told, objects::object, screen::Screen};

/// Between two drawings of the screen.
const FRAME: Duration = Duration::from_millis(250);
/// Between two lines of a log that say how far the run is.
const PACE: Duration = Duration::from_secs(30);

/// How progress is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum How {
    /// A screen on a terminal, lines elsewhere.
    Auto,
    /// A line for each thing that happened, and every 30 s one that says how far the run is.
    Lines,
    /// A JSON object a line, for programs.
    Json,
    /// Nothing.
    None,
}

static CHOSEN: OnceLock<How> = OnceLock::new();

/// What the command line says, once: it holds for whatever the call runs.
pub fn choose(how: How) {
    let _ = CHOSEN.set(how);
}

/// What was chosen, or the default.
pub fn chosen() -> How {
    CHOSEN.get().copied().unwrap_or(How::Auto)
}

/// Standard error can be drawn on.
pub fn is_screen() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    std::io::stderr().is_terminal() && !dumb
}

/// Tells progress until the run lets go of its sender. `board`: the plan, and what of it was done before.
pub async fn watch(mut events: UnboundedReceiver<Progress>, mut board: Board) {
    let how = chosen();
    let begun = Instant::now();
    let mut screen = (how == How::Auto && is_screen()).then(Screen::new);
    let mut frames = interval(if screen.is_some() { FRAME } else { PACE });
    // The first tick is at once.
    frames.tick().await;
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            _ = frames.tick() => {
                match (&mut screen, how) {
                    (Some(screen), _) => screen.draw(&board.lines()),
                    (None, How::Auto | How::Lines) => tell!("[{:7.2} s] {}", begun.elapsed().as_secs_f64(), board.summary()),
                    (None, How::Json | How::None) => {}
                }
                continue;
            }
        };
        let Some(event) = event else { break };
        board.take(&event);
        let seconds = begun.elapsed().as_secs_f64();
        match (&screen, how) {
            (_, How::None) => {}
            (_, How::Json) => {
                if let Some(object) = object(&event, seconds) {
                    // For programs: written out, it would be no JSON.
                    eprintln!("{object}");
                }
            }
            (Some(screen), _) if is_news(&event) => {
                screen.say(&wrapped(&format!("[{seconds:7.2} s] {}", told(&event, &board))));
            }
            (Some(_), _) => {}
            (None, _) if matches!(event, Progress::Stepped { .. } | Progress::Does { .. }) => {}
            (None, _) => {
                tell!("{}", wrapped(&format!("[{seconds:7.2} s] {}", told(&event, &board))));
            }
        }
    }
    if let Some(screen) = screen {
        screen.clear();
    }
}

/// What stays above the screen: what ended, and what went wrong. The rest is on it.
fn is_news(event: &Progress) -> bool {
    match event {
        Progress::Stepped { .. }
        | Progress::Does { .. }
        | Progress::Started { .. }
        | Progress::Waiting { .. }
        | Progress::Waited { .. }
        | Progress::GradingRecorded { .. } => false,
        // Its verdict follows, or why there is none.
        Progress::Ended { outcome, .. } => outcome.ending.is_unfinished(),
        _ => true,
    }
}

/// A trial as people know it: the task, the arm's name, and which attempt where there were more.
pub fn name(trial: &TrialId, arm: &str) -> String {
    match trial.attempt {
        1 => format!("{} {arm}", trial.task),
        attempt => format!("{} {arm} #{attempt}", trial.task),
    }
}
