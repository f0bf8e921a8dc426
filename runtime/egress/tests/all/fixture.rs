//! A proxy on a loopback socket, with a ledger and one upstream server.

use std::{
    path::PathBuf,
    process::{Command, Output},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use proctor_egress::{Egress, EgressProxy, Ledger, Policy};
use proctor_types::{Fault, FaultLayer, NetworkMode, NetworkPolicy, Task, UrlRequest};
use tokio::net::TcpListener;

use crate::upstream::UpstreamServer;

#[derive(Default)]
pub struct TestLedger {
    pub step: AtomicU64,
    entries: Mutex<Vec<(u64, UrlRequest)>>,
    /// Whether recording fails.
    pub is_full: std::sync::atomic::AtomicBool,
}

#[async_trait]
impl Ledger for TestLedger {
    async fn current_step(&self) -> u64 {
        self.step.load(Ordering::SeqCst)
    }

    async fn record(&self, step: u64, request: UrlRequest) -> Result<(), Fault> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(Fault::new(FaultLayer::Record, "the disk is full"));
        }
        self.entries.lock().unwrap().push((step, request));
        Ok(())
    }
}

pub struct ProxyFixture {
    pub dir: tempfile::TempDir,
    pub upstream: UpstreamServer,
    pub proxy: Arc<EgressProxy>,
    pub ledger: Arc<TestLedger>,
    pub port: u16,
}

pub fn task(task_fields: &str) -> Task {
    let text = format!(
        r#"{{"schema_version": 1, "id": "t", "statement": "s", "environment": {{"base": "host"}},
            "fail_to_pass": [], "test_command": ["true"] {task_fields}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

impl ProxyFixture {
    /// Starts an upstream server with the names `a.test`, `b.test` and `127.0.0.2`. In the
    /// patterns, `PORT` is replaced with the server's port. Only `a.test` and `b.test` are pinned
    /// to its address.
    pub async fn new(mode: NetworkMode, allow: &[&str], task_fields: &str) -> Self {
        Self::with_network(mode, allow, task_fields, |_| {}).await
    }

    pub async fn with_network(
        mode: NetworkMode,
        allow: &[&str],
        task_fields: &str,
        configure: impl FnOnce(&mut NetworkPolicy),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("www/ok")).unwrap();
        std::fs::write(dir.path().join("www/ok/file"), "x".repeat(100_000)).unwrap();
        std::fs::write(dir.path().join("www/secret"), "secret\n").unwrap();
        let folder = dir.path().join("www");
        let upstream = UpstreamServer::start(&["a.test", "b.test", "127.0.0.2"], &folder).await;
        let port = upstream.port();
        let ca_file = dir.path().join("upstream.pem");
        std::fs::write(&ca_file, &upstream.ca_certificate).unwrap();
        let port_in = |text: &str| text.replace("PORT", &port.to_string());
        let mut network = NetworkPolicy {
            mode,
            allow: allow.iter().map(|text| port_in(text)).collect(),
            private: ["a.test", "b.test"].map(|name| format!("{name}=127.0.0.1:{port}")).into(),
            ca_file: Some(ca_file.clone()),
            ..NetworkPolicy::default()
        };
        configure(&mut network);
        let policy = Policy::new(&network, &task(&port_in(task_fields))).unwrap();
        let egress = Egress::new().unwrap();
        let ledger = Arc::new(TestLedger::default());
        let recording = Arc::clone(&ledger) as Arc<dyn Ledger>;
        let proxy =
            Arc::new(egress.create_proxy(policy, network.ca_file.as_deref(), recording).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stage = listener.local_addr().unwrap().port();
        let serving = Arc::clone(&proxy);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let proxy = Arc::clone(&serving);
                tokio::spawn(async move { proxy.serve(stream).await });
            }
        });
        for (path, content) in egress.client_files(Some(&ca_file)).unwrap().0 {
            let name = PathBuf::from(path).file_name().unwrap().to_owned();
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        Self { dir, upstream, proxy, ledger, port: stage }
    }

    pub fn bundle(&self) -> PathBuf {
        self.dir.path().join("ca-bundle.pem")
    }

    /// Returns a command that can only find the proxy through its environment variables.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.dir.path()).current_dir(self.dir.path());
        for (name, value) in proctor_egress::client_env(([127, 0, 0, 1], self.port).into()).unwrap()
        {
            let here = self.dir.path().to_str().unwrap();
            command.env(name, value.replace("/run/proctor-egress", here));
        }
        command
    }

    /// Runs `curl`. In the arguments, `PORT` is replaced with the upstream's port. Returns the
    /// status and the body.
    pub async fn curl(&self, args: &[&str]) -> (u16, String) {
        let mut command = self.command("curl");
        command.args(["-sS", "--max-time", "20", "-w", "\n%{http_code}"]);
        let port = self.upstream.port().to_string();
        command.args(args.iter().map(|arg| arg.replace("PORT", &port)));
        let output = run(command).await;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = said.rsplit_once('\n').unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (status.parse().unwrap(), format!("{body}{error}"))
    }

    /// Waits until the ledger has this many lines, and returns them.
    pub async fn wait_for_ledger(&self, count: usize) -> Vec<(u64, UrlRequest)> {
        for _ in 0..200 {
            let kept = self.ledger.entries.lock().unwrap().clone();
            if kept.len() >= count {
                assert_eq!(kept.len(), count, "{kept:#?}");
                return kept;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("expected {count} lines: {:#?}", self.ledger.entries.lock().unwrap());
    }
}

pub async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}
