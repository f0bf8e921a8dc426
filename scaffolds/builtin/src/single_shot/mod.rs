//! The scaffold `single-shot`: sends the request with some of the repository's files and uses the
//! single response.
//!
//! ```text
//! material + tree at the start -> context -> prompt -> one response -> edits or a patch -> the work directory
//! ```
//!
//! Reproduces the setting of FEA-Bench's own experiments (docs/reference/single-shot.md). The host uses the
//! gold patch's file names for `oracle` and for scores. The prompt contains nothing from the gold
//! patch except what the benchmark itself reveals.

mod apply;
mod context;
mod evidence;
mod file_block;
mod probe;
mod prompt;
mod settings;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use proctor_scaffold_api::{
    Finish, Material, PromptFolderError, PromptOverlay, Sampling, Scaffold, Session, SettingError,
    Stop,
};
use proctor_tokens::{Encoding, Tokenizer};
use proctor_types::{
    ExitCause, Fault, FaultCause, FaultLayer, ModelRequest, TokenizerFile, sha256_hex,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{PromptError, conversation::is_truncated, prompts::Prompts};
use context::{FileSelector, IndexCache, PromptContext};
use evidence::{AnswerRecord, Evidence};
use settings::{AnswerFormat, Hints, Settings};

/// A factor of the arm. Increment it when the parsing of responses or the selection of files
/// changes.
const REVISION: u32 = 1;
/// The scaffold's name, and its folder in `prompts/`.
const NAME: &str = "single-shot";

/// The settings in `prompts/single-shot/manifest.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    temperature: f64,
    top_p: f64,
    hits: usize,
    context_tokens: u64,
    file_bytes: u64,
}

/// Counts tokens with a built-in table or the model's own tokenizer.
enum TokenCounter {
    BuiltIn(Encoding),
    Custom(Arc<Tokenizer>),
}

impl TokenCounter {
    fn builtin(encoding: Encoding) -> (Self, String) {
        (Self::BuiltIn(encoding), encoding.name().into())
    }

    fn count(&self, text: &str) -> u64 {
        let tokens = match self {
            Self::BuiltIn(encoding) => encoding.count(text),
            Self::Custom(tokenizer) => tokenizer.count(text),
        };
        tokens as u64
    }
}

/// The scaffold that requests a single response.
#[derive(Debug)]
pub struct SingleShot {
    prompts: Prompts,
    manifest: Manifest,
    /// A cache that all trials share. It is keyed by content and contains no state of a trial.
    indexes: IndexCache,
    /// A cache that all trials share, keyed by content.
    tokenizers: Mutex<BTreeMap<String, Arc<Tokenizer>>>,
}

impl SingleShot {
    /// # Errors
    /// See [`Prompts::load`].
    pub fn load(prompts: Option<&PromptOverlay>) -> Result<Self, PromptError> {
        let prompts = Prompts::load(NAME, prompts)?;
        let manifest = prompts.settings()?;
        Ok(Self { prompts, manifest, indexes: IndexCache::default(), tokenizers: Mutex::default() })
    }

    /// Returns the counter for the arm's tokenizer, with the counter's name.
    fn counter(&self, file: Option<&TokenizerFile>) -> Result<(TokenCounter, String), Stop> {
        let Some(file) = file else { return Ok(TokenCounter::builtin(Encoding::default())) };
        if file.sha256.is_empty()
            && let Some(encoding) = file.path.to_str().and_then(Encoding::from_name)
        {
            return Ok(TokenCounter::builtin(encoding));
        }
        let mut known = self.tokenizers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tokenizer) = known.get(&file.sha256) {
            return Ok((TokenCounter::Custom(Arc::clone(tokenizer)), file.sha256.clone()));
        }
        let shown = file.path.display();
        let fault = |what: String| {
            Fault::new(FaultLayer::Setup, what)
                .cause(FaultCause::Invalid)
                .hint("restore the tokenizer file used for the plan, or start a new run")
        };
        let bytes = std::fs::read(&file.path)
            .map_err(|error| fault(format!("cannot read {shown}: {error}")))?;
        if sha256_hex(&bytes) != file.sha256 {
            return Err(fault(format!("{shown} has changed since the run was planned")).into());
        }
        let tokenizer = Tokenizer::parse(&bytes).map_err(|why| fault(format!("{shown}: {why}")))?;
        let tokenizer = Arc::new(tokenizer);
        known.insert(file.sha256.clone(), Arc::clone(&tokenizer));
        Ok((TokenCounter::Custom(tokenizer), file.sha256.clone()))
    }

    /// Selects the files and renders the prompt.
    async fn build_prompt(
        &self,
        session: &mut dyn Session,
        settings: &Settings,
        material: &Material,
        count_tokens: &(dyn Fn(&str) -> u64 + Sync),
    ) -> Result<(PromptContext, String), Stop> {
        if settings.format == AnswerFormat::Probe {
            let repo = material.repo.as_deref().unwrap_or("that it is for");
            let with = json!({ "request": material.request, "repo": repo });
            return Ok((PromptContext::default(), self.prompts.render("probe", with)?));
        }
        let tree = session.initial_tree().await?;
        let choice = FileSelector {
            settings,
            material,
            tree: tree.as_ref(),
            prompts: &self.prompts,
            count_tokens,
            max_hits: self.manifest.hits,
            max_file_bytes: self.manifest.file_bytes,
        };
        let mut context = choice.select_required()?;
        let natural = (AnswerFormat::Natural, Hints::Detailed);
        let base =
            count_tokens(&prompt::render_prompt(&self.prompts, material, &context, natural)?);
        choice.add_retrieved_files(&mut context, &self.indexes, base)?;
        let form = (settings.format, settings.hints);
        let text = prompt::render_prompt(&self.prompts, material, &context, form)?;
        Ok((context, text))
    }
}

