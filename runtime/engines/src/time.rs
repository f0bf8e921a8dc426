//! Parses Slurm's time format.

use std::time::Duration;

/// Parses `minutes`, `minutes:seconds`, `hours:minutes:seconds` or
/// `days-hours[:minutes[:seconds]]`. Returns `None` if the text means no limit or is not a time.
pub fn parse_slurm_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), rest),
        None => (None, text),
    };
    let numbers: Option<Vec<u64>> = rest.split(':').map(|part| part.parse().ok()).collect();
    let (hours, minutes, seconds) = match (days.is_some(), numbers?.as_slice()) {
        (false, [minutes]) => (0, *minutes, 0),
        (false, [minutes, seconds]) => (0, *minutes, *seconds),
        (true, [hours]) => (*hours, 0, 0),
        (true, [hours, minutes]) => (*hours, *minutes, 0),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let hours = days.unwrap_or_default().checked_mul(24)?.checked_add(hours)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    Some(Duration::from_secs(minutes.checked_mul(60)?.checked_add(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_slurm_duration_accepts_slurm_times() {
        for (text, seconds) in [
            ("5", Some(300)),
            ("1:30", Some(90)),
            ("2:00:01", Some(7201)),
            ("1-2", Some(93_600)),
            ("1-02:03:04", Some(93_784)),
            ("1-2:3", Some(93_780)),
            (" 0:42\n", Some(42)),
            ("UNLIMITED", None),
            ("INVALID", None),
            ("NOT_SET", None),
            ("", None),
            ("1:2:3:4", None),
            ("18446744073709551615-0", None),
        ] {
            assert_eq!(parse_slurm_duration(text), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
