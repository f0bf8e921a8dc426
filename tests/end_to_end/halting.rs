//! Tests that after an endpoint has rejected a key or a model, the run stops using it, and the
//! remaining trials are left to `resume`.

use fake_llm::{FakeLlm, Script};

use crate::stage::{Stage, find_arm};

const SUBMIT: &str = "tool_calls = [{ name = \"submit\", arguments = {} }]";

struct Fixture {
    stage: Stage,
    fake: FakeLlm,
    /// Dropping the runtime would stop the server.
    _runtime: tokio::runtime::Runtime,
}

impl Fixture {
    fn new(script: &str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let script: Script = toml::from_str(script).unwrap();
        let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
        Self { stage: Stage::new(), fake, _runtime: runtime }
    }

    /// Runs four attempts of each arm, one after another.
    fn run(&self, arms: &str, models: &[(&str, &str)]) -> (std::path::PathBuf, String) {
        let mut text = format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\nattempts = 4\njobs = 1\n\
             [[arms]]\nname = \"gold\"\nscaffold = \"gold\"\n{arms}"
        );
        for (model, key) in models {
            let url = self.fake.base_url();
            text.push_str(&format!(
                "[models.{model}]\nbase_url = \"{url}\"\nname = \"{model}\"\nkey_env = \"{key}\"\n"
            ));
        }
        let (config, out) = (self.stage.write_file("run.toml", &text), self.stage.path("run"));
        let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        (out.clone(), self.run_with_keys(&args, 3))
    }

    fn run_with_keys(&self, args: &[&str], status: i32) -> String {
        let mut command = self.stage.proctor(args);
        let command = command.env("FIRST_KEY", "sk-first-key").env("OTHER_KEY", "sk-other-key");
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(status), "{said}");
        said
    }

    fn request_count(&self, model: &str) -> usize {
        self.fake.requests().iter().filter(|seen| seen.body["model"] == model).count()
    }
}

fn arm_config(model: &str) -> String {
    format!("[[arms]]\nname = \"{model}\"\nscaffold = \"tools\"\nmodel = \"{model}\"\n")
}

#[test]
fn rejected_key_is_tried_once_and_resume_runs_the_rest() {
    let bench = Fixture::new(&format!(
        "[default]\n{SUBMIT}\nfault = [{{ kind = \"status\", status = 401 }}]\n"
    ));
    let (out, said) = bench.run(&arm_config("asks"), &[("asks", "FIRST_KEY")]);
    assert_eq!(bench.fake.requests().len(), 1, "the key would fail in every other trial too");
    for part in ["halted: model fault", "FIRST_KEY", "3 trials not started", "proctor resume"] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    assert!(!said.contains("sk-first"), "{said}");
    let report = bench.stage.report(&out);
    let asks = find_arm(&report, "asks");
    assert_eq!((&asks["infrastructure_faults"], &asks["unfinished"]), (&1.into(), &3.into()));
    assert_eq!(find_arm(&report, "gold")["resolved"], 4, "an arm without a model continues");

    bench.run_with_keys(&["resume", out.to_str().unwrap()], 0);
    assert_eq!(bench.fake.requests().len(), 1 + 4);
    assert_eq!(find_arm(&bench.stage.report(&out), "asks")["outcomes"]["submitted"], 4);
}

#[test]
fn missing_model_does_not_halt_other_models() {
    let script = format!(
        "[[rule]]\nmodel = \"gone\"\nanswer = {{ fault = [{{ kind = \"status\", status = 404, times = 0 }}] }}\n\
         [default]\n{SUBMIT}\n"
    );
    let bench = Fixture::new(&script);
    let models = [("gone", "FIRST_KEY"), ("here", "FIRST_KEY")];
    let (out, said) = bench.run(&(arm_config("gone") + &arm_config("here")), &models);
    assert_eq!((bench.request_count("gone"), bench.request_count("here")), (1, 4));
    assert!(said.contains("the model name `gone`") && said.contains("3 trials not"), "{said}");
    assert_eq!(find_arm(&bench.stage.report(&out), "here")["complete"], true);
}

