//! Positions in a plot. The appearance is defined by the templates and the style sheet.

use proctor_types::visible;
use serde::Serialize;

/// Units of the view box. Names of arms are left of `LEFT`, values right of `RIGHT`.
const LEFT: f64 = 250.0;
const RIGHT: f64 = 640.0;
const WIDTH: f64 = 780.0;
const ROW: f64 = 30.0;
const TOP: f64 = 26.0;
/// Letters of a name that fit beside a bar.
const NAME: usize = 34;

/// One bar with its whisker.
pub(crate) struct Bar<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: f64,
    pub(crate) ends: Option<[f64; 2]>,
    pub(crate) label: String,
}

/// Horizontal bars from 0 to 1, one per row.
#[derive(Serialize)]
pub(crate) struct Bars {
    id: &'static str,
    title: String,
    width: f64,
    height: f64,
    left: f64,
    top: f64,
    bottom: f64,
    /// Position and label.
    ticks: Vec<(f64, String)>,
    rows: Vec<BarRow>,
}

#[derive(Serialize)]
struct BarRow {
    name: String,
    label: String,
    text_y: f64,
    label_x: f64,
    y: f64,
    height: f64,
    width: f64,
    whisker: Option<Whisker>,
}

#[derive(Serialize)]
struct Whisker {
    from: f64,
    to: f64,
    at: f64,
    low: f64,
    high: f64,
}

pub(crate) fn bars(id: &'static str, title: &str, all: &[Bar<'_>]) -> Bars {
    let x = |share: f64| tenth(LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0));
    let rows = all.iter().enumerate().map(|(index, bar)| {
        let y = TOP + ROW * index as f64;
        let middle = y + ROW / 2.0;
        BarRow {
            name: shortened(bar.name),
            label: bar.label.clone(),
            text_y: middle + 4.0,
            label_x: RIGHT + 12.0,
            y: y + 6.0,
            height: ROW - 12.0,
            width: tenth(x(bar.value) - LEFT),
            whisker: bar.ends.map(|[from, to]| Whisker {
                from: x(from),
                to: x(to),
                at: middle,
                low: middle - 5.0,
                high: middle + 5.0,
            }),
        }
    });
    let rows: Vec<_> = rows.collect();
    let bottom = TOP + ROW * rows.len() as f64;
    Bars {
        id,
        title: title.to_owned(),
        width: WIDTH,
        height: bottom + 8.0,
        left: LEFT,
        top: TOP - 6.0,
        bottom,
        ticks: shares().map(|share| (x(share), format!("{:.0} %", share * 100.0))).collect(),
        rows,
    }
}

/// One point with its whisker.
pub(crate) struct Dot<'a> {
    pub(crate) name: &'a str,
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) ends: Option<[f64; 2]>,
    /// As in the table and the legend, counted from 1.
    pub(crate) number: usize,
}

/// Points with a share on the vertical axis.
#[derive(Serialize)]
pub(crate) struct Scatter {
    id: &'static str,
    title: String,
    x_title: String,
    y_title: String,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    bottom: f64,
    x_ticks: Vec<(f64, String)>,
    y_ticks: Vec<(f64, String)>,
    dots: Vec<PlacedDot>,
}

#[derive(Serialize)]
struct PlacedDot {
    name: String,
    number: usize,
    /// 0 to 3: the shape drawn at the point. With more than four points, only the number
    /// distinguishes them.
    shape: usize,
    x: f64,
    y: f64,
    label_x: f64,
    label_y: f64,
    whisker: Option<(f64, f64)>,
}

pub(crate) fn scatter(
    id: &'static str,
    titles: [&str; 3],
    dots: &[Dot<'_>],
    x_word: impl Fn(f64) -> String,
) -> Scatter {
    const FROM: f64 = 64.0;
    const TO: f64 = 740.0;
    const BOTTOM: f64 = 300.0;
    let most = dots.iter().map(|dot| dot.x).fold(0.0, f64::max);
    let step = round_step(most / 5.0);
    let end = (most / step).ceil().max(1.0) * step;
    let x = |value: f64| tenth(FROM + (TO - FROM) * value / end);
    let y = |share: f64| tenth(BOTTOM - (BOTTOM - 20.0) * share.clamp(0.0, 1.0));
    let placed = dots.iter().map(|dot| PlacedDot {
        name: visible(dot.name).into_owned(),
        number: dot.number,
        shape: (dot.number + 3) % 4,
        x: x(dot.x),
        y: y(dot.y),
        label_x: x(dot.x) + 9.0,
        label_y: y(dot.y) - 7.0,
        whisker: dot.ends.map(|[low, high]| (y(low), y(high))),
    });
    let count = (end / step).round() as usize;
    let [title, x_title, y_title] = titles.map(str::to_owned);
    Scatter {
        id,
        title,
        x_title,
        y_title,
        width: WIDTH,
        height: BOTTOM + 48.0,
        left: FROM,
        right: TO,
        bottom: BOTTOM,
        x_ticks: (0..=count).map(|n| n as f64 * step).map(|at| (x(at), x_word(at))).collect(),
        y_ticks: shares().map(|share| (y(share), format!("{:.0} %", share * 100.0))).collect(),
        dots: placed.collect(),
    }
}

fn shares() -> impl Iterator<Item = f64> {
    [0.0, 0.25, 0.5, 0.75, 1.0].into_iter()
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= least * 0.999_999);
    times.unwrap_or(10.0) * power
}

/// More digits would be noise in the file.
pub(crate) fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A name that fits; the table below has the full one.
fn shortened(name: &str) -> String {
    let name = visible(name);
    match name.char_indices().nth(NAME - 1) {
        Some((at, _)) if name.chars().count() > NAME => format!("{}\u{2026}", &name[..at]),
        _ => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plot_axes_end_at_round_numbers() {
        for (least, step) in [(0.0, 1.0), (0.013, 0.02), (0.2, 0.2), (3.1, 5.0), (7.0, 10.0)] {
            let found = round_step(least);
            assert!((found - step).abs() < 1e-9, "{least}: {found}");
        }
    }

    #[test]
    fn plot_marks_stay_inside() {
        let dot = |x, y| Dot { name: "a", x, y, ends: Some([0.0, 1.0]), number: 1 };
        let plot = scatter("p", ["", "", ""], &[dot(0.37, 0.0), dot(12.5, 1.0)], |_| String::new());
        for dot in &plot.dots {
            assert!((plot.left..=plot.right).contains(&dot.x), "{}", dot.x);
            assert!((0.0..=plot.bottom).contains(&dot.y), "{}", dot.y);
        }
        let bar = Bar { name: "a", value: 1.0, ends: Some([0.2, 1.0]), label: String::new() };
        let plot = bars("p", "", &[bar]);
        assert!(plot.rows[0].width + LEFT <= RIGHT);
        assert_eq!(shortened(&"x".repeat(80)).chars().count(), NAME);
    }
}
