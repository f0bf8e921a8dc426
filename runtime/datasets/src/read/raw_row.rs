//! A row as its file contains it.

use serde_json::Value;

use crate::errors::{RowError, RowLocation};

/// One row of a file, or why it cannot be read.
pub(crate) struct RawRow {
    pub location: RowLocation,
    /// The row's split, if the file has one.
    pub split: Option<String>,
    /// The row's key in an object keyed by id.
    pub key: Option<String>,
    pub value: Result<Value, RowError>,
}
