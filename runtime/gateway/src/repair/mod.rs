//! Repairs requests whose form an endpoint rejects. The repairs are listed in
//! `configs/tables/repairs.toml`.

mod action;
mod body;
mod ids;
mod members;
mod reasoning;
mod schema;
mod table;
mod turns;

pub(crate) use action::{Action, NO_STREAM, Repair};
pub(crate) use table::RepairTable;
