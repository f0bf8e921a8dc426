//! Repairs of requests that an endpoint rejects for their form: `configs/repairs.toml`.

mod action;
mod schema;
mod table;

pub(crate) use action::{Action, Repair};
pub(crate) use table::Repairs;
