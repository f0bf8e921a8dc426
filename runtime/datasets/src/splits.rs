use crate::errors::RowError;

/// Selects the rows of one split in a file that contains several.
pub(crate) struct SplitFilter {
    requested_split: Option<String>,
    first_split: Option<String>,
    is_reported: bool,
}

impl SplitFilter {
    pub(crate) fn new(requested_split: Option<String>) -> Self {
        Self { requested_split, first_split: None, is_reported: false }
    }

    /// Whether to use the rows of a split. If no split was requested, a file with a second split is
    /// ambiguous and is rejected.
    pub(crate) fn includes(&mut self, split: &str) -> Result<bool, RowError> {
        if let Some(wanted) = &self.requested_split {
            return Ok(wanted == split);
        }
        let first = self.first_split.get_or_insert_with(|| split.to_owned());
        if first == split {
            return Ok(true);
        }
        let told = std::mem::replace(&mut self.is_reported, true);
        let what = format!(
            "has several splits, such as {first} and {split}; choose one, as in `#split={first}`"
        );
        if told { Ok(false) } else { Err(RowError::invalid_row(what)) }
    }
}
