//! One trial's proxies. They let a sandbox without a network reach the hosts that its policy
//! allows.
//!
//! A proxy listens inside the sandbox. Its connections are forwarded over the sandbox channel and
//! served here. The sandbox itself still has no network.

use std::{net::Ipv4Addr, sync::Arc};

use proctor_egress::{EgressProxy, Ledger, Policy, client_env};
use proctor_gateway::{GatewayServer, TrialGateway};
use proctor_sandbox_api::{Listener, SandboxHandle, SandboxStream, wire::RawPath};
use proctor_scaffold_api::{ModelEndpoint, Scaffold, Stop};
use proctor_types::{Arm, Fault, FaultLayer, NetworkMode, NetworkPolicy, Task};
use tokio::task::{JoinHandle, JoinSet};

use crate::{
    RunContext, egress_ledger::EgressLedger, recorder::Recorder, session::stop_from_error,
};

/// Mode of files that programs in the sandbox can read but not change.
const READABLE_MODE: u32 = 0o644;

/// A trial's network while the scaffold runs. After [`Self::close`], the record contains all
/// traffic.
#[derive(Default)]
pub(crate) struct SandboxNetwork {
    egress: Option<(u16, Arc<EgressProxy>)>,
    model_server: Option<(u16, GatewayServer)>,
    server_tasks: Vec<ServerTask>,
}

/// The trial, scaffold and sandboxes that a network is opened for.
pub(crate) struct NetworkUser<'a> {
    pub(crate) arm: &'a Arm,
    pub(crate) task: &'a Task,
    /// The network that the task declares; `None` for an agent that uses its arm's network.
    pub(crate) task_network: Option<NetworkPolicy>,
    pub(crate) scaffold: &'a dyn Scaffold,
    /// `None` if the arm has no model.
    pub(crate) gateway: Option<&'a Arc<TrialGateway>>,
    /// The task's sandbox.
    pub(crate) handle: &'a Arc<SandboxHandle>,
    /// The sandbox of the scaffold's own program, if it has one.
    pub(crate) program_sandbox: Option<&'a Arc<SandboxHandle>>,
    pub(crate) recorder: &'a Arc<Recorder>,
}

/// The task that serves a listener. Dropping it aborts the connections.
struct ServerTask(JoinHandle<()>);

impl Drop for ServerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SandboxNetwork {
    /// Opens the egress proxy in the task's sandbox unless the arm's network is closed, and the
    /// model endpoint if the scaffold needs it. The endpoint opens in the sandbox of the
    /// scaffold's own program if there is one, otherwise in the task's sandbox.
    pub(crate) async fn open(context: &RunContext, user: NetworkUser<'_>) -> Result<Self, Fault> {
        let NetworkUser {
            arm,
            task,
            task_network,
            scaffold,
            gateway,
            handle,
            program_sandbox: own,
            recorder,
        } = user;
        let mut network = Self::default();
        let policy = task_network.as_ref().unwrap_or(&arm.network);
        if policy.mode != NetworkMode::Closed {
            let ledger = Arc::new(EgressLedger::new(task, recorder)?) as Arc<dyn Ledger>;
            network.open_egress(context, policy, task, handle, ledger).await?;
        }
        let settings = arm.settings_table();
        if let (Some(rules), Some(gateway)) = (scaffold.model_endpoint(&settings), gateway) {
            let rules = serde_json::from_value(rules).map_err(|error| {
                let what = format!("scaffold {}: invalid request rules: {error}", scaffold.name());
                Fault::new(FaultLayer::Setup, what)
            })?;
            let listener = own.unwrap_or(handle).bind_listener().await;
            let listener =
                listener.map_err(|error| error.to_fault("opening the model endpoint"))?;
            let mut server = GatewayServer::new(Arc::clone(gateway), rules)?;
            if own.is_some() {
                // A program with its own sandbox makes its tool calls through the scaffold, and the
                // scaffold records them.
                server = server.without_call_recording();
            }
            network.model_server = Some((listener.port(), server.clone()));
            network.serve(listener, move |stream| {
                let server = server.clone();
                async move { server.serve(stream).await }
            });
        }
        Ok(network)
    }

