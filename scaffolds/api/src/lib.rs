//! What a scaffold is: the loop that turns model answers into actions.
//!
//! A [`Scaffold`] is driven over one [`Session`]: it asks the model and acts in the sandbox until it
//! submits or the session stops it. Budgets, recording and snapshots are the session's business, so
//! a scaffold cannot forget them.

mod scaffold;
mod session;

pub use scaffold::{Finish, Scaffold};
pub use session::{Brief, ModelEndpoint, Session, Stop, ToolDone};
