//! Moments as others write them.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Seconds since the epoch as ISO 8601.
pub(crate) fn timestamp(seconds: f64) -> Option<String> {
    let nanoseconds = (seconds * 1e9).round();
    if !nanoseconds.is_finite() {
        return None;
    }
    let at = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds as i128).ok()?;
    at.format(&Rfc3339).ok()
}
