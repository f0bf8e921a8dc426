//! Generates a Kubernetes Job manifest for workers. Never contacts a cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    Engine, EngineError, JobReport, Submission, SubmitRequest, cluster_settings,
    reject_unknown_keys,
};

const SETTING_KEYS: [&str; 9] = [
    "image",
    "claim",
    "mount",
    "namespace",
    "mem",
    "cpus",
    "secret",
    "service_account",
    "privileged",
];

/// Seconds until pods on a lost node are replaced. The Kubernetes default is five minutes.
const TOLERATION_SECONDS: u64 = 30;
/// Exit statuses after which a worker must not be replaced, because its replacement would fail too:
/// 2 is a usage error, and 3 means that the run has finished but some trials have no verdict.
const FINAL_EXIT_STATUSES: [u8; 2] = [2, 3];
/// Seconds that a worker has to close its sandboxes after a stop request.
const GRACE_SECONDS: u64 = 60;

/// The Kubernetes engine, which only prints a manifest.
#[derive(Debug, Clone, Copy)]
pub struct Kubernetes;

impl Kubernetes {
    /// Returns a Job manifest in JSON, which is valid YAML.
    ///
    /// # Errors
    /// Returns an error if a setting is missing, unknown or invalid.
    pub fn build_manifest(&self, request: &SubmitRequest) -> Result<Value, EngineError> {
        let settings = &request.settings;
        reject_unknown_keys("kubernetes", settings, &SETTING_KEYS)?;
        check_values(settings)?;
        let image = required_setting(
            settings,
            "image",
            "an image that contains proctor, such as registry/proctor:0.1.0",
        )?;
        let claim = required_setting(
            settings,
            "claim",
            "a PersistentVolumeClaim with access mode ReadWriteMany",
        )?;
        let run = request.run_dir.display().to_string();
        let parent = request.run_dir.parent().map(|parent| parent.display().to_string());
        let mount = settings.get("mount").cloned().or(parent).unwrap_or_else(|| "/".into());
        if !request.run_dir.starts_with(&mount) {
            let what = format!(
                "--engine-set mount={mount}: the run directory {run} is not inside this folder"
            );
            return Err(EngineError::new(what).hint(
                "set `mount` to a folder that contains the run directory; \
                     workers must find the run at the same path",
            ));
        }
        let mut resources = serde_json::Map::new();
        for (key, name) in [("cpus", "cpu"), ("mem", "memory")] {
            if let Some(amount) = settings.get(key) {
                resources.insert(name.into(), json!(amount));
            }
        }
        let privileged = settings.get("privileged").is_some_and(|value| value == "true");
        let security = match privileged {
            true => json!({ "privileged": true }),
            // Native sandboxes create user namespaces, which the default seccomp profile of some
            // runtimes forbids.
            false => json!({
                "allowPrivilegeEscalation": true,
                "seccompProfile": { "type": "Unconfined" },
            }),
        };
        let tolerate = |key: &str| {
            json!({
                "key": format!("node.kubernetes.io/{key}"),
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": TOLERATION_SECONDS,
            })
        };
        let mut container = json!({
            "name": "worker",
            "image": image,
            "command": ["proctor", "worker", run],
            "env": [
                { "name": "PROCTOR_JOB", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                { "name": "PROCTOR_NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
            ],
            "resources": { "requests": resources, "limits": resources },
            "securityContext": security,
            "volumeMounts": [
                { "name": "runs", "mountPath": mount },
                { "name": "scratch", "mountPath": "/root/.cache/proctor" },
            ],
        });
        if let Some(secret) = settings.get("secret") {
            container["envFrom"] = json!([{ "secretRef": { "name": secret } }]);
        }
        let mut pod = json!({
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "tolerations": [tolerate("unreachable"), tolerate("not-ready")],
            "containers": [container],
            "volumes": [
                { "name": "runs", "persistentVolumeClaim": { "claimName": claim } },
                { "name": "scratch", "emptyDir": {} },
            ],
        });
        if let Some(account) = settings.get("service_account") {
            pod["serviceAccountName"] = json!(account);
        }
        let mut metadata = json!({
            "generateName": format!("proctor-{}-", run_dns_label(request)),
            "labels": { "app.kubernetes.io/name": "proctor" },
        });
        if let Some(namespace) = settings.get("namespace") {
            metadata["namespace"] = json!(namespace);
        }
        Ok(json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {
                // Don't set `completions`: workers claim trials from the run, and the Job is
                // complete when a worker finds no more trials.
                "parallelism": request.workers,
                "backoffLimit": request.workers.saturating_mul(cluster_settings()?.requeues),
                "podFailurePolicy": { "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": { "containerName": "worker", "operator": "In", "values": FINAL_EXIT_STATUSES },
                    },
                    // Always replace evicted or preempted pods.
                    {
                        "action": "Ignore",
                        "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }],
                    },
                ] },
                "template": {
                    "metadata": { "labels": { "app.kubernetes.io/name": "proctor" } },
                    "spec": pod,
                },
            },
        }))
    }
}

