//! Formats rates, amounts and counts for display.

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
    use super::format_dollars;

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
