//! Geometry of the report's charts. Horizontal positions are percentages, so that text has the same
//! size on a phone and on paper. The templates and the style sheet define how charts look.

use serde::Serialize;

/// A tick's position and label, and the CSS class that aligns the label with the position.
pub(crate) type Tick = (f64, String, &'static str);

/// A chart whose rows each have a name, a mark on a common scale, and the value as text.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StripChart {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) caption: String,
    pub(crate) ticks: Vec<Tick>,
    /// The position of 0. `None` if 0 is at the left edge.
    pub(crate) zero: Option<f64>,
    pub(crate) rows: Vec<StripRow>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct StripRow {
    pub(crate) name: String,
    /// The arm's number. 0 for a pair of arms.
    pub(crate) number: usize,
    /// Whether the difference is statistically distinguishable from 0.
    pub(crate) strong: bool,
    /// Start and width of the bar.
    pub(crate) bar: Option<(f64, f64)>,
    /// Start and end of the interval.
    pub(crate) range: Option<(f64, f64)>,
    /// Whether the interval is cut off at the end of the scale.
    pub(crate) open: bool,
    pub(crate) point: Option<f64>,
    pub(crate) value: String,
    pub(crate) detail: String,
}

/// A chart of points and lines on two axes. Vertical positions are percentages from the top.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PlaneChart {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) x_title: String,
    pub(crate) y_title: String,
    pub(crate) x_ticks: Vec<Tick>,
    pub(crate) y_ticks: Vec<(f64, String)>,
    pub(crate) lines: Vec<PlotLine>,
    pub(crate) dots: Vec<PlotDot>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PlotLine {
    pub(crate) class: String,
    /// SVG path data, in percent of each axis.
    pub(crate) path: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PlotDot {
    /// The arm's number.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Upper and lower ends of the whisker.
    pub(crate) range: Option<(f64, f64)>,
    pub(crate) filled: bool,
    /// The offset of the number's label from the point, in pixels.
    pub(crate) dx: i32,
    pub(crate) dy: i32,
    pub(crate) anchor: &'static str,
}

/// A scale from 0 to a round number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    pub(crate) end: f64,
    pub(crate) step: f64,
}

impl Axis {
    /// A scale for fractions, from 0 to 1.
    pub(crate) const FRACTIONS: Self = Self { end: 1.0, step: 0.25 };

    /// Returns a scale that ends at or above `largest_value`.
    pub(crate) fn up_to(largest_value: f64) -> Self {
        let step = round_step(largest_value / 4.0);
        Self { end: (largest_value / step - 1e-9).ceil().max(1.0) * step, step }
    }

    /// Returns a value's position, measured from the left or from the bottom.
    pub(crate) fn position(&self, value: f64) -> f64 {
        round_to_hundredth(100.0 * (value / self.end).clamp(0.0, 1.0))
    }

    /// Returns a value's position, measured from the top.
    pub(crate) fn position_from_top(&self, value: f64) -> f64 {
        round_to_hundredth(100.0 - self.position(value))
    }

    /// Returns the values at which the scale has ticks.
    pub(crate) fn tick_values(&self) -> impl Iterator<Item = f64> {
        let step = self.step;
        (0..=(self.end / step).round() as u32).map(move |count| f64::from(count) * step)
    }

    pub(crate) fn ticks(&self, format_value: impl Fn(f64) -> String) -> Vec<Tick> {
        self.tick_values().map(|value| tick(self.position(value), format_value(value))).collect()
    }

    pub(crate) fn ticks_from_top(
        &self,
        format_value: impl Fn(f64) -> String,
    ) -> Vec<(f64, String)> {
        self.tick_values()
            .map(|value| (self.position_from_top(value), format_value(value)))
            .collect()
    }
}

/// Creates a tick. If the tick is at the edge of a chart, its label is aligned so that it stays
/// inside the page.
pub(crate) fn tick(position: f64, label: String) -> Tick {
    let anchor = if position < 2.0 {
        "start"
    } else if position > 98.0 {
        "end"
    } else {
        "mid"
    };
    (position, label, anchor)
}

/// Formats a tick label, such as `25%`. Uses one decimal (`0.5%`) if whole numbers would make
/// several labels equal.
pub(crate) fn format_percent_tick(fraction: f64) -> String {
    let percent = round_to_tenth(fraction * 100.0);
    if percent.fract() == 0.0 { format!("{percent:.0}%") } else { format!("{percent:.1}%") }
}

/// Returns where to draw each point's number, so that no two numbers overlap even on a phone. Point
/// positions are in percent.
pub(crate) fn label_offsets(points: &[(f64, f64)]) -> Vec<(i32, i32, &'static str)> {
    /// Pixels per percent in a chart that is 390 pixels wide.
    const PIXELS_PER_PERCENT_X: f64 = 3.0;
    const PIXELS_PER_PERCENT_Y: f64 = 2.2;
    const OFFSET_CHOICES: [(i32, i32, &str); 4] =
        [(11, -8, ""), (11, 18, ""), (-11, -8, "end"), (-11, 18, "end")];
    let mut taken: Vec<(f64, f64)> = Vec::new();
    let mut chosen_offsets = Vec::new();
    for (x, y) in points {
        let place = |choice: &(i32, i32, &str)| {
            (
                x * PIXELS_PER_PERCENT_X + f64::from(choice.0),
                y * PIXELS_PER_PERCENT_Y + f64::from(choice.1),
            )
        };
        let is_free = |choice: &&(i32, i32, &str)| {
            let (left, top) = place(choice);
            taken.iter().all(|other| (left - other.0).abs() > 16.0 || (top - other.1).abs() > 14.0)
        };
        let choice = OFFSET_CHOICES.iter().find(is_free).copied().unwrap_or(OFFSET_CHOICES[0]);
        taken.push(place(&choice));
        chosen_offsets.push(choice);
    }
    chosen_offsets
}

/// Returns the smallest 1, 2 or 5 times a power of ten that is at least `min_step`.
pub(crate) fn round_step(min_step: f64) -> f64 {
    if min_step <= 0.0 || !min_step.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(min_step.log10().floor());
    let times =
        [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= min_step * 0.999_999);
    times.unwrap_or(10.0) * power
}

/// Rounds to a tenth. More digits would only make the file larger.
pub(crate) fn round_to_tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Rounds a position to a hundredth of a percent, which is less than a pixel.
pub(crate) fn round_to_hundredth(value: f64) -> f64 {
    (value * 100.0).round() / 100.0 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (least, step) in [(0.0, 1.0), (0.013, 0.02), (0.2, 0.2), (3.1, 5.0), (7.0, 10.0)] {
            let found = round_step(least);
            assert!((found - step).abs() < 1e-9, "{least}: {found}");
        }
        for (most, end) in [(0.0, 1.0), (4.0, 4.0), (0.37, 0.4), (61.0, 80.0), (410.0, 600.0)] {
            let axis = Axis::up_to(most);
            assert!((axis.end - end).abs() < 1e-9, "{most}: {axis:?}");
            assert!((axis.tick_values().last().unwrap_or(0.0) - end).abs() < 1e-9, "{axis:?}");
        }
    }

    #[test]
    fn axis_positions_stay_on_the_chart() {
        let axis = Axis::up_to(2.0);
        assert_eq!(
            [axis.position(-1.0), axis.position(0.5), axis.position(9.0)],
            [0.0, 25.0, 100.0]
        );
        assert_eq!([axis.position_from_top(0.0), axis.position_from_top(2.0)], [100.0, 0.0]);
        let labels: Vec<_> = axis.ticks(|value| format!("{value}"));
        assert_eq!(labels[0], (0.0, "0".to_owned(), "start"));
        assert_eq!(labels[2], (50.0, "1".to_owned(), "mid"));
        assert_eq!(labels[4], (100.0, "2".to_owned(), "end"));
    }

    #[test]
    fn labels_of_close_points_do_not_overlap() {
        let all = label_offsets(&[(50.0, 50.0), (51.0, 50.0), (50.0, 51.0), (90.0, 10.0)]);
        assert_eq!(all[0], (11, -8, ""));
        assert_eq!(all[3], (11, -8, ""), "no other point is close");
        assert!(all[1] != all[0] && all[2] != all[0] && all[2] != all[1], "{all:?}");
    }
}
