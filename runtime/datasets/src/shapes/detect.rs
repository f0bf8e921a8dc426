//! Detects a row's shape from its field names.

use std::cmp::Reverse;

use serde_json::{Map, Value};

use super::shape::Shape;
use crate::errors::RowError;

/// Returns the only shape that the row matches.
pub(crate) fn detect_shape<'a>(
    row: &Map<String, Value>,
    shapes: &'a [Shape],
) -> Result<&'a Shape, RowError> {
    let mut marks = shapes.iter().filter_map(|shape| Some((shape, find_mark(row, shape)?)));
    if let (Some((one, first)), Some((two, second))) = (marks.next(), marks.next()) {
        return Err(RowError::invalid_row(format!(
            "has fields of both {} (`{first}`) and {} (`{second}`); choose one with `#shape=`",
            one.name, two.name
        )));
    }
    let mut fitting = shapes.iter().filter(|shape| matches_shape(row, shape));
    match (fitting.next(), fitting.next()) {
        (Some(shape), None) => Ok(shape),
        (Some(one), Some(two)) => Err(RowError::invalid_row(format!(
            "matches both {} and {}; choose one with `#shape=`",
            one.name, two.name
        ))),
        (None, _) => Err(no_match_error(row, shapes)),
    }
}

/// Returns the row's first field that only this shape has. Null values do not count, because tables
/// that combine several benchmarks have every column.
fn find_mark<'a>(row: &Map<String, Value>, shape: &'a Shape) -> Option<&'a str> {
    let borne = |name: &&String| row.get(*name).is_some_and(|value| !value.is_null());
    shape.detect.marks.iter().find(borne).map(String::as_str)
}

fn matches_shape(row: &Map<String, Value>, shape: &Shape) -> bool {
    let has = |name: &String| row.contains_key(name);
    let rules = &shape.detect;
    rules.all.iter().all(has)
        && (rules.any.is_empty() || rules.any.iter().any(has))
        && !rules.none.iter().any(has)
}

/// Reports the closest shape and its missing fields.
fn no_match_error(row: &Map<String, Value>, shapes: &[Shape]) -> RowError {
    let missing = |shape: &Shape| -> Vec<String> {
        shape.detect.all.iter().filter(|name| !row.contains_key(*name)).cloned().collect()
    };
    let nearest = shapes.iter().min_by_key(|shape| {
        let odd = shape.detect.none.iter().filter(|name| row.contains_key(*name)).count();
        // If two shapes have equally many missing fields, the one with more required fields is closer.
        (missing(shape).len() + odd, Reverse(shape.detect.all.len()))
    });
    let what = match nearest {
        Some(shape) if !missing(shape).is_empty() => format!(
            "matches no known shape; the closest is {}, but the row lacks `{}`",
            shape.name,
            missing(shape).join("`, `")
        ),
        _ => "matches no known shape; choose one with `#shape=`".to_owned(),
    };
    RowError::invalid_row(what)
}
