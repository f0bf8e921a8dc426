//! The `proctor` binary, end to end, as its users call it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first thing that is not there")]

mod arrows;
mod attacked_shapes;
mod attacks;
mod book;
mod browser;
mod budgets;
mod bundles;
mod certificate;
mod clock;
mod collect;
mod collect_pulls;
mod compare;
mod content_match;
mod contributing;
mod curve;
mod damage;
mod demo;
mod egress;
mod egress_clients;
mod endpoints;
mod exhaustion;
mod export;
mod extend;
mod external;
mod faults;
mod fea_bench;
mod featurebench;
mod first_hour;
mod forensics;
mod fork;
mod grade_log;
mod halted;
mod honest;
mod host;
mod import;
mod impossible;
mod init;
mod lasting;
mod limits;
mod local_model;
mod lying_tasks;
mod many_gradings;
mod mask;
mod matrix;
mod mistakes;
mod noise;
#[path = "../not_run.rs"]
mod not_run;
mod open_files;
mod paid;
mod preflight;
mod prompts;
mod resume;
mod rootless;
mod rules;
mod scripted;
mod settings;
mod shipped_configs;
mod single_shot;
mod site;
mod soak;
mod stage;
mod stateful;
mod survival;
mod swe_bench;
mod swe_row;
mod tasks;
#[path = "../tier.rs"]
mod tier;
mod upstream;
#[path = "../users.rs"]
mod users;
mod view;
mod waits;
