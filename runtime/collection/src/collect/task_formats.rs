//! Converts a removal to a task in Proctor's format, and to a row in FeatureBench's format.

use std::{collections::BTreeSet, fs};

use proctor_types::{
    Environment as TaskEnvironment, TASK_SCHEMA_VERSION, Task, TaskId, Timeouts, file_from_test_id,
    sha256_hex,
};

use super::{
    context::CandidateContext,
    environment::{WORKDIR, env_vars},
    outcome::TaskMetrics,
    removal::Removal,
};
use crate::carve::build_patch;
use crate::draft::blocked_urls;

impl CandidateContext<'_> {
    /// Returns the task for a removal, before its test ids are known.
    pub(super) fn task_from_removal(
        &self,
        file: &str,
        removal: &Removal,
        statement: String,
    ) -> Task {
        Task { mask: Some(removal.mask.clone()), ..self.base_task(file, statement) }
    }

    /// Returns a level-1 task without a mask and without test ids.
    pub(super) fn base_task(&self, file: &str, statement: String) -> Task {
        let repo = self.project.repository();
        let mut timeouts = Timeouts::default();
        timeouts.grade_seconds = timeouts.grade_seconds.max((self.suite.seconds * 20.0).ceil());
        let blocked =
            self.project.urls.iter().map(|url| format!("{}/**", url.trim_end_matches('/')));
        Task {
            schema_version: TASK_SCHEMA_VERSION,
            id: TaskId::new(self.task_id(file, 1)),
            repo: repo.clone(),
            level: Some(1),
            statement,
            environment: TaskEnvironment {
                image: None,
                dockerfile: None,
                base: Some("host".into()),
                setup: self.environment.setup.clone(),
            },
            source: Some(self.source.clone()),
            workdir: WORKDIR.into(),
            mask: None,
            hidden: vec![file.to_owned()],
            blocked_urls: blocked_urls(&self.project.name, repo.as_deref(), blocked.collect()),
            fail_to_pass: Vec::new(),
            pass_to_pass: Vec::new(),
            test_command: self.environment.test_command.clone(),
            test_patch: None,
            timeouts,
            gold: None,
            env: env_vars(&self.project).into_iter().collect(),
            user: None,
            platform: None,
            resources: None,
            cheats: Vec::new(),
            impossible: None,
            clock: None,
            categories: Vec::new(),
            meets_minima: None,
            created_at: None,
            details: Default::default(),
            from_scratch: None,
            test_results: None,
            benchmark: None,
            harbor: None,
            from_image: Default::default(),
        }
    }

    /// Returns the task's id in FeatureBench's format: repository, commit, test file, level.
    pub(super) fn task_id(&self, file: &str, level: u8) -> String {
        let repo = self.project.repository().unwrap_or_else(|| self.project.name.clone());
        let stem = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".py");
        let commit = short_hash(&self.tree.digest);
        let path = short_hash(&sha256_hex(file.as_bytes()));
        format!("{}.{commit}.{stem}.{path}.lv{level}", repo.replace('/', "__"))
    }

    /// Returns a level-1 task's row in FeatureBench's format.
    pub(super) fn level_one_row(
        &self,
        task: &Task,
        file: &str,
        removal: &Removal,
        metrics: &TaskMetrics,
        statement: String,
    ) -> serde_json::Value {
        let others: BTreeSet<&str> = task
            .pass_to_pass
            .iter()
            .map(|id| file_from_test_id(id))
            .filter(|other| removal.other_files.files.iter().any(|chosen| chosen == other))
            // FeatureBench's rows list whole files, so leave out a file if the removal breaks one
            // of its tests.
            .filter(|other| !task.hidden.iter().any(|hidden| hidden == other))
            .collect();
        let text = fs::read_to_string(self.tree.folder.join(file)).unwrap_or_default();
        let others: Vec<&str> = others.into_iter().collect();
        let mask = task.mask.as_deref().unwrap_or_default();
        let patches = (mask, &*build_patch([(file, Some(&*text), None)]));
        self.featurebench_row(task, file, metrics, statement, patches, &others)
    }

    /// Returns a task's row in FeatureBench's format. `other_files` are the test files whose tests
    /// must still pass.
    pub(super) fn featurebench_row(
        &self,
        task: &Task,
        file: &str,
        metrics: &TaskMetrics,
        statement: String,
        (patch, test_patch): (&str, &str),
        other_files: &[&str],
    ) -> serde_json::Value {
        let setup = [&self.environment.setup[..], &self.settings.environment.for_rows].concat();
        let mut command = task.test_command.clone();
        command.retain(|word| word != "-q");
        let settings = serde_json::json!({
            "test_cmd": format!("{} -rA -p no:cacheprovider --color=no", command.join(" ")),
            "timeout_run": task.timeouts.grade_seconds,
            "library_name": self.project.name,
            "black_links": self.project.urls,
            "setup": setup,
            "docker_specs": {"run_args": {}, "custom_docker_args": task.env.iter()
                .map(|(key, value)| format!("-e {key}={value}")).collect::<Vec<_>>()},
        });
        serde_json::json!({
            "instance_id": task.id,
            "repo": task.repo,
            "base_commit": self.tree.digest,
            "problem_statement": statement,
            "patch": patch,
            "test_patch": test_patch,
            "FAIL_TO_PASS": [file],
            "PASS_TO_PASS": other_files,
            // This is only a suggested name. Proctor does not build the image.
            "image_name": format!("collected/{}:{}", self.project.name.to_lowercase(), short_hash(&self.tree.digest)),
            "repo_settings": settings.to_string(),
            "lines": metrics.lines,
            "files": metrics.files,
            "functions": metrics.functions,
            "f2p_test_points": metrics.fail_to_pass,
            "p2p_test_points": metrics.pass_to_pass,
            "top_objects": metrics.tops,
        })
    }
}

fn short_hash(text: &str) -> String {
    text.chars().take(8).collect()
}