    /// Opens only an egress proxy for a verifier, unless the network is closed.
    pub(crate) async fn open_for_verifier(
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
        let (listener, proxy) = open_egress_proxy(context, policy, task, handle, ledger).await?;
        self.egress = Some((listener.port(), Arc::clone(&proxy)));
        self.serve(listener, move |stream| {
            let proxy = Arc::clone(&proxy);
            async move { proxy.serve(stream).await }
        });
        Ok(())
    }

    /// Serves a listener until its sandbox is gone or this network closes. The server task owns the
    /// connections, so they end when it does.
    fn serve<F>(
        &mut self,
        mut listener: Listener,
        serve_connection: impl Fn(SandboxStream) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.server_tasks.push(ServerTask(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok(incoming) = accepted else { return };
                        connections.spawn(serve_connection(incoming.into_stream()));
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        })));
    }

    /// Returns environment variables with the egress proxy's address and the certificate that
    /// programs in the sandbox must trust.
    pub(crate) fn sandbox_env(&self) -> Result<Vec<(String, String)>, Fault> {
        match &self.egress {
            Some((port, _)) => client_env((Ipv4Addr::LOCALHOST, *port).into()).map_err(setup_fault),
            None => Ok(Vec::new()),
        }
    }

    pub(crate) fn model_endpoint(&self) -> Option<ModelEndpoint> {
        let (port, server) = self.model_server.as_ref()?;
        let url = format!("http://{}:{port}", Ipv4Addr::LOCALHOST);
        Some(ModelEndpoint { url, token: server.token().to_owned() })
    }

    /// Returns the server of the model endpoint, if there is one.
    pub(crate) fn model_server(&self) -> Option<GatewayServer> {
        self.model_server.as_ref().map(|(_, server)| server.clone())
    }

    /// Returns how a trial ends if its client gave up after the endpoint rejected or cut off its
    /// last request.
    pub(crate) fn rejection(&self) -> Option<Stop> {
        let (_, server) = self.model_server.as_ref()?;
        Some(stop_from_error(server.last_rejection()?, server.trial()))
    }

    /// Waits until the trial cannot continue, because a proxy failed to record traffic or the
    /// gateway rejected a client's model request. Returns the reason.
    pub(crate) async fn wait_for_stop(&self) -> Stop {
        let egress = async {
            match &self.egress {
                Some((_, proxy)) => Stop::Fault(proxy.wait_for_fault().await),
                None => std::future::pending().await,
            }
        };
        let model = async {
            match &self.model_server {
                Some((_, server)) => {
                    stop_from_error(server.wait_until_stopped().await, server.trial())
                }
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
        for mut serving in self.server_tasks.drain(..) {
            serving.0.abort();
            let _ = (&mut serving.0).await;
        }
        if let Some((_, server)) = &self.model_server {
            server.close().await;
        }
        match &self.egress {
            Some((_, proxy)) => proxy.close().await,
            None => Ok(()),
        }
    }
}

async fn open_egress_proxy(
    context: &RunContext,
    network: &NetworkPolicy,
    task: &Task,
    handle: &Arc<SandboxHandle>,
    ledger: Arc<dyn Ledger>,
) -> Result<(Listener, Arc<EgressProxy>), Fault> {
    let policy = Policy::new(network, task).map_err(setup_fault)?;
    let ca_file = network.ca_file.as_deref();
    let proxy = context.egress.create_proxy(policy, ca_file, ledger).map_err(setup_fault)?;
    for (path, content) in context.egress.client_files(ca_file).map_err(setup_fault)?.0 {
        handle
            .write(&RawPath::from(path.as_str()), &content, Some(READABLE_MODE))
            .await
            .map_err(|error| error.to_fault("copying the proxy's certificates"))?;
    }
    let listener =
        handle.bind_listener().await.map_err(|error| error.to_fault("opening the egress proxy"))?;
    Ok((listener, Arc::new(proxy)))
}

fn setup_fault(reason: String) -> Fault {
    Fault::new(FaultLayer::Setup, reason).hint("check `[network]` and the task's `blocked_urls`")
}