fn required_setting<'a>(
    settings: &'a BTreeMap<String, String>,
    key: &str,
    description: &str,
) -> Result<&'a String, EngineError> {
    settings.get(key).ok_or_else(|| {
        EngineError::new(format!("kubernetes needs --engine-set {key}=..."))
            .hint(format!("set it to {description}"))
    })
}

/// Rejects values that the API server would reject or interpret differently.
fn check_values(settings: &BTreeMap<String, String>) -> Result<(), EngineError> {
    for (key, value) in settings {
        let (is_right, form) = match key.as_str() {
            "cpus" | "mem" => (is_quantity(value), "a Kubernetes quantity, such as 8, 500m, 32Gi"),
            "claim" | "namespace" | "secret" | "service_account" => {
                (is_dns_name(value), "a Kubernetes name: lower-case letters, digits, `-` and `.`")
            }
            "mount" => (value.starts_with('/'), "an absolute path"),
            "privileged" => (matches!(value.as_str(), "true" | "false"), "true or false"),
            _ => (!value.is_empty(), "a value"),
        };
        if !is_right {
            let what = format!("--engine-set {key}={value}: invalid value");
            return Err(EngineError::new(what).hint(format!("use {form}")));
        }
    }
    Ok(())
}

/// Whether the text is a Kubernetes quantity without sign or exponent. See
/// <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>.
fn is_quantity(text: &str) -> bool {
    const QUANTITY_SUFFIXES: [&str; 10] = ["m", "k", "Ki", "M", "Mi", "G", "Gi", "T", "Ti", ""];
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = text.strip_prefix(digits).unwrap_or_default();
    let mut parts = digits.splitn(2, '.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    parts.next().is_some_and(is_number)
        && parts.next().is_none_or(is_number)
        && QUANTITY_SUFFIXES.contains(&suffix)
}

/// Whether the text is a DNS subdomain name (RFC 1123).
fn is_dns_name(text: &str) -> bool {
    let is_inner = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(is_inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// Returns the name of the run directory, converted so that it can be part of a DNS label.
fn run_dns_label(request: &SubmitRequest) -> String {
    let name = request.run_dir.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let label: String = name.chars().take(30).map(plain).collect();
    label.trim_matches('-').to_owned()
}

fn manifest_only_error() -> EngineError {
    EngineError::new("for Kubernetes, Proctor only prints a manifest")
        .hint("use --dry-run, and pipe the output to `kubectl create -f -`")
}

impl Engine for Kubernetes {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn check_availability(&self, _settings: &BTreeMap<String, String>) -> Result<(), EngineError> {
        Err(manifest_only_error())
    }

    fn submit(&self, _request: &SubmitRequest) -> Result<Submission, EngineError> {
        Err(manifest_only_error())
    }

    fn query_jobs(&self, _submission: &Submission) -> JobReport {
        JobReport::Unknown("see `kubectl get jobs`".into())
    }

    fn request_stop(&self, _submission: &Submission) -> Result<(), EngineError> {
        Err(manifest_only_error())
    }

    fn cancel(&self, _submission: &Submission) -> Result<(), EngineError> {
        Err(manifest_only_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submit_request(settings: &[(&str, &str)]) -> SubmitRequest {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        SubmitRequest {
            run_dir: "/shared/runs/My_Run".into(),
            program: "/usr/bin/proctor".into(),
            version: "0.1.0".into(),
            workers: 8,
            settings: settings.iter().map(owned).collect(),
        }
    }

    #[test]
    fn manifest_runs_parallel_workers_on_a_shared_volume() {
        let job = Kubernetes
            .build_manifest(&submit_request(&[
                ("image", "r/proctor:1"),
                ("claim", "runs"),
                ("mount", "/shared"),
                ("mem", "16Gi"),
                ("cpus", "8"),
            ]))
            .unwrap();
        assert_eq!((&job["apiVersion"], &job["kind"]), (&json!("batch/v1"), &json!("Job")));
        assert_eq!(job["spec"]["parallelism"], 8);
        assert!(job["spec"].get("completions").is_none());
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["restartPolicy"], "Never");
        assert_eq!(pod["tolerations"][0]["tolerationSeconds"], TOLERATION_SECONDS);
        assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "runs");
        let container = &pod["containers"][0];
        assert_eq!(container["command"], json!(["proctor", "worker", "/shared/runs/My_Run"]));
        assert_eq!(container["resources"]["limits"], json!({ "cpu": "8", "memory": "16Gi" }));
        assert_eq!(job["metadata"]["generateName"], "proctor-my-run-");
    }

    #[test]
    fn job_fails_immediately_on_permanent_errors() {
        let job =
            Kubernetes.build_manifest(&submit_request(&[("image", "i"), ("claim", "c")])).unwrap();
        let rules = &job["spec"]["podFailurePolicy"]["rules"];
        assert_eq!(rules[0]["action"], "FailJob");
        assert_eq!(rules[0]["onExitCodes"]["values"], json!([2, 3]));
        // The pod failure policy requires this.
        assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never");
    }

    /// The types of a Job's fields by Kubernetes version. `tests/kubernetes/types.py` extracts them
    /// from the k8s-openapi crate.
    const JOB_FIELD_TYPES: [(&str, &str); 2] = [
        ("1.33", include_str!("../tests/kubernetes/1.33.json")),
        ("1.37", include_str!("../tests/kubernetes/1.37.json")),
    ];

    /// Returns a message for each field of a value that is unknown, missing or of the wrong type.
    fn type_errors(types: &Value, kind: &Value, value: &Value, path: &str) -> Vec<String> {
        let other = || vec![format!("{path}: {value} is not a {kind}")];
        match (kind, value) {
            (Value::Array(kinds), Value::Array(values)) => {
                let each = values.iter().enumerate();
                each.flat_map(|(index, one)| {
                    type_errors(types, &kinds[0], one, &format!("{path}[{index}]"))
                })
                .collect()
            }
            (Value::Object(kinds), Value::Object(values)) => {
                let each = values.iter();
                each.flat_map(|(key, one)| {
                    type_errors(types, &kinds["*"], one, &format!("{path}.{key}"))
                })
                .collect()
            }
            (Value::String(name), value) => match (name.as_str(), value) {
                ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => Vec::new(),
                ("integer", Value::Number(number)) if !number.is_f64() => Vec::new(),
                ("quantity" | "integer or string", Value::String(_) | Value::Number(_)) => {
                    Vec::new()
                }
                (name, Value::Object(fields)) => {
                    let (known, required) = (&types[name]["fields"], &types[name]["required"]);
                    let required = required.as_array().into_iter().flatten();
                    let missing = required.filter_map(Value::as_str);
                    let missing = missing.filter(|key| !fields.contains_key(*key));
                    let mut all: Vec<_> =
                        missing.map(|key| format!("{path}: {key} is missing")).collect();
                    for (key, field) in fields {
                        match known.get(key) {
                            Some(kind) => {
                                all.extend(type_errors(
                                    types,
                                    kind,
                                    field,
                                    &format!("{path}.{key}"),
                                ));
                            }
                            None => all.push(format!("{path}: {name} has no field {key}")),
                        }
                    }
                    all
                }
                _ => other(),
            },
            _ => other(),
        }
    }

    #[test]
    fn manifest_matches_the_api_types() {
        let least = [("image", "r/proctor:1"), ("claim", "runs")];
        let all = [
            ("mount", "/shared"),
            ("namespace", "lab"),
            ("mem", "16Gi"),
            ("cpus", "8"),
            ("secret", "keys"),
            ("service_account", "runner"),
            ("privileged", "true"),
        ];
        assert_eq!(least.len() + all.len(), SETTING_KEYS.len());
        for (version, types) in JOB_FIELD_TYPES {
            let types: Value = serde_json::from_str(types).unwrap();
            let wrong = |job: &Value| type_errors(&types, &json!("api.batch.v1.Job"), job, "");
            for settings in [least.to_vec(), [&least[..], &all[..]].concat()] {
                let job = Kubernetes.build_manifest(&submit_request(&settings)).unwrap();
                assert_eq!(wrong(&job), [""; 0], "Kubernetes {version}");
                let mut job = job;
                job["spec"]["paralelism"] = json!(8);
                job["spec"]["backoffLimit"] = json!("8");
                let container = &mut job["spec"]["template"]["spec"]["containers"][0];
                container.as_object_mut().unwrap().remove("name");
                let container = ".spec.template.spec.containers[0]";
                assert_eq!(wrong(&job).len(), 3, "{:?}", wrong(&job));
                assert!(wrong(&job).contains(&format!("{container}: name is missing")));
            }
        }
    }

    #[test]
    fn manifest_rejects_values_that_the_api_would_reject() {
        let base = [("image", "i"), ("claim", "c")];
        for good in
            [("cpus", "500m"), ("mem", "1.5Gi"), ("namespace", "lab-1"), ("privileged", "false")]
        {
            let settings = [&base[..], &[good][..]].concat();
            assert!(Kubernetes.build_manifest(&submit_request(&settings)).is_ok(), "{good:?}");
        }
        for (key, value) in [
            ("cpus", "abc"),
            ("cpus", "-1"),
            ("mem", "8GB"),
            ("mem", "1."),
            ("claim", "Runs_X"),
            ("secret", "-x"),
            ("namespace", ""),
            ("mount", "shared"),
            ("privileged", "yes"),
            ("image", ""),
        ] {
            let error = Kubernetes
                .build_manifest(&submit_request(&[&base[..], &[(key, value)][..]].concat()));
            let error = error.unwrap_err();
            assert!(error.message.contains(key) && error.hint.is_some(), "{error}");
        }
    }

    #[test]
    fn manifest_names_missing_settings() {
        let error = Kubernetes.build_manifest(&submit_request(&[("image", "i")])).unwrap_err();
        assert!(error.message.contains("claim"), "{error}");
        let elsewhere = submit_request(&[("image", "i"), ("claim", "c"), ("mount", "/data")]);
        assert!(Kubernetes.build_manifest(&elsewhere).unwrap_err().message.contains("/data"));
        assert!(Kubernetes.submit(&elsewhere).unwrap_err().hint.unwrap().contains("--dry-run"));
    }
}
