//! Draws the progress lines at the bottom of a terminal. Messages appear above these lines and
//! scroll away.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use proctor_types::escape_unprintable;

/// A display drawn by indicatif. It truncates each line to the terminal's width on every draw,
/// including after a resize.
pub struct Screen {
    progress_bars: MultiProgress,
    rows: Vec<ProgressBar>,
}

impl Screen {
    pub fn new() -> Self {
        Self { progress_bars: MultiProgress::new(), rows: Vec::new() }
    }

    pub fn draw(&mut self, lines: &[String]) {
        while self.rows.len() > lines.len() {
            if let Some(row) = self.rows.pop() {
                self.progress_bars.remove(&row);
            }
        }
        while self.rows.len() < lines.len() {
            let style = ProgressStyle::with_template("{wide_msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
            self.rows.push(self.progress_bars.add(ProgressBar::new_spinner().with_style(style)));
        }
        for (row, line) in self.rows.iter().zip(lines) {
            row.set_message(escape_unprintable(line).into_owned());
        }
    }

    /// Prints a permanent message.
    pub fn print_message(&self, text: &str) {
        // If the terminal is gone, the output is lost and the run continues.
        let _ = self.progress_bars.println(text);
    }

    pub fn clear(self) {
        let _ = self.progress_bars.clear();
    }
}
