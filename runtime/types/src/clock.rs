//! The time at which a task's commands start.

use std::collections::BTreeMap;

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::Task;

/// The path in a sandbox of the library that gives programs the time.
pub const CLOCK_LIBRARY: &str = "/var/lib/proctor/clock.so";

/// The time for that library, in nanoseconds since 1970.
pub const CLOCK_VARIABLE: &str = "PROCTOR_CLOCK";

/// Nanoseconds since 1970. `None`: not an RFC 3339 time, or not between 1971 and 2200.
///
/// ```
/// use proctor_types::clock_moment;
///
/// assert_eq!(clock_moment("2024-05-01T00:00:00Z"), Some(1_714_521_600_000_000_000));
/// assert_eq!(clock_moment("2024-05-01T02:00:00+02:00"), clock_moment("2024-05-01T00:00:00Z"));
/// assert_eq!(clock_moment("2024-05-01"), None);
/// assert_eq!(clock_moment("1969-07-20T20:17:40Z"), None);
/// ```
pub fn clock_moment(text: &str) -> Option<i64> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let within = (1971..2200).contains(&moment.year());
    i64::try_from(moment.unix_timestamp_nanos()).ok().filter(|_| within)
}

impl Task {
    /// The variables of every command in a sandbox of the task: its own, its user's home, and those
    /// that set the task's time.
    pub fn command_env(&self) -> BTreeMap<String, String> {
        const PRELOAD: &str = "LD_PRELOAD";
        let mut env = self.env.clone();
        if let Some(home) = self.user_home() {
            env.entry("HOME".to_owned()).or_insert(home);
        }
        if let Some(moment) = self.clock.as_deref().and_then(clock_moment) {
            let own = env.remove(PRELOAD).map(|own| format!(":{own}")).unwrap_or_default();
            env.insert(PRELOAD.to_owned(), format!("{CLOCK_LIBRARY}{own}"));
            env.insert(CLOCK_VARIABLE.to_owned(), moment.to_string());
        }
        env
    }
}
