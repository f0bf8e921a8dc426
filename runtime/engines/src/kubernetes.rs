//! Kubernetes: the manifest of a Job of workers that pull trials. Nothing is sent to a cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Engine, EngineError, Jobs, Request, Submission, expect_keys, table};

const SETTINGS: [&str; 9] = [
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

/// Seconds until pods of a lost node are replaced. Kubernetes' default is five minutes.
const GONE_SECONDS: u64 = 30;
/// A worker closes its sandboxes within this time after it is asked to end.
const GRACE_SECONDS: u64 = 60;

/// A Job's manifest.
#[derive(Debug, Clone, Copy)]
pub struct Kubernetes;

impl Kubernetes {
    /// A Job in JSON, which is valid YAML.
    ///
    /// # Errors
    /// A setting is missing, or Kubernetes has no setting of this name.
    pub fn manifest(&self, request: &Request) -> Result<Value, EngineError> {
        let settings = &request.settings;
        expect_keys("kubernetes", settings, &SETTINGS)?;
        let image = required(
            settings,
            "image",
            "an image that has proctor, such as registry/proctor:0.1.0",
        )?;
        let claim =
            required(settings, "claim", "a PersistentVolumeClaim with access mode ReadWriteMany")?;
        let run = request.run.display().to_string();
        let parent = request.run.parent().map(|parent| parent.display().to_string());
        let mount = settings.get("mount").cloned().or(parent).unwrap_or_else(|| "/".into());
        if !request.run.starts_with(&mount) {
            let what =
                format!("--engine-set mount={mount}: the run directory {run} isn't below it");
            return Err(
                EngineError::new(what).hint("workers see the run at the same path as you do")
            );
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
            // Native sandboxes create user namespaces, which some runtimes' default seccomp profile
            // forbids.
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
                "tolerationSeconds": GONE_SECONDS,
            })
        };
        let mut container = json!({
            "name": "worker",
            "image": image,
            "command": ["proctor", "worker", run],
            "env": [{
                "name": "PROCTOR_JOB",
                "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } },
            }],
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
            "generateName": format!("proctor-{}-", label(request)),
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
                // Without `completions`: pods pull work, and the Job is done when one of them finds
                // none.
                "parallelism": request.workers,
                "backoffLimit": request.workers.saturating_mul(table()?.requeues),
                "template": {
                    "metadata": { "labels": { "app.kubernetes.io/name": "proctor" } },
                    "spec": pod,
                },
            },
        }))
    }
}

fn required<'a>(
    settings: &'a BTreeMap<String, String>,
    key: &str,
    what: &str,
) -> Result<&'a String, EngineError> {
    settings.get(key).ok_or_else(|| {
        EngineError::new(format!("kubernetes needs --engine-set {key}=..."))
            .hint(format!("name {what}"))
    })
}

/// The run's name as part of a DNS label.
fn label(request: &Request) -> String {
    let name = request.run.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let label: String = name.chars().take(30).map(plain).collect();
    label.trim_matches('-').to_owned()
}

fn only_a_manifest() -> EngineError {
    EngineError::new("Proctor prints a manifest for Kubernetes and sends nothing to a cluster")
        .hint("use --dry-run, and give the output to `kubectl create -f -`")
}

impl Engine for Kubernetes {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn check(&self, _settings: &BTreeMap<String, String>) -> Result<(), EngineError> {
        Err(only_a_manifest())
    }

    fn submit(&self, _request: &Request) -> Result<Submission, EngineError> {
        Err(only_a_manifest())
    }

    fn state(&self, _submission: &Submission) -> Jobs {
        Jobs::Unknown("ask `kubectl get jobs`".into())
    }

    fn cancel(&self, _submission: &Submission) -> Result<(), EngineError> {
        Err(only_a_manifest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(settings: &[(&str, &str)]) -> Request {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Request {
            run: "/shared/runs/My_Run".into(),
            program: "/usr/bin/proctor".into(),
            version: "0.1.0".into(),
            workers: 8,
            settings: settings.iter().map(owned).collect(),
        }
    }

    #[test]
    fn a_job_runs_workers_side_by_side_on_a_shared_volume() {
        let job = Kubernetes
            .manifest(&request(&[
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
        assert_eq!(pod["tolerations"][0]["tolerationSeconds"], GONE_SECONDS);
        assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "runs");
        let container = &pod["containers"][0];
        assert_eq!(container["command"], json!(["proctor", "worker", "/shared/runs/My_Run"]));
        assert_eq!(container["resources"]["limits"], json!({ "cpu": "8", "memory": "16Gi" }));
        assert_eq!(job["metadata"]["generateName"], "proctor-my-run-");
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = Kubernetes.manifest(&request(&[("image", "i")])).unwrap_err();
        assert!(error.what.contains("claim"), "{error}");
        let elsewhere = request(&[("image", "i"), ("claim", "c"), ("mount", "/data")]);
        assert!(Kubernetes.manifest(&elsewhere).unwrap_err().what.contains("/data"));
        assert!(Kubernetes.submit(&elsewhere).unwrap_err().hint.unwrap().contains("--dry-run"));
    }
}
