//! Tests attacks on grading. Each test shows that a defense stops the attack, and that the attack
//! succeeds or is no longer detected without that defense.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod agreement;
mod attack;
mod attempts;
mod bench;
mod content;
mod exhaustion;
mod falsified_results;
mod holes;
mod honest;
mod indirect;
mod known;
mod loading;
mod mutation;
mod native;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod official;
mod pack;
mod reading;
mod recorder_attacks;
mod report_canaries;
mod reports;
mod restart;
mod results;
mod roots;
#[path = "../../../../tests/sample.rs"]
mod sample;
mod sandbox_damage;
mod scratch;
mod screening;
mod sight;
mod table;
#[path = "../../../../tests/tier.rs"]
mod tier;
mod tree;
mod versions;
