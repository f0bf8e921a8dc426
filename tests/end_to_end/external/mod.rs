//! Tests command-line agents: a fake one that misbehaves in every way, and real ones from their
//! packages.

mod bundled_packages;
mod endpoint_faults;
mod fake_agent;
mod memory;
mod real_agents;
