//! Formats rates, amounts, ratios and counts for display.

use crate::Ratio;

/// Formats an interval with a line break in front, so that it appears below the rate.
pub(crate) fn format_interval(interval: Option<[f64; 2]>) -> String {
    interval.map_or_else(String::new, |[lower, upper]| {
        format!("\n{:.1} - {:.1}", lower * 100.0, upper * 100.0)
    })
}

/// Formats a rate: `100%`, `41.7%`. Rates below 100% are never shown as 100%, and rates above 0
/// are never shown as 0.
pub fn format_percent(rate: f64) -> String {
    // Avoid `-0%`: the sum of an empty list of floats is -0.0.
    let rate = rate + 0.0;
    let tenths = (rate * 1000.0).round() / 10.0;
    if rate <= 0.0 || rate >= 1.0 {
        format!("{:.0}%", rate * 100.0)
    } else {
        format!("{:.1}%", tenths.clamp(0.1, 99.9))
    }
}

/// Formats dollars: `$123`, `$12.30`, `$0.42`, `$0.0042`. Amounts of 100 dollars or more have no
/// decimals, amounts below 10 cents have more than two, and all others have two.
pub fn format_dollars(amount: f64) -> String {
    if amount >= 100.0 {
        return format!("${amount:.0}");
    }
    if amount >= 1.0 || amount <= 0.0 {
        return format!("${amount:.2}");
    }
    let digits = (1.0 - amount.log10().floor()).clamp(2.0, 8.0) as usize;
    format!("${amount:.digits$}")
}

/// Formats a ratio with two significant digits: `1.3`, `0.85`, `12`. Ratios near 1 have more digits, so
/// that only 1 itself is shown as 1.
pub fn format_ratio(ratio: f64) -> String {
    if ratio >= 9.95 {
        return format!("{ratio:.0}");
    }
    if ratio <= 0.0 {
        return "0".to_owned();
    }
    if (0.95..1.05).contains(&ratio) {
        let is_not_one = |text: &String| text.parse::<f64>().is_ok_and(|shown| shown != 1.0);
        let shown = (2..=4).map(|digits| format!("{ratio:.digits$}")).find(is_not_one);
        return shown.unwrap_or_else(|| "1.0".to_owned());
    }
    if ratio > 1.0 {
        return format!("{ratio:.1}");
    }
    let digits = (1.0 - ratio.log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{ratio:.digits$}")
}

/// Formats a ratio's interval: `0.040 to 6.9`, `at most 6.9`, or `at least 1.2`. `None` if the data gives
/// no bound.
pub fn format_ratio_interval(ratio: Ratio) -> Option<String> {
    // A lower end of 0 is no bound, because no ratio is negative.
    match (ratio.lower.filter(|lower| *lower > 0.0), ratio.upper) {
        (Some(lower), Some(upper)) => {
            Some(format!("{} to {}", format_ratio(lower), format_ratio(upper)))
        }
        (Some(lower), None) => Some(format!("at least {}", format_ratio(lower))),
        (None, Some(upper)) => Some(format!("at most {}", format_ratio(upper))),
        (None, None) => None,
    }
}

/// Formats a count: `950`, `12.3k`, `4.56M`.
pub fn abbreviate_count(count: f64) -> String {
    if count >= 1e6 {
        format!("{:.2}M", count / 1e6)
    } else if count >= 1e4 {
        format!("{:.1}k", count / 1e3)
    } else {
        format!("{count:.0}")
    }
}

/// Converts the first letter to upper case.
pub(crate) fn capitalize(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

#[cfg(test)]
mod tests {
    use super::{format_dollars, format_ratio, format_ratio_interval};
    use crate::Ratio;

    #[test]
    fn ratio_is_formatted_with_two_significant_digits() {
        for (ratio, shown) in [
            (1.342, "1.3"),
            (1.06, "1.1"),
            (1.042, "1.04"),
            (1.0, "1.0"),
            (0.9999999, "1.0"),
            (0.999, "0.999"),
            (0.854, "0.85"),
            (0.0512, "0.051"),
            (9.96, "10"),
            (123.4, "123"),
            (0.0, "0"),
        ] {
            assert_eq!(format_ratio(ratio), shown);
        }
    }

    #[test]
    fn ratio_interval_has_no_lower_end_of_zero() {
        for (lower, upper, shown) in [
            (Some(0.04), Some(6.94), Some("0.040 to 6.9")),
            (Some(0.0), Some(6.94), Some("at most 6.9")),
            (Some(1.2), None, Some("at least 1.2")),
            (Some(0.0), None, None),
            (None, None, None),
        ] {
            let ratio = Ratio { value: 3.0, lower, upper };
            assert_eq!(format_ratio_interval(ratio).as_deref(), shown);
        }
    }

    #[test]
    fn dollars_are_rounded_by_magnitude() {
        for (amount, shown) in [
            (1234.5, "$1234"),
            (12.3, "$12.30"),
            (0.4234, "$0.42"),
            (0.00421, "$0.0042"),
            (0.0, "$0.00"),
        ] {
            assert_eq!(format_dollars(amount), shown);
        }
    }
}
