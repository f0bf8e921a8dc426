//! The nouns of Proctor: what a task, an arm, a trial, an event, an outcome and a verdict are.
//!
//! This crate is the ground that every other crate stands on. It holds data and how it is read,
//! and nothing that acts: no I/O, no clock, no async. What is written to disk is defined here.

#![warn(missing_docs)]

mod arm;
mod attack_certificate;
mod budget;
mod certificate;
mod clock;
mod cpus;
mod details;
mod egress;
mod environment;
mod event;
mod evidence_class;
mod fault;
mod fork;
mod ids;
mod label;
mod limits;
mod message;
mod model;
mod noise;
mod one_line;
mod outcome;
mod package;
mod plain_words;
mod plural;
mod python_json;
mod quality;
mod reason;
mod repository_settings;
mod request_changes;
mod requests;
mod responder;
mod run;
mod sandbox;
mod statement;
mod tables;
mod task;
mod test_names;
mod user;
mod verdict;
mod visible;

pub use arm::*;
pub use attack_certificate::*;
pub use budget::*;
pub use certificate::*;
pub use clock::*;
pub use cpus::cpu_variables;
pub use details::*;
pub use egress::*;
pub use environment::*;
pub use event::*;
pub use evidence_class::*;
pub use fault::*;
pub use fork::*;
pub use ids::*;
pub use label::*;
pub use limits::*;
pub use message::*;
pub use model::*;
pub use noise::*;
pub use one_line::{harmless, one_line};
pub use outcome::*;
pub use package::*;
pub use plain_words::{of_io, plain_words, with_causes};
pub use plural::*;
pub use python_json::python_json;
pub use quality::*;
pub use reason::*;
pub use repository_settings::*;
pub use request_changes::*;
pub use requests::*;
pub use responder::*;
pub use run::*;
pub use sandbox::*;
pub use statement::*;
pub use tables::{ShippedTable, from_toml};
pub use task::*;
pub use test_names::*;
pub use verdict::*;
pub use visible::{visible, visible_line};
