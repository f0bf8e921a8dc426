//! The doors of one trial: what a room without a network may reach, and how.
//!
//! A door is a listener inside the room whose connections come out of the channel and are served
//! here. The room's own network stays as empty as it was.

use std::{net::Ipv4Addr, sync::Arc};

use async_trait::async_trait;
use proctor_egress::{Door, Ledger, Policy, client_env};
use proctor_gateway::{Front, TrialGateway};
use proctor_sandbox_api::{Room, wire::RawPath};
use proctor_scaffold_api::{ModelDoor, Scaffold, Stop};
use proctor_types::{Arm, Event, Fault, Layer, NetworkMode, Task, UrlRequest};
use tokio::task::{JoinHandle, JoinSet};

use crate::{House, recorder::Recorder, session::stop};

/// What programs inside may read and not change.
const READABLE: u32 = 0o644;

/// Open while the scaffold drives; closed, they have everything in the record.
#[derive(Default)]
pub(crate) struct Doors {
    egress: Option<(u16, Arc<Door>)>,
    model: Option<(u16, Front)>,
    gateway: Option<Arc<TrialGateway>>,
    serving: Option<Serving>,
}

/// Aborts the connections with itself.
struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Doors {
    /// Opens the egress door where the arm's network is not closed, and the model door where the
    /// scaffold asks for it.
    pub(crate) async fn open(
        house: &House,
        (arm, task): (&Arm, &Task),
        (scaffold, gateway): (&dyn Scaffold, Option<&Arc<TrialGateway>>),
        room: &Arc<Room>,
        recorder: &Arc<Recorder>,
    ) -> Result<Self, Fault> {
        let mut doors = Self::default();
        if arm.network.mode != NetworkMode::Closed {
            doors.egress = Some(egress_door(house, arm, task, room, recorder).await?);
        }
        if let (Some(rules), Some(gateway)) = (scaffold.model_door(), gateway) {
            let rules = serde_json::from_value(rules).map_err(|error| {
                let what = format!("the scaffold {}: rules of requests: {error}", scaffold.name());
                Fault::new(Layer::Seat, what)
            })?;
            let port = room.listen(0).await.map_err(|error| error.fault("the model door"))?;
            doors.gateway = Some(Arc::clone(gateway));
            doors.model = Some((port, Front::new(Arc::clone(gateway), rules)?));
        }
        if doors.egress.is_some() || doors.model.is_some() {
            let serving = serve(Arc::clone(room), doors.egress.clone(), doors.model.clone());
            doors.serving = Some(Serving(tokio::spawn(serving)));
        }
        Ok(doors)
    }

    /// Variables by which programs inside find the egress door and trust it.
    pub(crate) fn env(&self) -> Result<Vec<(String, String)>, Fault> {
        match &self.egress {
            Some((port, _)) => client_env((Ipv4Addr::LOCALHOST, *port).into()).map_err(seat_fault),
            None => Ok(Vec::new()),
        }
    }

    pub(crate) fn model(&self) -> Option<ModelDoor> {
        let (port, front) = self.model.as_ref()?;
        let url = format!("http://{}:{port}", Ipv4Addr::LOCALHOST);
        Some(ModelDoor { url, token: front.token().to_owned() })
    }

    /// Resolves when the trial cannot go on: a door can no longer record what passes it, or the
    /// model was refused to a client inside.
    pub(crate) async fn stopped(&self) -> Stop {
        let egress = async {
            match &self.egress {
                Some((_, door)) => Stop::Fault(door.broken().await),
                None => std::future::pending().await,
            }
        };
        let model = async {
            match &self.model {
                Some((_, front)) => stop(front.stopped().await, self.answers()),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            stop = egress => stop,
            stop = model => stop,
        }
    }

    /// Steps that clients inside were given.
    fn answers(&self) -> u64 {
        self.gateway.as_ref().map_or(0, |gateway| gateway.spent().steps)
    }

    /// Ends every connection and waits until what passed is charged and recorded.
    pub(crate) async fn close(mut self) -> Result<(), Fault> {
        if let Some(mut serving) = self.serving.take() {
            serving.0.abort();
            let _ = (&mut serving.0).await;
        }
        if let Some((_, front)) = &self.model {
            front.close().await;
        }
        match &self.egress {
            Some((_, door)) => door.close().await,
            None => Ok(()),
        }
    }
}

async fn egress_door(
    house: &House,
    arm: &Arm,
    task: &Task,
    room: &Arc<Room>,
    recorder: &Arc<Recorder>,
) -> Result<(u16, Arc<Door>), Fault> {
    let policy = Policy::new(&arm.network, task).map_err(seat_fault)?;
    let ca_file = arm.network.ca_file.as_deref();
    let ledger = Arc::clone(recorder) as Arc<dyn Ledger>;
    let door = house.egress.door(policy, ca_file, ledger).map_err(seat_fault)?;
    for (path, content) in house.egress.files(ca_file).map_err(seat_fault)?.0 {
        room.write(&RawPath::from(path.as_str()), &content, Some(READABLE))
            .await
            .map_err(|error| error.fault("placing the door's certificates"))?;
    }
    let port = room.listen(0).await.map_err(|error| error.fault("the egress door"))?;
    Ok((port, Arc::new(door)))
}

/// Until the room is gone or the doors close. Connections live in this task's set, so that its end is
/// theirs.
async fn serve(room: Arc<Room>, egress: Option<(u16, Arc<Door>)>, model: Option<(u16, Front)>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = room.accept() => {
                let Ok(incoming) = accepted else { return };
                let at = incoming.port;
                if let Some((port, door)) = &egress && *port == at {
                    let door = Arc::clone(door);
                    connections.spawn(async move { door.serve(incoming.into_stream()).await });
                } else if let Some((port, front)) = &model && *port == at {
                    let front = front.clone();
                    connections.spawn(async move { front.serve(incoming.into_stream()).await });
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

fn seat_fault(why: String) -> Fault {
    Fault::new(Layer::Seat, why).mend("check `[network]` and the task's `blocked_urls`")
}

#[async_trait]
impl Ledger for Recorder {
    async fn step(&self) -> u64 {
        Recorder::step(self).await
    }

    async fn record(&self, step: u64, request: UrlRequest) -> Result<(), Fault> {
        self.append_at(step, Event::UrlRequested(Box::new(request))).await
    }
}