#[test]
fn rejected_key_halts_all_its_models_and_no_other_key() {
    let script = format!(
        "[[rule]]\nmodel = \"a\"\nanswer = {{ fault = [{{ kind = \"status\", status = 403, times = 0 }}] }}\n\
         [default]\n{SUBMIT}\n"
    );
    let bench = Fixture::new(&script);
    let models = [("a", "FIRST_KEY"), ("b", "FIRST_KEY"), ("c", "OTHER_KEY")];
    let (_, said) = bench.run(&(arm_config("a") + &arm_config("b") + &arm_config("c")), &models);
    assert_eq!(
        (bench.request_count("a"), bench.request_count("b"), bench.request_count("c")),
        (1, 0, 4),
        "{said}"
    );
    assert!(said.contains("the key in FIRST_KEY may use the model `a`"), "{said}");
    assert!(said.contains("7 trials not started"), "{said}");
}

/// If a model does not support tools, the run reports the problem once, with the setting that
/// helps. An arm that uses the same model without tools continues.
#[test]
fn model_without_tools_halts_only_arms_that_need_them() {
    let words = "the model does not support tools";
    let script = format!(
        "[[rule]]\nwhen = \"function\"\nanswer = {{ fault = [{{ kind = \"status\", status = 400, times = 0, \
         body = '{{\"error\":{{\"message\":\"{words}\"}}}}' }}] }}\n\
         [default]\nfault = [{{ kind = \"status\", status = 400, times = 0, \
         body = '{{\"error\":{{\"message\":\"{words}\"}}}}' }}]\n"
    );
    let bench = Fixture::new(&script);
    let (out, said) = bench.run(&arm_config("plain"), &[("plain", "FIRST_KEY")]);
    assert_eq!(bench.fake.requests().len(), 1, "{said}");
    for part in ["does not support tools", words, "scaffold = \"bash\"", "3 trials not started"] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    let report = bench.stage.report(&out);
    assert_eq!(find_arm(&report, "plain")["resolved"], 0);
    assert_eq!(find_arm(&report, "plain")["complete"], false);
}

/// If the endpoint hangs until the trial's wall-clock limit is reached, the trial is not scored.
#[test]
fn endpoint_hang_until_the_wall_limit_is_a_fault_and_not_a_score_of_zero() {
    let script = "[[conversation]]\n[[conversation.turn]]\n\
        tool_calls = [{ name = \"shell\", arguments = { command = \"true\" } }]\n\
        [[conversation.turn]]\nfault = [{ kind = \"hang\", times = 0 }]\n";
    let bench = Fixture::new(script);
    let limited = "[[arms]]\nname = \"asks\"\nscaffold = \"tools\"\nmodel = \"asks\"\n\
        budget = { wall_seconds = 4.0 }\n";
    let url = bench.fake.base_url();
    let text = format!(
        "tasks = [\"configs/tasks/demo.jsonl\"]\n{limited}\
         [models.asks]\nbase_url = \"{url}\"\nname = \"asks\"\n"
    );
    let (config, out) = (bench.stage.write_file("run.toml", &text), bench.stage.path("run"));
    let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let said = bench.run_with_keys(&args, 3);
    assert!(said.contains("the last response did not start"), "{said}");
    let report = bench.stage.report(&out);
    assert_eq!(report["tasks"][0]["resolved"], serde_json::Value::Null);
    assert_eq!(find_arm(&report, "asks")["infrastructure_faults"], 1);
}

/// The endpoint rejects the second request of every trial in the same way. After three trials, the
/// run halts, and no trial is scored.
#[test]
fn repeated_rejection_during_trials_halts_the_plan() {
    let script = "[[rule]]\nturn = 1\nanswer = { fault = [{ kind = \"status\", status = 400, times = 0, \
        body = '{\"error\":{\"message\":\"role tool is unknown\"}}' }] }\n\
        [default]\ntool_calls = [{ name = \"shell\", arguments = { command = \"true\" } }]\n";
    let bench = Fixture::new(script);
    let (out, said) = bench.run(&arm_config("asks"), &[("asks", "FIRST_KEY")]);
    assert!(said.contains("role tool is unknown") && said.contains("halted"), "{said}");
    let report = bench.stage.report(&out);
    let asks = find_arm(&report, "asks");
    assert_eq!((&asks["graded"], &asks["complete"]), (&0.into(), &false.into()), "{asks:#}");
}
