//! The simulated time of a task's commands.

use std::collections::BTreeMap;

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::Task;

/// Path of the library in a sandbox that overrides the time for programs.
pub const CLOCK_LIBRARY: &str = "/var/lib/proctor/clock.so";

/// Environment variable that passes the time to that library, in nanoseconds since 1970.
pub const CLOCK_VARIABLE: &str = "PROCTOR_CLOCK";

/// Converts an RFC 3339 time to nanoseconds since 1970. Returns `None` for an invalid time and for
/// years outside 1971 to 2199.
///
/// ```
/// use proctor_types::parse_clock_time;
///
/// assert_eq!(parse_clock_time("2024-05-01T00:00:00Z"), Some(1_714_521_600_000_000_000));
/// assert_eq!(parse_clock_time("2024-05-01T02:00:00+02:00"), parse_clock_time("2024-05-01T00:00:00Z"));
/// assert_eq!(parse_clock_time("2024-05-01"), None);
/// assert_eq!(parse_clock_time("1969-07-20T20:17:40Z"), None);
/// ```
pub fn parse_clock_time(text: &str) -> Option<i64> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let within = (1971..2200).contains(&moment.year());
    i64::try_from(moment.unix_timestamp_nanos()).ok().filter(|_| within)
}

impl Task {
    /// Returns the environment variables for every command in the task's sandboxes: the task's own,
    /// its user's `HOME`, and those that set the clock.
    pub fn command_env(&self) -> BTreeMap<String, String> {
        const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
        let mut env = self.env.clone();
        if let Some(home) = self.user_home() {
            env.entry("HOME".to_owned()).or_insert(home);
        }
        if let Some(moment) = self.clock.as_deref().and_then(parse_clock_time) {
            let own = env.remove(PRELOAD_VARIABLE).map(|own| format!(":{own}")).unwrap_or_default();
            env.insert(PRELOAD_VARIABLE.to_owned(), format!("{CLOCK_LIBRARY}{own}"));
            env.insert(CLOCK_VARIABLE.to_owned(), moment.to_string());
        }
        env
    }
}
