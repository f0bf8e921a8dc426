//! What a scaffold is: the loop that turns model answers into actions.
//!
//! A [`Scaffold`] is driven over one [`Session`]: it asks the model and acts in the sandbox until it
//! submits or the session stops it. Budgets, recording and snapshots are the session's business, so
//! a scaffold cannot forget them.
//!
//! The shortest scaffold that asks a model takes one answer and is done:
//!
//! ```
//! use async_trait::async_trait;
//! use proctor_scaffold_api::{Finish, Scaffold, Session, Stop};
//! use proctor_types::{Ask, Message};
//! use serde_json::{Value, json};
//!
//! struct OneAnswer;
//!
//! #[async_trait]
//! impl Scaffold for OneAnswer {
//!     fn name(&self) -> &str {
//!         "one-answer"
//!     }
//!
//!     // All that the model is shown besides the task: two arms that differ in it are two arms.
//!     fn factors(&self) -> Value {
//!         json!({})
//!     }
//!
//!     fn needs_model(&self) -> bool {
//!         true
//!     }
//!
//!     async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
//!         let statement = session.brief().statement.clone();
//!         let messages = vec![Message::User { content: statement }];
//!         session.ask(&Ask { messages, tools: Vec::new() }).await?;
//!         Ok(Finish::Submitted)
//!     }
//! }
//!
//! assert_eq!(OneAnswer.name(), "one-answer");
//! ```

#![warn(missing_docs)]

mod limits;
mod material;
mod overlay;
mod scaffold;
mod session;
mod template;

pub use limits::Limits;
pub use material::{Gold, GoldFile, Material, StartTree};
pub use overlay::{Overlay, WrongPrompts};
pub use proctor_types::Traffic;
pub use scaffold::{Finish, OwnSandbox, Sampling, Scaffold, WrongSetting};
pub use session::{Brief, Edited, ForkBrief, ModelEndpoint, Session, Stop, ToolDone};
pub use template::{template_environment, template_error};
