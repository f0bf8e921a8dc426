use async_trait::async_trait;
use proctor_sandbox_api::Command;
use proctor_scaffold_api::{Finish, Scaffold, Session, Stop};
use serde_json::{Map, Value, json};

/// Runs the reference solution of a Harbor task. The path of the output is the same as in Harbor.
const SOLVE_COMMAND: &str = "(/solution/solve.sh) > /logs/agent/oracle.txt 2>&1";

/// Runs a command line in bash, in its own process group, so that background processes continue to
/// run, as in a Harbor container. Uses sh if there is no bash.
const BASH_WRAPPER: &str = r#"command -v bash >/dev/null 2>&1 || exec /bin/sh -c "$1"; \
exec bash -c 'set -m; bash -c "$1" & wait "$!"' bash "$1""#;

/// The path of the output of [`SOLVE_COMMAND`].
const OUTPUT_PATH: &str = "/logs/agent/oracle.txt";

/// Maximum number of output bytes to keep in the trial's directory.
const OUTPUT_LIMIT: u64 = 8 << 20;

/// Applies the gold patch or runs the reference solution. This must resolve every task.
#[derive(Debug, Clone, Copy)]
pub struct Gold;

#[async_trait]
impl Scaffold for Gold {
    fn name(&self) -> &'static str {
        "gold"
    }

    fn factors(&self) -> Value {
        json!({})
    }

    fn needs_model(&self) -> bool {
        false
    }

    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        if let Some(env) = session.brief().solution.clone() {
            return solve(session, env).await;
        }
        let Some(gold) = session.brief().gold.clone() else {
            return Ok(Finish::exit("the task has no gold patch"));
        };
        session.apply_patch(&gold).await?;
        Ok(Finish::Submitted)
    }
}

/// Runs `solve.sh`. Like Harbor, ignores its exit status, because the verifier judges the result.
async fn solve(session: &mut dyn Session, env: Vec<(String, String)>) -> Result<Finish, Stop> {
    let brief = session.brief();
    let mut command = Command::new(["/bin/sh", "-c", BASH_WRAPPER, "sh", SOLVE_COMMAND])
        .cwd(brief.workdir.as_str());
    command = command.env("DEBIAN_FRONTEND", "noninteractive");
    for (name, value) in brief.env.iter().chain(&env) {
        command = command.env(name, value.as_str());
    }
    command.user.clone_from(&brief.user);
    let handle = std::sync::Arc::clone(session.sandbox());
    let done = handle.run(command).await.map_err(|error| error.to_fault("running solve.sh"))?;
    let output = match handle.stat(&OUTPUT_PATH.into()).await {
        Ok(Some(found)) => {
            let from = found.size.saturating_sub(OUTPUT_LIMIT);
            handle
                .read_from_offset(&OUTPUT_PATH.into(), from, OUTPUT_LIMIT)
                .await
                .unwrap_or_default()
        }
        Ok(None) | Err(_) => done.stderr.head.clone(),
    };
    session.store_evidence("oracle.txt", &output).await?;
    let ended = proctor_sandbox_api::describe_exit(&done.exit);
    session.note(Map::from_iter([("solve.sh".to_owned(), json!(ended))])).await?;
    Ok(Finish::Submitted)
}
