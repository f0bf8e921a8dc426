//! The side requests of a trial, such as requests for a title or a summary.

use serde::Serialize;

/// Maximum number of side requests that a page lists. The others are counted.
const MAX_LISTED: usize = 500;

/// A side request. It costs tokens and money but is not a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SideRequest {
    /// The latest step at the time of the response. 0 means before the first step.
    pub step: u64,
    /// The request's number within the trial, counted from 1.
    pub number: u64,
    /// The id of the sub-agent that sent the request. Empty if the agent itself sent it, or if the
    /// record doesn't say.
    pub conversation: String,
    pub path: String,
    pub status: u16,
    /// Why the request failed. Empty if it did not.
    pub error: String,
    pub seconds: f64,
    /// Tokens. `None` if the endpoint did not respond.
    pub tokens: Option<(u64, u64)>,
    pub cost_usd: Option<f64>,
    /// Whether Proctor estimated the tokens because the endpoint did not report them.
    pub estimated: bool,
    /// The first words of the response.
    pub response_text: String,
    /// Hashes of the exact bytes of the request and the response.
    pub request: String,
    pub response: Option<String>,
}

/// The side requests that a page lists.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct SideRequestList<'a> {
    count: usize,
    rows: &'a [SideRequest],
    more: usize,
}

/// Returns the list, or `None` if there are no side requests.
pub(crate) fn list_side_requests(all: &[SideRequest]) -> Option<SideRequestList<'_>> {
    let rows = &all[..all.len().min(MAX_LISTED)];
    let list = SideRequestList { count: all.len(), rows, more: all.len() - rows.len() };
    (!all.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_shortened() {
        assert_eq!(list_side_requests(&[]), None);
        let all = vec![SideRequest::default(); MAX_LISTED + 3];
        let list = list_side_requests(&all).unwrap();
        assert_eq!((list.count, list.rows.len(), list.more), (MAX_LISTED + 3, MAX_LISTED, 3));
    }
}
