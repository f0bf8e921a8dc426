//! Whose a container is, in its labels.

use std::{
    collections::HashMap,
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    process,
    sync::atomic::{AtomicU64, Ordering},
};

/// Marks everything that Proctor made.
pub const MARK: &str = "proctor";
const HOST: &str = "proctor.host";
const RUNTIME: &str = "proctor.runtime";
const PURPOSE: &str = "proctor.purpose";

static COUNT: AtomicU64 = AtomicU64::new(0);

/// The beginning of the names by which processes show themselves.
const ALIVE: &str = "proctor-docker-";

/// Shows every process of this machine that this one lives and uses an engine: a socket with a name
/// and no file, which the kernel takes away whatever the end.
pub struct Alive {
    name: String,
    _socket: Option<UnixListener>,
}

impl Alive {
    pub fn show() -> Self {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{ALIVE}{}-{count}", process::id());
        let socket = SocketAddr::from_abstract_name(&name);
        let socket = socket.and_then(|address| UnixListener::bind_addr(&address)).ok();
        Self { name, _socket: socket }
    }

    /// The process numbers of others that are alive.
    pub fn others(&self) -> Vec<String> {
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let names = sockets.lines().filter_map(|line| line.rsplit_once('@').map(|(_, at)| at));
        names
            .filter(|name| *name != self.name)
            .filter_map(|name| name.strip_prefix(ALIVE)?.split('-').next())
            .map(str::to_owned)
            .collect()
    }
}

/// A name that no other container has: this host, this process, and a number.
pub fn container_name() -> String {
    let start = start_time(&process::id().to_string()).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("proctor-{}-{}-{start}-{count}", &host()[..8], process::id())
}

/// The labels of a container that this process makes.
pub fn labels(purpose: &str) -> HashMap<String, String> {
    [(MARK, "1".to_owned()), (HOST, host()), (RUNTIME, runtime()), (PURPOSE, purpose.to_owned())]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// Whether the process that made it is certainly dead. An engine may be shared by many hosts, and a
/// process number means nothing outside its own namespace: what is not of this place is left.
pub fn is_orphan(labels: &HashMap<String, String>) -> bool {
    if labels.get(MARK).map(String::as_str) != Some("1") || labels.get(HOST) != Some(&host()) {
        return false;
    }
    let Some(runtime) = labels.get(RUNTIME) else { return false };
    let mut parts = runtime.split('.');
    let (Some(pid), Some(start), Some(boot)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    boot != boot_id() || start_time(pid).is_none_or(|own| own != start)
}

/// This machine and this process namespace.
fn host() -> String {
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let text = format!("{machine} {name} {}", namespace.display());
    proctor_types::sha256_hex(text.as_bytes())[..16].to_owned()
}

/// `<pid>.<start time in clock ticks>.<boot>`: a number that is used again has another start.
fn runtime() -> String {
    let pid = process::id().to_string();
    let start = start_time(&pid).unwrap_or_default();
    format!("{pid}.{start}.{}", boot_id())
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The 22nd field of the process's `stat`; `None` where it does not live.
fn start_time(pid: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A zombie makes nothing any more.
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18).map(str::to_owned)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_are_seen_and_the_dead_are_not() {
        let (one, two) = (Alive::show(), Alive::show());
        let own = process::id().to_string();
        assert!(two.others().contains(&own));
        drop(one);
        assert!(!two.others().contains(&own));
    }

    #[test]
    fn only_the_certainly_dead_are_orphans() {
        let own = labels("test");
        assert!(!is_orphan(&own));
        let with = |key: &str, value: String| {
            let mut labels = own.clone();
            labels.insert(key.to_owned(), value);
            labels
        };
        let boot = boot_id();
        assert!(is_orphan(&with(RUNTIME, format!("{}.1.{boot}", process::id()))));
        assert!(is_orphan(&with(RUNTIME, format!("4194999.1.{boot}"))));
        assert!(is_orphan(&with(RUNTIME, format!("{}.1.another", process::id()))));
        assert!(!is_orphan(&with(HOST, "elsewhere".to_owned())));
        assert!(!is_orphan(&with(RUNTIME, "nonsense".to_owned())));
        assert!(!is_orphan(&HashMap::new()));
    }
}
