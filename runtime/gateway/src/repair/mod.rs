//! Repairs of requests that an endpoint rejects for their form: `configs/repairs.toml`.

mod action;
mod body;
mod ids;
mod reasoning;
mod schema;
mod table;
mod turns;

pub(crate) use action::{Action, Repair};
pub(crate) use table::Repairs;
