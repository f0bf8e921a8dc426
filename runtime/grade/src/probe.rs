//! Probes the interpreter before any of the model's files are in the sandbox.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use proctor_sandbox_api::{Command, SandboxHandle, describe_exit, wire::RawPath};
use proctor_setup::Memo;
use proctor_types::{Fault, FaultCause, FaultLayer, sha256_hex};
use serde::Deserialize;

use crate::{
    ascii_json::escape_non_ascii,
    hidden::{LEND_SCRIPT, LentModules},
    launch::Launch,
    policy::Policy,
};

const PROBE_SCRIPT: &str = include_str!("../python/probe.py");

/// Extends a script so that it first loads the lent modules from memory. Returns the script and its
/// input.
fn prepend_lent_modules(
    script: &str,
    lent_modules: &LentModules,
) -> Result<(String, Vec<u8>), Fault> {
    if lent_modules.is_empty() {
        return Ok((script.to_owned(), Vec::new()));
    }
    let text = serde_json::to_string(lent_modules)
        .map_err(|error| Fault::new(FaultLayer::Grade, error.to_string()))?;
    let first = "import json, sys\nlend(json.loads(sys.stdin.buffer.read().decode('ascii')))\n";
    let apart = "import sys\nsys.path[:] = [entry for entry in sys.path if entry]\n";
    Ok((format!("{apart}{LEND_SCRIPT}\n{first}\n{script}"), escape_non_ascii(&text).into_bytes()))
}

/// Properties of the pristine interpreter, and the files that it would load.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Probe {
    pub pytest: Option<String>,
    /// Whether pytest can be imported when the import path has no folder of the work directory.
    pub apart: bool,
    /// `sys.prefix` and `sys.exec_prefix`.
    pub prefixes: Vec<String>,
    /// The real path of the work directory.
    pub root: String,
    /// The import path, in order: `PYTHONPATH`, the standard library, packages, `.pth` files.
    pub path: Vec<String>,
    /// The real paths of the import folders that a patch can write to.
    pub graded: Vec<String>,
    /// The real paths of the other import folders.
    pub outside: Vec<String>,
    /// `PYTHONPATH` without the folders that a patch can write to.
    pub pythonpath: String,
    /// Modules of the work directory that the interpreter loads before any script.
    pub loaded: Vec<String>,
    /// Top-level names that can be imported from outside the work directory.
    pub provided: Vec<String>,
    /// The `pytest11` entry points, as name and module.
    pub plugins: Vec<(String, String)>,
    pub standard_library: Vec<String>,
}

/// How to start the interpreter for a probe. The tests start their interpreter in the same way.
#[derive(Clone, Copy)]
pub(crate) struct ProbeRequest<'a> {
    pub launch: &'a Launch,
    pub workdir: &'a str,
    pub env: &'a BTreeMap<String, String>,
    pub user: Option<&'a str>,
    pub lent_modules: &'a LentModules,
}

impl ProbeRequest<'_> {
    /// Returns a hash of everything that determines the probe's result in a sandbox with this
    /// `preparation_key`.
    fn cache_key(&self, preparation_key: &str) -> Result<String, Fault> {
        let parts = (
            preparation_key,
            &self.launch.interpreter,
            self.workdir,
            self.env,
            self.user,
            self.lent_modules,
        );
        let text = serde_json::to_vec(&parts)
            .map_err(|error| Fault::new(FaultLayer::Grade, error.to_string()))?;
        Ok(sha256_hex(&text))
    }
}

/// A cache of probe results, shared by clones. A result takes about 30 KB of memory.
#[derive(Debug, Clone, Default)]
pub struct ProbeCache(Arc<Memo<String, Probe>>);

impl ProbeCache {
    /// Returns the cached result for sandboxes with the same preparation, or probes now, which
    /// takes as long as importing pytest. Call this before the patch is applied.
    pub(crate) async fn probe(
        &self,
        handle: &SandboxHandle,
        preparation_key: &str,
        request: &ProbeRequest<'_>,
    ) -> Result<Probe, Fault> {
        // Don't cache faults: the sandbox may have caused them.
        self.0
            .get_or_compute(
                request.cache_key(preparation_key)?,
                |_| true,
                async || Probe::run(handle, request).await,
            )
            .await
    }
}

