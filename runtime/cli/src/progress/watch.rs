//! Displays the dispatcher's events.

use std::{
    io::IsTerminal as _,
    sync::OnceLock,
    time::{Duration, Instant},
};

use proctor_report::wrap_long_lines;
use proctor_run::Progress;
use tokio::{sync::mpsc::UnboundedReceiver, time::interval};

use super::{board::ProgressBoard, lines::format_event, objects::event_to_json, screen::Screen};

/// Interval between two redraws.
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);
/// Interval between two progress lines in a log.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ProgressFormat {
    /// A live screen on a terminal, lines otherwise.
    Auto,
    /// A line for each event, and a summary every 30 s.
    Lines,
    /// One JSON object per line, for programs.
    Json,
    /// No progress output.
    None,
}

static PROGRESS_FORMAT: OnceLock<ProgressFormat> = OnceLock::new();

/// Sets the progress format from the command line, once for the process.
pub fn set_progress_format(format: ProgressFormat) {
    let _ = PROGRESS_FORMAT.set(format);
}

/// The chosen format, or the default.
pub fn progress_format() -> ProgressFormat {
    PROGRESS_FORMAT.get().copied().unwrap_or(ProgressFormat::Auto)
}

/// Whether standard error can be drawn on.
pub fn can_draw() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    std::io::stderr().is_terminal() && !dumb
}

/// Shows progress until the run drops its sender. `board` must contain the plan, and its finished
/// trials must already be counted.
pub async fn show_progress(mut events: UnboundedReceiver<Progress>, mut board: ProgressBoard) {
    let how = progress_format();
    let begun = Instant::now();
    let mut screen = (how == ProgressFormat::Auto && can_draw()).then(Screen::new);
    let mut frames = interval(if screen.is_some() { REDRAW_INTERVAL } else { LINE_INTERVAL });
    // Consume the first tick, which completes immediately.
    frames.tick().await;
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            _ = frames.tick() => {
                match (&mut screen, how) {
                    (Some(screen), _) => screen.draw(&board.screen_lines()),
                    (None, ProgressFormat::Auto | ProgressFormat::Lines) => tell!("[{:7.2} s] {}", begun.elapsed().as_secs_f64(), board.summary()),
                    (None, ProgressFormat::Json | ProgressFormat::None) => {}
                }
                continue;
            }
        };
        let Some(event) = event else { break };
        board.apply_event(&event);
        let seconds = begun.elapsed().as_secs_f64();
        match (&screen, how) {
            (_, ProgressFormat::None) => {}
            (_, ProgressFormat::Json) => {
                if let Some(object) = event_to_json(&event, seconds) {
                    // Bypass the escaping of `tell!`, which would break the JSON.
                    eprintln!("{object}");
                }
            }
            (Some(screen), _) if is_printed_above_screen(&event) => {
                screen.print_message(&wrap_long_lines(&format!(
                    "[{seconds:7.2} s] {}",
                    format_event(&event, &board)
                )));
            }
            (Some(_), _) => {}
            (None, _)
                if matches!(
                    event,
                    Progress::StepEnded { .. } | Progress::ActivityChanged { .. }
                ) => {}
            (None, _) => {
                tell!(
                    "{}",
                    wrap_long_lines(&format!("[{seconds:7.2} s] {}", format_event(&event, &board)))
                );
            }
        }
    }
    if let Some(screen) = screen {
        screen.clear();
    }
}

/// Whether the event is printed permanently above the screen, as endings and problems are. All
/// other events only update the screen.
fn is_printed_above_screen(event: &Progress) -> bool {
    match event {
        Progress::StepEnded { .. }
        | Progress::ActivityChanged { .. }
        | Progress::Started { .. }
        | Progress::WaitStarted { .. }
        | Progress::WaitEnded { .. }
        | Progress::GradingRecorded { .. } => false,
        // A verdict or a grading failure follows, so the ending itself is not printed.
        Progress::Ended { outcome, .. } => outcome.ending.is_unfinished(),
        _ => true,
    }
}
