//! Measures sandboxes of both back ends.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use proctor_embedded_agent::AGENT_BYTES;
use proctor_sandbox_api::{
    Backend, Base, Command, LayerSpec, PreparedEnvironment, Sandbox, SandboxHandle, SandboxRequest,
    wire::RawPath,
};
use proctor_types::SandboxSpec;

use crate::{bare_docker::BareDocker, figures::Figures};

/// How often to run a command that takes about a millisecond.
const QUICK_REPEATS: usize = 300;
const SLOW_REPEATS: usize = 30;

pub struct SandboxOpener {
    backend: Arc<dyn Backend>,
    environment: PreparedEnvironment,
}

impl SandboxOpener {
    async fn new(backend: Arc<dyn Backend>, base: Base) -> Self {
        let spec = LayerSpec {
            base,
            source: None,
            setup: Vec::new(),
            workdir: RawPath::from("/testbed"),
            env: Vec::new(),
            time_limit: Duration::from_secs(60),
        };
        let prepared = backend.prepare(&spec).await.expect("an environment");
        Self { backend, environment: prepared }
    }

    async fn open(&self) -> Box<dyn Sandbox> {
        let spec = SandboxRequest {
            environment: self.environment.clone(),
            limits: SandboxSpec::default(),
            mounts: Vec::new(),
            purpose: "bench".into(),
        };
        self.backend.open(&spec).await.expect("a sandbox")
    }

    /// Returns the image that the sandboxes start from.
    pub fn image(&self) -> String {
        self.environment.backend_id.clone()
    }
}

pub fn agent_bytes() -> usize {
    AGENT_BYTES
}

pub async fn native_opener(cache: &Path) -> SandboxOpener {
    let backend = proctor_native::Native::new(cache.to_owned()).expect("a native back end");
    SandboxOpener::new(Arc::new(backend), Base::Host).await
}

/// Returns an opener for Docker; `None` if no engine responds. `PROCTOR_BENCH_IMAGE` is the image
/// to use. It must contain `/bin/true` and `sleep`.
pub async fn docker_opener() -> Option<SandboxOpener> {
    let backend = proctor_docker::Docker::connect().await.ok()?;
    let image = std::env::var("PROCTOR_BENCH_IMAGE").unwrap_or("proctor-test:bookworm".into());
    Some(SandboxOpener::new(Arc::new(backend), Base::Image(image)).await)
}

async fn time_step(handle: &SandboxHandle) -> Duration {
    let begun = Instant::now();
    let done = handle.run(Command::new(["/bin/true"])).await.expect("a command");
    assert!(done.success());
    begun.elapsed()
}

async fn time_first_command(opener: &SandboxOpener) -> Duration {
    let begun = Instant::now();
    let mut sandbox = opener.open().await;
    time_step(sandbox.handle()).await;
    let took = begun.elapsed();
    sandbox.close().await.expect("a closed sandbox");
    took
}

pub async fn measure_start(
    opener: &SandboxOpener,
    name: &str,
    figures: &mut Figures,
    repeats: usize,
) {
    time_first_command(opener).await;
    for _ in 0..repeats {
        figures.add(&format!("start, {name} sandbox"), time_first_command(opener).await);
    }
}

pub async fn compare_start_with_bare(
    docker: &SandboxOpener,
    bare_docker: &BareDocker,
    figures: &mut Figures,
    repeats: usize,
) {
    time_first_command(docker).await;
    for _ in 0..repeats {
        figures.add("start, docker sandbox", time_first_command(docker).await);
        let begun = Instant::now();
        let id = bare_docker.start_container().await;
        bare_docker.exec(&id).await;
        figures.add("start, bare docker", begun.elapsed());
        bare_docker.remove_container(&id).await;
    }
}

pub async fn measure_native_steps(native: &SandboxOpener, figures: &mut Figures) {
    let mut sandbox = native.open().await;
    for _ in 0..QUICK_REPEATS {
        figures.add("step, native sandbox", time_step(sandbox.handle()).await);
    }
    sandbox.close().await.expect("a closed sandbox");
}

pub async fn measure_steps(
    native: &SandboxOpener,
    docker: &SandboxOpener,
    bare_docker: &BareDocker,
    figures: &mut Figures,
) {
    let (mut here, mut there) = (native.open().await, docker.open().await);
    let id = bare_docker.start_container().await;
    for _ in 0..SLOW_REPEATS {
        for _ in 0..QUICK_REPEATS / SLOW_REPEATS {
            figures.add("step, native sandbox", time_step(here.handle()).await);
            figures.add("step, docker sandbox", time_step(there.handle()).await);
        }
        figures.add("step, docker exec bollard", bare_docker.exec(&id).await);
        figures.add("step, docker exec CLI", bare_docker.time_exec_cli(&id).await);
    }
    bare_docker.remove_container(&id).await;
    here.close().await.expect("a closed sandbox");
    there.close().await.expect("a closed sandbox");
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("kilobytes")
}

/// Prints how much memory each open, idle sandbox needs, in the runtime and in its agent.
pub async fn measure_memory(opener: &SandboxOpener, sandboxes: usize) {
    let before = resident_kb();
    let mut open = Vec::new();
    for _ in 0..sandboxes {
        open.push(opener.open().await);
    }
    let each = resident_kb().saturating_sub(before) as f64 / sandboxes as f64;
    let (_, agent) = open[0].handle().ping().await.expect("an agent");
    println!("\nidle sandbox: {each:.0} KiB in the runtime, {agent} KiB resident in its agent");
    for mut sandbox in open {
        sandbox.close().await.expect("a closed sandbox");
    }
}
