use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_external::prompt;
use proctor_sandbox_api::Command;
use proctor_scaffold_api::{
    AnnouncedLimits as Announced, Finish, OwnSandbox, Scaffold, Session, SettingError, Stop,
};
use serde_json::{Map, Value, json};

use super::conversation::{AcpConversation, PROTOCOL};
use crate::{
    agent::{self, Agent},
    conversation::Watchdog,
    limits::{self, Limits},
    own_sandbox,
    program::ProgramStore,
    settings::{self, ModelAccess, Settings},
};

/// Additional time after the agent's exit timeout, for killing its processes and reading its last
/// output.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(2);

/// A user's program that Proctor starts in the same way as an editor would.
#[derive(Debug)]
pub struct Acp {
    programs: ProgramStore,
    limits: &'static Limits,
}

impl Acp {
    /// Creates the scaffold. `programs` is the store for copies of users' programs.
    ///
    /// # Errors
    /// Fails if the built-in data is invalid. A test makes sure that it isn't.
    pub fn new(programs: ProgramStore) -> Result<Self, String> {
        Ok(Self { programs, limits: Limits::get()? })
    }
}

#[async_trait]
impl Scaffold for Acp {
    fn name(&self) -> &'static str {
        "acp"
    }

    fn factors(&self) -> Value {
        let prompts = json!({ "task": prompt::TASK_TEMPLATE });
        json!({ "protocol": PROTOCOL, "limits": limits::LIMITS_TOML, "prompts": prompts })
    }

    fn resolve_settings(
        &self,
        arm_settings: &Map<String, Value>,
    ) -> Result<Map<String, Value>, SettingError> {
        settings::resolve_settings(self.name(), ModelAccess::Direct, arm_settings, &self.programs)
    }

    fn needs_model(&self) -> bool {
        true
    }

    fn model_endpoint(&self, settings: &Map<String, Value>) -> Option<Value> {
        Some(settings::resolved_rules(settings))
    }

    fn own_sandbox(
        &self,
        settings: &Map<String, Value>,
    ) -> Result<Option<OwnSandbox>, (String, String)> {
        own_sandbox::sandbox_spec(settings, &self.programs, self.limits)
    }

    fn exit_timeout(&self) -> Option<Duration> {
        Some(self.limits.exit_timeout() + CLEANUP_TIMEOUT)
    }

    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        let brief = session.brief().clone();
        let settings =
            Settings::from_resolved(&brief.settings).map_err(own_sandbox::setup_fault)?;
        let place = own_sandbox::sandbox_handle(session)?;
        let announced = brief.announced_budget.as_ref().and_then(Announced::from_budget);
        let prompt = prompt::render(prompt::TASK_TEMPLATE, &brief, announced.as_ref());
        let prompt = prompt.map_err(own_sandbox::setup_fault)?;
        // Agents check that their working directory exists, although they access the code through
        // the client.
        let folder = place.run(Command::new(["mkdir", "-p", brief.workdir.as_str()])).await;
        folder.map_err(|error| error.to_fault("the agent's own sandbox"))?;
        let command = agent::program_command(
            &settings.command,
            &own_sandbox::environment_variables(&brief, &settings.program_settings)?,
        );
        let starting = Agent::start(&place, command, self.limits);
        let mut agent = starting.map_err(|error| error.to_fault("starting the agent"))?;
        let sandbox = Arc::clone(session.sandbox());
        let mut watch = Watchdog::new(self.limits, settings.idle_seconds);
        let mut talk = AcpConversation::new(self.limits, prompt);
        let end = talk.run(&mut agent, &mut watch, session).await;
        // Stop everything that the conversation started, however the conversation ended.
        drop(talk);
        own_sandbox::kill_commands(&sandbox).await;
        own_sandbox::finish_conversation(end, &place, &mut agent, session).await
    }
}
