//! Measurements of sandboxes on both back ends.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use proctor_embedded_agent::AGENT_BYTES;
use proctor_sandbox_api::{
    Backend, Base, Command, LayerSpec, Prepared, Sandbox, SandboxHandle, SandboxRequest,
    wire::RawPath,
};
use proctor_types::SandboxSpec;

use crate::{bare::Bare, figures::Figures};

/// Repetitions of a command that takes about a millisecond, and of one that takes about fifty.
const QUICK: usize = 300;
const SLOW: usize = 30;

pub struct Opener {
    backend: Arc<dyn Backend>,
    prepared: Prepared,
}

impl Opener {
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
        Self { backend, prepared }
    }

    async fn open(&self) -> Box<dyn Sandbox> {
        let spec = SandboxRequest {
            environment: self.prepared.clone(),
            limits: SandboxSpec::default(),
            mounts: Vec::new(),
            purpose: "bench".into(),
        };
        self.backend.open(&spec).await.expect("a sandbox")
    }

    /// Returns the image that the sandboxes start from.
    pub fn image(&self) -> String {
        self.prepared.handle.clone()
    }
}

pub fn agent_bytes() -> usize {
    AGENT_BYTES
}

pub async fn native(cache: &Path) -> Opener {
    let backend = proctor_native::Native::new(cache.to_owned()).expect("a native back end");
    Opener::new(Arc::new(backend), Base::Host).await
}

/// `PROCTOR_BENCH_IMAGE` names the image to measure with. It needs `/bin/true` and `sleep`.
pub async fn docker() -> Option<Opener> {
    let backend = proctor_docker::Docker::connect().await.ok()?;
    let image = std::env::var("PROCTOR_BENCH_IMAGE").unwrap_or("proctor-test:bookworm".into());
    Some(Opener::new(Arc::new(backend), Base::Image(image)).await)
}

async fn step(handle: &SandboxHandle) -> Duration {
    let begun = Instant::now();
    let done = handle.run(Command::new(["/bin/true"])).await.expect("a command");
    assert!(done.success());
    begun.elapsed()
}

async fn first_command(opener: &Opener) -> Duration {
    let begun = Instant::now();
    let mut sandbox = opener.open().await;
    step(sandbox.handle()).await;
    let took = begun.elapsed();
    sandbox.close().await.expect("a closed sandbox");
    took
}

pub async fn start(opener: &Opener, name: &str, figures: &mut Figures, times: usize) {
    first_command(opener).await;
    for _ in 0..times {
        figures.add(&format!("start, {name} sandbox"), first_command(opener).await);
    }
}

pub async fn start_against_bare(docker: &Opener, bare: &Bare, figures: &mut Figures, times: usize) {
    first_command(docker).await;
    for _ in 0..times {
        figures.add("start, docker sandbox", first_command(docker).await);
        let begun = Instant::now();
        let id = bare.open().await;
        bare.exec(&id).await;
        figures.add("start, bare docker", begun.elapsed());
        bare.close(&id).await;
    }
}

pub async fn steps_native(native: &Opener, figures: &mut Figures) {
    let mut sandbox = native.open().await;
    for _ in 0..QUICK {
        figures.add("step, native sandbox", step(sandbox.handle()).await);
    }
    sandbox.close().await.expect("a closed sandbox");
}

pub async fn steps(native: &Opener, docker: &Opener, bare: &Bare, figures: &mut Figures) {
    let (mut here, mut there) = (native.open().await, docker.open().await);
    let id = bare.open().await;
    for _ in 0..SLOW {
        for _ in 0..QUICK / SLOW {
            figures.add("step, native sandbox", step(here.handle()).await);
            figures.add("step, docker sandbox", step(there.handle()).await);
        }
        figures.add("step, docker exec bollard", bare.exec(&id).await);
        figures.add("step, docker exec CLI", bare.exec_cli(&id).await);
    }
    bare.close(&id).await;
    here.close().await.expect("a closed sandbox");
    there.close().await.expect("a closed sandbox");
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("kilobytes")
}

/// Prints the memory per open, idle sandbox: in the runtime and in its agent.
pub async fn memory(opener: &Opener, sandboxes: usize) {
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
