//! Tests command-line agents: a fake agent that misbehaves in every possible way, and real agents
//! from their packages.

mod bundled_packages;
mod endpoint_faults;
mod fake_agent;
mod memory;
mod real_agents;
