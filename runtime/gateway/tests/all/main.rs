//! Tests the gateway against a scripted model over real HTTP, and the meter without a network. All
//! tests form one binary because linking is slow.

mod answers;
mod budgets;
mod clients;
mod common;
mod earlier_responses;
mod lost_time;
mod meter;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod outages;
mod parallel;
mod queue_times;
mod rates;
mod raw_endpoint;
mod rejections;
mod request_repairs;
mod resumed_conversations;
mod retries;
mod secret;
mod server;
mod step_events;
mod stream_ends;
mod usage_and_tools;
mod wait_notices;
