//! Serves the scripted models of a plan.

use std::{collections::BTreeMap, path::Path};

use fake_llm::{FakeLlm, Script};
use proctor_gateway::EndpointRates;
use proctor_scaffold_api::ProgressSink;
use proctor_types::{Arm, SCRIPT_URL_PREFIX, UserError};

use crate::RunError;

/// Running scripted models. Dropping this stops them.
pub(crate) struct ScriptServers {
    servers: BTreeMap<String, FakeLlm>,
}

impl ScriptServers {
    /// Serves every `script:FILE` of the arms over HTTP on loopback and reports each one.
    pub(crate) async fn serve(arms: &[Arm], say: ProgressSink<'_>) -> Result<Self, RunError> {
        let mut served = BTreeMap::new();
        for model in arms.iter().filter_map(|arm| arm.model.as_ref()) {
            let Some(file) = model.base_url.strip_prefix(SCRIPT_URL_PREFIX) else { continue };
            if served.contains_key(&model.base_url) {
                continue;
            }
            let script = Script::load(Path::new(file))
                .map_err(|error| UserError::new(format!("script {file}: {error}")))?;
            let fake = FakeLlm::start(script).await?;
            say(format!(
                "note: the model `{}` is a script ({file}), so its results are meaningless; use a \
                 real model with `--model openai/gpt-5.1`",
                model.name
            ));
            served.insert(model.base_url.clone(), fake);
        }
        Ok(Self { servers: served })
    }

    /// Returns the arm, with the script's path replaced by the URL of the server that serves the
    /// script.
    pub(crate) fn with_server_url(&self, arm: &Arm) -> Arm {
        let mut arm = arm.clone();
        if let Some(model) = &mut arm.model
            && let Some(fake) = self.servers.get(&model.base_url)
        {
            model.base_url = fake.base_url();
        }
        arm
    }

    /// Returns the endpoints' rate limits, with each script's path replaced by the URL of the
    /// server that serves the script.
    pub(crate) fn rates_with_server_urls<'a>(
        &self,
        tables: impl IntoIterator<Item = &'a EndpointRates>,
    ) -> Vec<EndpointRates> {
        let addressed = |table: &EndpointRates| {
            let mut table = table.clone();
            if let Some(fake) = self.servers.get(&table.base_url) {
                table.base_url = fake.base_url();
            }
            table
        };
        tables.into_iter().map(addressed).collect()
    }
}
