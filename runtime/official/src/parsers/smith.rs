//! Port of SWE-smith's Python profile, which reads verbose lines such as `name STATUS`.

use crate::parsers::{StatusMap, statuses::STATUSES, text::is_space};

pub(super) fn parse(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let Some(end) = line.find(is_space).filter(|end| *end > 0) else { continue };
        let (name, rest) = line.split_at(end);
        let rest = rest.trim_start_matches(is_space);
        if let Some(status) = STATUSES.iter().find(|status| rest.starts_with(**status)) {
            map.set(name, *status);
        }
    }
    map
}
