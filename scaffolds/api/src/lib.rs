//! The interface of scaffolds. A scaffold is the loop that turns model responses into actions.
//!
//! A [`Scaffold`] uses one [`Session`] per trial. It calls the model and acts in the sandbox until
//! it submits or the session stops it. The session enforces budgets, records events and takes
//! snapshots, so a scaffold cannot forget to do so.
//!
//! The smallest scaffold that calls a model requests one response and finishes:
//!
//! ```
//! use async_trait::async_trait;
//! use proctor_scaffold_api::{Finish, Scaffold, Session, Stop};
//! use proctor_types::{ModelRequest, Message};
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
//!     // Everything that the model sees besides the task. Different factors make different arms.
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
//!         session.ask(&ModelRequest { messages, tools: Vec::new() }).await?;
//!         Ok(Finish::Submitted)
//!     }
//! }
//!
//! assert_eq!(OneAnswer.name(), "one-answer");
//! ```

#![warn(missing_docs)]

mod limits;
mod material;
pub mod notices;
mod overlay;
mod scaffold;
mod session;
mod source;
mod template;

pub use limits::AnnouncedLimits;
pub use material::{GoldFacts, GoldFile, InitialTree, Material};
pub use overlay::{PromptFolderError, PromptOverlay};
pub use proctor_types::Traffic;
pub use scaffold::{Finish, OwnSandbox, Sampling, Scaffold, SettingError};
pub use session::{
    FileEdit, FinishedToolCall, ForkContext, ModelEndpoint, Session, Stop, TaskBrief,
};
pub use source::{ProgressSink, ScaffoldSource, Scaffolds, SourceError};
pub use template::{template_environment, template_error};