impl Probe {
    pub(crate) async fn run(
        handle: &SandboxHandle,
        request: &ProbeRequest<'_>,
    ) -> Result<Self, Fault> {
        let ProbeRequest { launch, workdir, env, user, lent_modules: lent } = *request;
        let (text, stdin) = prepend_lent_modules(PROBE_SCRIPT, lent)?;
        let env = Policy::get()?.environment.for_task(env);
        // Don't isolate the interpreter (`-I`), because the probe must have the same import path as
        // the tests.
        let out = run_script(handle, launch, &[], workdir, &env, user, &text, &stdin).await?;
        let probe: Self = serde_json::from_slice(&out)
            .map_err(|error| probe_fault(launch, format!("invalid output: {error}")))?;
        if probe.pytest.is_none() {
            return Err(probe_fault(launch, "cannot import pytest".into())
                .cause(FaultCause::Missing)
                .hint("install pytest in the task's setup commands"));
        }
        Ok(probe)
    }
}

/// Runs a script with `python -I`: without the work directory, user site and `PYTHONPATH`.
pub(crate) async fn run_isolated_script(
    handle: &SandboxHandle,
    launch: &Launch,
    workdir: &str,
    env: &BTreeMap<String, String>,
    user: Option<&str>,
    text: &str,
    stdin: &[u8],
) -> Result<Vec<u8>, Fault> {
    run_script(handle, launch, &["-I"], workdir, env, user, text, stdin).await
}

#[expect(clippy::too_many_arguments, reason = "one interpreter start needs all of them")]
async fn run_script(
    handle: &SandboxHandle,
    launch: &Launch,
    flags: &[&str],
    workdir: &str,
    env: &BTreeMap<String, String>,
    user: Option<&str>,
    text: &str,
    stdin: &[u8],
) -> Result<Vec<u8>, Fault> {
    let policy = Policy::get()?;
    let mut argv = launch.interpreter.clone();
    argv.extend(flags.iter().map(|flag| (*flag).to_owned()));
    argv.extend(["-B".into(), "-c".into(), text.to_owned()]);
    let mut command = Command::new(argv).cwd(workdir);
    for (key, value) in env {
        command = command.env(key, value.as_str());
    }
    command.stdin = stdin.to_vec();
    command.user = user.map(str::to_owned);
    command.head_cap = 64 << 20;
    command.time_limit = Some(Duration::from_secs(policy.limits.probe_seconds));
    let done =
        handle.run(command).await.map_err(|error| error.to_fault("running the interpreter"))?;
    if !done.success() {
        let said = done.stderr.text();
        let last = said.lines().last().unwrap_or("nothing on standard error");
        // A shell exits with these codes if a program is missing or not executable.
        let cause = match done.exit.code {
            Some(126 | 127) => FaultCause::Missing,
            _ => FaultCause::Other,
        };
        let what = format!("failed ({}): {last}", describe_exit(&done.exit));
        return Err(probe_fault(launch, what).cause(cause));
    }
    Ok(done.stdout.head)
}

fn probe_fault(launch: &Launch, message: String) -> Fault {
    Fault::new(
        FaultLayer::Grade,
        format!("interpreter {}: {message}", launch.interpreter.join(" ")),
    )
}

/// Returns a random path in the sandbox that the graded code cannot guess.
pub(crate) fn generate_secret_folder() -> Result<RawPath, Fault> {
    Ok(RawPath::from(format!("/tmp/{}", proctor_types::hex(&random_bytes::<12>()?))))
}

pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], Fault> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
                .map_err(|error| {
                    Fault::new(FaultLayer::Grade, format!("failed to get random bytes: {error}"))
                })?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::ProbeRequest;
    use crate::{hidden::LentModules, launch::Launch};

    #[test]
    fn probe_key_depends_on_launch_and_sandbox() {
        let launch = |python: &str| Launch {
            interpreter: vec![python.to_owned()],
            cwd_on_path: true,
            arguments: Vec::new(),
        };
        let (python, other) = (launch("python"), launch("python3"));
        let (none, some) =
            (BTreeMap::new(), BTreeMap::from([("PYTHONPATH".to_owned(), "/x".to_owned())]));
        let lent = LentModules::default();
        let request = ProbeRequest {
            launch: &python,
            workdir: "/testbed",
            env: &none,
            user: None,
            lent_modules: &lent,
        };
        let keys = [
            request.cache_key("a"),
            request.cache_key("b"),
            ProbeRequest { launch: &other, ..request }.cache_key("a"),
            ProbeRequest { workdir: "/src", ..request }.cache_key("a"),
            ProbeRequest { env: &some, ..request }.cache_key("a"),
            ProbeRequest { user: Some("tester"), ..request }.cache_key("a"),
        ];
        let keys: std::collections::BTreeSet<_> =
            keys.into_iter().map(|key| key.expect("a key")).collect();
        assert_eq!(keys.len(), 6);
        assert!(
            keys.contains(&request.cache_key("a").expect("a key")),
            "an equal request has the same key"
        );
    }
}