#[async_trait]
impl Scaffold for SingleShot {
    fn name(&self) -> &'static str {
        NAME
    }

    fn factors(&self) -> Value {
        let mut factors = self.prompts.factors();
        factors["revision"] = REVISION.into();
        factors
    }

    fn resolve_settings(
        &self,
        arm_settings: &Map<String, Value>,
    ) -> Result<Map<String, Value>, SettingError> {
        settings::resolve_settings(arm_settings, self.manifest.context_tokens)
    }

    fn with_prompts(&self, folder: &Path) -> Result<Arc<dyn Scaffold>, PromptFolderError> {
        let over = Prompts::read_overlay(folder, &[NAME])?;
        Ok(Arc::new(Self::load(Some(&over))?))
    }

    fn needs_model(&self) -> bool {
        true
    }

    fn sampling(&self) -> Sampling {
        let Manifest { temperature, top_p, .. } = self.manifest;
        Sampling { temperature: Some(temperature), top_p: Some(top_p) }
    }

    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        let settings: Settings = serde_json::from_value(session.brief().settings.clone().into())
            .map_err(|error| {
                Fault::new(FaultLayer::Setup, format!("the arm's settings: {error}"))
            })?;
        let material = session.brief().material.clone().unwrap_or_default();
        let (counter, tokenizer) = self.counter(session.brief().tokenizer.as_ref())?;
        let count = |text: &str| counter.count(text);
        let (context, text) = self.build_prompt(session, &settings, &material, &count).await?;
        let mut evidence = Evidence {
            schema_version: 1,
            settings: &settings,
            tokenizer,
            prompt_tokens: count(&text),
            beyond_window: false,
            context: context.record,
            answer: None,
        };
        record_evidence(session, &evidence).await?;
        let tokens = evidence.prompt_tokens;
        // Only the model's own tokenizer counts the same tokens as the endpoint. Any other count is
        // an estimate.
        let is_own = session.brief().tokenizer.as_ref().is_some_and(|file| !file.sha256.is_empty());
        let (counted, estimated) = if is_own { (tokens, 0) } else { (0, tokens) };
        if let Some(window) = session.brief().context_window
            && session.exceeds_context_window(counted, estimated, window)
        {
            evidence.beyond_window = true;
            record_evidence(session, &evidence).await?;
            return Ok(Finish::exit(format!(
                "the prompt has {tokens} tokens, but the context window holds only {window}"
            )));
        }
        let ask = ModelRequest { messages: prompt::split_messages(&text), tools: Vec::new() };
        let answer = session.ask(&ask).await?;
        if answer.refused {
            return Err(Stop::Refused(answer.content));
        }
        let mut record =
            AnswerRecord { finish_reason: answer.finish_reason.clone(), ..Default::default() };
        let said = &answer.content;
        match settings.format {
            AnswerFormat::Probe => record.probe = Some(probe::score_probe(said, &material.gold)),
            AnswerFormat::Natural => {
                let tree = session.initial_tree().await?;
                apply::apply_natural(session, &settings, tree.as_ref(), said, &mut record).await?;
            }
            AnswerFormat::Patch => {
                let tree = session.initial_tree().await?;
                apply::apply_patch(session, &material, tree.as_ref(), said, &mut record).await?;
            }
        }
        let finish = determine_finish(&record, is_truncated(&answer));
        evidence.answer = Some(record);
        record_evidence(session, &evidence).await?;
        Ok(finish)
    }
}

/// Returns how the trial ended, given the result of the response.
fn determine_finish(record: &AnswerRecord, is_truncated: bool) -> Finish {
    let exited = |cause, why: &str| Finish::Exited { cause, reason: why.to_owned() };
    if record.probe.is_some() {
        return exited(ExitCause::Finished, "a probe makes no changes");
    }
    match (record.applied, is_truncated) {
        (true, false) => Finish::Submitted,
        (true, true) => exited(
            ExitCause::Finished,
            "the response was truncated at the output limit; the part before it was applied",
        ),
        (false, true) => {
            exited(ExitCause::EmptyTurn, "the response was truncated at the output limit")
        }
        (false, false) => match (record.applied_by.last(), record.edits.len()) {
            (Some(tried), _) => {
                exited(ExitCause::Finished, &format!("the response does not apply: {}", tried.why))
            }
            (None, 0) => exited(ExitCause::EmptyTurn, "the response has no edits"),
            (None, edits) => {
                exited(ExitCause::Finished, &format!("none of the {edits} edits could be applied"))
            }
        },
    }
}

/// Writes the evidence so far to the journal and to the evidence file.
async fn record_evidence(session: &mut dyn Session, evidence: &Evidence<'_>) -> Result<(), Stop> {
    let value = serde_json::to_value(evidence).map_err(|error| {
        Fault::new(FaultLayer::Record, format!("cannot serialize the evidence: {error}"))
    })?;
    let text = serde_json::to_vec_pretty(&value).map_err(|error| {
        Fault::new(FaultLayer::Record, format!("cannot serialize the evidence: {error}"))
    })?;
    session.store_evidence(evidence::FILE_NAME, &text).await?;
    session.note(Map::from_iter([("single_shot".to_owned(), value)])).await
}
