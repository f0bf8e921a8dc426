use async_trait::async_trait;
use proctor_scaffold_api::{Finish, Scaffold, Session, Stop};
use serde_json::{Value, json};

/// Applies the gold patch: the ceiling that every task must reach.
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
        let Some(gold) = session.brief().gold.clone() else {
            return Ok(Finish::exited("the task has no gold patch"));
        };
        session.apply_patch(&gold).await?;
        Ok(Finish::Submitted)
    }
}
