//! Converts times between Proctor's format and other tools' formats.

use time::{
    OffsetDateTime, PrimitiveDateTime, format_description::well_known::Iso8601,
    format_description::well_known::Rfc3339,
};

/// Formats a time (in seconds since the Unix epoch) as ISO 8601 with microseconds. Returns `None`
/// for 0, which means that the imported file had no times.
pub(crate) fn format_timestamp(seconds: f64) -> Option<String> {
    let microseconds = (seconds * 1e6).round();
    if !microseconds.is_finite() || microseconds == 0.0 {
        return None;
    }
    let at = OffsetDateTime::from_unix_timestamp_nanos(microseconds as i128 * 1_000).ok()?;
    at.format(&Rfc3339).ok()
}

/// Parses an ISO 8601 time. If the time has no zone, it is assumed to be UTC.
pub(crate) fn parse_timestamp(text: &str) -> Option<f64> {
    let at = OffsetDateTime::parse(text, &Iso8601::PARSING)
        .or_else(|_| {
            PrimitiveDateTime::parse(text, &Iso8601::PARSING).map(PrimitiveDateTime::assume_utc)
        })
        .ok()?;
    Some((at.unix_timestamp_nanos() / 1_000) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_round_trips() {
        for at in [1_764_000_000.123457, 1_764_000_000.0, 1.5, 1_799_999_999.999999] {
            assert_eq!(parse_timestamp(&format_timestamp(at).unwrap()), Some(at));
        }
        assert_eq!(format_timestamp(0.0), None);
        assert_eq!(parse_timestamp("2025-11-24T16:00:00"), Some(1_764_000_000.0));
        assert_eq!(parse_timestamp("2025-11-24T17:00:00+01:00"), Some(1_764_000_000.0));
        assert_eq!(parse_timestamp("yesterday"), None);
    }
}
