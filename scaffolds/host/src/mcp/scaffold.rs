use std::{
    future::Future,
    pin::{Pin, pin},
    time::Duration,
};

use async_trait::async_trait;
use proctor_external::prompt;
use proctor_sandbox_api::{Completed, SandboxError};
use proctor_scaffold_api::{
    Finish, Limits as Announced, OwnSandbox, Scaffold, Session, Stop, WrongSetting,
};
use proctor_scaffolds::{OpenTools, ToolSet};
use proctor_types::{ExitCause, ToolCall};
use serde_json::{Map, Value, json};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use super::{
    answer::{Call, Tools},
    server,
};
use crate::{
    agent,
    ending::{ended, exited, handed_in},
    limits::{self, Limits},
    own::{self, Quiet},
    program::Programs,
    settings::{self, Asks, Settings},
};

/// Added to the agent's own time to exit: its last output is kept.
const TIDY: Duration = Duration::from_secs(2);
/// Maximum number of queued calls; more wait in their connections.
const WAITING: usize = 16;

/// A user's program that calls the model itself and gets the sandbox's tools.
#[derive(Debug)]
pub struct Mcp {
    programs: Programs,
    tools: ToolSet,
    limits: &'static Limits,
}

type Running<'a> = Pin<&'a mut (dyn Future<Output = Result<Completed, SandboxError>> + Send)>;

/// Why watching ended.
enum Seen {
    Exited(Box<Result<Completed, SandboxError>>),
    Submitted,
    Ending,
    Quiet(Finish),
}

impl Mcp {
    /// `programs` is where programs are stored.
    ///
    /// # Errors
    /// The built-in data is invalid, which a test rules out.
    pub fn new(programs: Programs) -> Result<Self, String> {
        let tools = ToolSet::load().map_err(|error| error.to_string())?;
        Ok(Self { programs, tools, limits: Limits::get()? })
    }
}

#[async_trait]
impl Scaffold for Mcp {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn factors(&self) -> Value {
        let prompts = json!({ "task": prompt::TASK });
        json!({ "tools": self.tools.factors(), "limits": limits::TEXT, "prompts": prompts })
    }

    fn settings(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, WrongSetting> {
        settings::resolve(self.name(), Asks::Itself, given, &self.programs)
    }

    fn needs_model(&self) -> bool {
        true
    }

    fn model_endpoint(&self, settings: &Map<String, Value>) -> Option<Value> {
        Some(settings::rules(settings))
    }

    fn own_sandbox(
        &self,
        settings: &Map<String, Value>,
    ) -> Result<Option<OwnSandbox>, (String, String)> {
        own::sandbox(settings, &self.programs, self.limits)
    }

    fn leave_time(&self) -> Option<Duration> {
        Some(self.limits.leave() + TIDY)
    }

    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        let brief = session.brief().clone();
        let settings = Settings::read(&brief.settings).map_err(own::setup)?;
        let place = own::of(session)?;
        let announced = brief.announced.as_ref().and_then(Announced::of);
        let prompt = prompt::render(prompt::TASK, &brief, announced.as_ref());
        let prompt = prompt.map_err(own::setup)?;
        let listener = place.listener().await;
        let listener = listener.map_err(|error| error.fault("the tool server"))?;
        let mut env = own::variables(&brief, &settings.own)?;
        let url = format!("http://127.0.0.1:{}{}", listener.port(), server::PATH);
        env.push(("PROCTOR_MCP_URL".to_owned(), url));
        let (calls, mut asked) = mpsc::channel(WAITING);
        let tools = Tools::new(&self.tools.specs(), calls);
        let _serving = server::serve(listener, tools, self.limits.line_bytes);

        let mut command = agent::command(&settings.command, &env);
        command.stdin = prompt.into_bytes();
        command.output_cap = self.limits.stderr_bytes;
        let mut running = pin!(place.run(command));
        let mut quiet = Quiet::new(settings.idle_seconds);
        let mut tools = self.tools.open(session);
        let seen =
            self.watch(running.as_mut(), &mut asked, &mut tools, &mut quiet, session).await?;
        // Its further calls are answered that the trial is over.
        drop(asked);
        let (done, end) = match seen {
            Seen::Exited(done) => (Some(*done), None),
            // Immediately: it would continue to call the model.
            Seen::Submitted => (None, Some(Finish::Submitted)),
            Seen::Ending => {
                let why = "the trial had ended".to_owned();
                (self.leave(running).await, Some(ended(ExitCause::Finished, why)))
            }
            Seen::Quiet(end) => (None, Some(end)),
        };
        own::end_commands(session.handle()).await;
        let done = match (done, &end) {
            (Some(Err(error)), None) => return own::broken(&place, error).await,
            (Some(Ok(done)), _) => done,
            // It was killed, so its output is lost.
            _ => Completed::default(),
        };
        for (name, stream) in [("stdout.log", &done.stdout), ("stderr.log", &done.stderr)] {
            session.keep(name, &stream.head).await?;
        }
        Ok(end.unwrap_or_else(|| {
            let last = session.traffic().answer;
            let end = exited(&done.exited, last.as_ref(), &done.stderr.head);
            handed_in(end, &done.exited, last.as_ref())
        }))
    }
}

impl Mcp {
    async fn watch(
        &self,
        mut running: Running<'_>,
        asked: &mut mpsc::Receiver<Call>,
        tools: &mut OpenTools,
        quiet: &mut Quiet,
        session: &mut dyn Session,
    ) -> Result<Seen, Stop> {
        let mut count: u64 = 0;
        let mut since_answer: u32 = 0;
        let mut requests = 0;
        loop {
            let call = tokio::select! {
                done = running.as_mut() => return Ok(Seen::Exited(Box::new(done))),
                () = session.ending() => return Ok(Seen::Ending),
                Some(call) = asked.recv() => call,
                () = sleep(quiet.tick()) => match quiet.end(&session.traffic(), self.limits) {
                    Some(end) => return Ok(Seen::Quiet(end)),
                    None => continue,
                },
            };
            let seen = session.traffic().requests;
            since_answer = if seen == requests { since_answer + 1 } else { 1 };
            requests = seen;
            if since_answer >= self.limits.requests_without_answer {
                let why = format!("it made {since_answer} calls without a request to the model");
                return Ok(Seen::Quiet(ended(ExitCause::Loop, why)));
            }
            count += 1;
            let Call { name, arguments, shown } = call;
            let id = format!("call-{count}");
            let call = ToolCall { id, name, arguments: arguments.to_string() };
            let called = tokio::select! {
                called = tools.call(session, &call) => called?,
                // A program that has exited waits for nothing: cancel what it started.
                done = running.as_mut() => return Ok(Seen::Exited(Box::new(done))),
            };
            quiet.seen();
            // A client that did not wait for it is not an error.
            let _ = shown.send(called.shown);
            if called.submitted {
                return Ok(Seen::Submitted);
            }
        }
    }

    /// Gives it time to exit by itself.
    async fn leave(&self, running: Running<'_>) -> Option<Result<Completed, SandboxError>> {
        timeout(self.limits.leave(), running).await.ok()
    }
}
