//! The proxies of one trial: what a sandbox without a network can reach, and how.
//!
//! A proxy is a listener inside the sandbox. Its connections travel through the channel and are
//! served here. The sandbox itself still has no network.

use std::{net::Ipv4Addr, sync::Arc};

use proctor_egress::{EgressProxy, Ledger, Policy, client_env};
use proctor_gateway::{GatewayServer, TrialGateway};
use proctor_sandbox_api::{Listener, SandboxHandle, SandboxStream, wire::RawPath};
use proctor_scaffold_api::{ModelEndpoint, Scaffold, Stop};
use proctor_types::{Arm, Fault, Layer, NetworkMode, NetworkPolicy, Task};
use tokio::task::{JoinHandle, JoinSet};

use crate::{RunContext, egress_ledger::EgressLedger, harbor, recorder::Recorder, session::stop};

/// Programs in the sandbox may read these files but not change them.
const READABLE: u32 = 0o644;

/// Open while the scaffold runs. After closing, the record holds everything that passed.
#[derive(Default)]
pub(crate) struct SandboxNetwork {
    egress: Option<(u16, Arc<EgressProxy>)>,
    model: Option<(u16, GatewayServer)>,
    serving: Vec<Serving>,
}

/// Aborts its connections when dropped.
struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SandboxNetwork {
    /// Opens the egress proxy in the task's sandbox if the arm's network is not closed, and the
    /// model endpoint if the scaffold asks for it. The endpoint is opened in the sandbox of the
    /// scaffold's own program, or else in the task's.
    pub(crate) async fn open(
        context: &RunContext,
        (arm, task): (&Arm, &Task),
        (scaffold, gateway): (&dyn Scaffold, Option<&Arc<TrialGateway>>),
        (handle, own): (&Arc<SandboxHandle>, Option<&Arc<SandboxHandle>>),
        recorder: &Arc<Recorder>,
    ) -> Result<Self, Fault> {
        let mut network = Self::default();
        let policy = harbor::agent_network(arm, task);
        let policy = policy.as_ref().unwrap_or(&arm.network);
        if policy.mode != NetworkMode::Closed {
            let ledger = Arc::new(EgressLedger::of(task, recorder)?) as Arc<dyn Ledger>;
            network.open_egress(context, policy, task, handle, ledger).await?;
        }
        let settings = arm.settings_table();
        if let (Some(rules), Some(gateway)) = (scaffold.model_endpoint(&settings), gateway) {
            let rules = serde_json::from_value(rules).map_err(|error| {
                let what = format!("scaffold {}: request rules: {error}", scaffold.name());
                Fault::new(Layer::Setup, what)
            })?;
            let listener = own.unwrap_or(handle).listener().await;
            let listener = listener.map_err(|error| error.fault("the model endpoint"))?;
            let mut server = GatewayServer::new(Arc::clone(gateway), rules)?;
            if own.is_some() {
                // The scaffold records what such a program does in the task's sandbox.
                server = server.without_calls();
            }
            network.model = Some((listener.port(), server.clone()));
            network.serve(listener, move |stream| {
                let server = server.clone();
                async move { server.serve(stream).await }
            });
        }
        Ok(network)
    }

    /// Opens only an egress proxy, if the network is not closed: for a verifier.
    pub(crate) async fn of_verifier(
        context: &RunContext,
        policy: &NetworkPolicy,
        task: &Task,
        handle: &Arc<SandboxHandle>,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Self, Fault> {
        let mut network = Self::default();
        if policy.mode != NetworkMode::Closed {
            network.open_egress(context, policy, task, handle, ledger).await?;
        }
        Ok(network)
    }

    async fn open_egress(
        &mut self,
        context: &RunContext,
        policy: &NetworkPolicy,
        task: &Task,
        handle: &Arc<SandboxHandle>,
        ledger: Arc<dyn Ledger>,
    ) -> Result<(), Fault> {
        let (listener, proxy) = egress_proxy(context, policy, task, handle, ledger).await?;
        self.egress = Some((listener.port(), Arc::clone(&proxy)));
        self.serve(listener, move |stream| {
            let proxy = Arc::clone(&proxy);
            async move { proxy.serve(stream).await }
        });
        Ok(())
    }

    /// Serves a listener until its sandbox is gone or this closes. Connections belong to the task's
    /// set, so they end with it.
    fn serve<F>(
        &mut self,
        mut listener: Listener,
        one: impl Fn(SandboxStream) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.serving.push(Serving(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok(incoming) = accepted else { return };
                        connections.spawn(one(incoming.into_stream()));
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        })));
    }

    /// Variables that tell programs inside where the egress proxy is and which certificate to
    /// trust.
    pub(crate) fn env(&self) -> Result<Vec<(String, String)>, Fault> {
        match &self.egress {
            Some((port, _)) => client_env((Ipv4Addr::LOCALHOST, *port).into()).map_err(setup_fault),
            None => Ok(Vec::new()),
        }
    }

    pub(crate) fn model(&self) -> Option<ModelEndpoint> {
        let (port, server) = self.model.as_ref()?;
        let url = format!("http://{}:{port}", Ipv4Addr::LOCALHOST);
        Some(ModelEndpoint { url, token: server.token().to_owned() })
    }

    /// The model endpoint's server, which knows what its client has requested so far.
    pub(crate) fn server(&self) -> Option<GatewayServer> {
        self.model.as_ref().map(|(_, server)| server.clone())
    }

    /// How a trial ends whose client gave up after the endpoint rejected or cut its last request.
    pub(crate) fn rejected(&self) -> Option<Stop> {
        let (_, server) = self.model.as_ref()?;
        Some(stop(server.rejected()?, server.trial()))
    }

    /// Resolves when the trial cannot continue: a proxy can no longer record, or the gateway
    /// refused a client's model request.
    pub(crate) async fn stopped(&self) -> Stop {
        let egress = async {
            match &self.egress {
                Some((_, proxy)) => Stop::Fault(proxy.broken().await),
                None => std::future::pending().await,
            }
        };
        let model = async {
            match &self.model {
                Some((_, server)) => stop(server.stopped().await, server.trial()),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            stop = egress => stop,
            stop = model => stop,
        }
    }

    /// Ends every connection and waits until all traffic is charged and recorded.
    pub(crate) async fn close(mut self) -> Result<(), Fault> {
        for mut serving in self.serving.drain(..) {
            serving.0.abort();
            let _ = (&mut serving.0).await;
        }
        if let Some((_, server)) = &self.model {
            server.close().await;
        }
        match &self.egress {
            Some((_, proxy)) => proxy.close().await,
            None => Ok(()),
        }
    }
}

async fn egress_proxy(
    context: &RunContext,
    network: &NetworkPolicy,
    task: &Task,
    handle: &Arc<SandboxHandle>,
    ledger: Arc<dyn Ledger>,
) -> Result<(Listener, Arc<EgressProxy>), Fault> {
    let policy = Policy::new(network, task).map_err(setup_fault)?;
    let ca_file = network.ca_file.as_deref();
    let proxy = context.egress.proxy(policy, ca_file, ledger).map_err(setup_fault)?;
    for (path, content) in context.egress.files(ca_file).map_err(setup_fault)?.0 {
        handle
            .write(&RawPath::from(path.as_str()), &content, Some(READABLE))
            .await
            .map_err(|error| error.fault("copying the proxy's certificates"))?;
    }
    let listener = handle.listener().await.map_err(|error| error.fault("the egress proxy"))?;
    Ok((listener, Arc::new(proxy)))
}

fn setup_fault(why: String) -> Fault {
    Fault::new(Layer::Setup, why).hint("check `[network]` and the task's `blocked_urls`")
}
