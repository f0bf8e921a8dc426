//! The doors of one trial: what a room without a network may reach, and how.
//!
//! A door is a listener inside the room whose connections come out of the channel and are served
//! here. The room's own network stays as empty as it was.

use std::{net::Ipv4Addr, sync::Arc};

use async_trait::async_trait;
use proctor_egress::{Door, Ledger, Policy, client_env};
use proctor_sandbox_api::{Room, wire::RawPath};
use proctor_types::{Arm, Event, Fault, Layer, NetworkMode, Task, UrlRequest};
use tokio::task::{JoinHandle, JoinSet};

use crate::{House, recorder::Recorder};

/// What programs inside may read and not change.
const READABLE: u32 = 0o644;

/// Open while the scaffold drives; closed, they have everything in the record.
pub(crate) struct Doors {
    /// Variables by which programs inside find the doors.
    env: Vec<(String, String)>,
    egress: Option<Arc<Door>>,
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
    /// Opens what the arm asks for: nothing, where its network is closed.
    pub(crate) async fn open(
        house: &House,
        arm: &Arm,
        task: &Task,
        room: &Arc<Room>,
        recorder: &Arc<Recorder>,
    ) -> Result<Self, Fault> {
        if arm.network.mode == NetworkMode::Closed {
            return Ok(Self { env: Vec::new(), egress: None, serving: None });
        }
        let policy = Policy::new(&arm.network, task).map_err(seat_fault)?;
        let ca_file = arm.network.ca_file.as_deref();
        let ledger = Arc::clone(recorder) as Arc<dyn Ledger>;
        let door = Arc::new(house.egress.door(policy, ca_file, ledger).map_err(seat_fault)?);
        for (path, content) in house.egress.files(ca_file).map_err(seat_fault)?.0 {
            room.write(&RawPath::from(path.as_str()), &content, Some(READABLE))
                .await
                .map_err(|error| error.fault("placing the door's certificates"))?;
        }
        let port = room.listen(0).await.map_err(|error| error.fault("opening the egress door"))?;
        let env = client_env((Ipv4Addr::LOCALHOST, port).into()).map_err(seat_fault)?;
        let serving = Serving(tokio::spawn(serve(Arc::clone(room), port, Arc::clone(&door))));
        Ok(Self { env, egress: Some(door), serving: Some(serving) })
    }

    pub(crate) fn env(&self) -> &[(String, String)] {
        &self.env
    }

    /// Resolves when a door can no longer record what passes it; never, where none is open.
    pub(crate) async fn broken(&self) -> Fault {
        match &self.egress {
            Some(door) => door.broken().await,
            None => std::future::pending().await,
        }
    }

    /// Ends every connection and waits until the ledger is written.
    pub(crate) async fn close(mut self) -> Result<(), Fault> {
        if let Some(mut serving) = self.serving.take() {
            serving.0.abort();
            let _ = (&mut serving.0).await;
        }
        match self.egress.take() {
            Some(door) => door.close().await,
            None => Ok(()),
        }
    }
}

/// Until the room is gone or the doors close. Connections live in this task's set, so that its end is
/// theirs.
async fn serve(room: Arc<Room>, port: u16, door: Arc<Door>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = room.accept() => match accepted {
                Ok(incoming) if incoming.port == port => {
                    let door = Arc::clone(&door);
                    connections.spawn(async move { door.serve(incoming.into_stream()).await });
                }
                // Nobody else listens: dropping it closes it.
                Ok(_) => {}
                Err(_) => return,
            },
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
