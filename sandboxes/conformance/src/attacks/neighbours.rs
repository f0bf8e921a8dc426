//! Attacks on other sandboxes: their proxies, sockets, memory, processes and files.

use proctor_sandbox_api::Command;

use super::attack::{Attack, assert_no_breach, assert_responsive, list, small_limits};
use crate::{
    Fixture,
    fixture::{Outcome, ensure, expect_success},
};

pub fn attacks() -> Vec<Attack> {
    list![another_sandboxes_proxy_is_reached [], another_sandboxes_resources_are_reached []]
}

/// A sandbox's proxy, which leads to its gateway, listens only inside that sandbox.
async fn another_sandboxes_proxy_is_reached(fixture: &Fixture<'_>) -> Outcome {
    let mut other = fixture.open(small_limits()).await?;
    let port = match other.handle().listen(0).await {
        Ok(port) => port,
        Err(error) => {
            other.close().await?;
            return Err(error.into());
        }
    };
    let text = "port = int(sys.argv[1])\n\
        for address in ('127.0.0.1', '127.0.0.2', '0.0.0.0', '::1', socket.gethostname()):\n\
        \x20   tried(f'connect to {address}', lambda: socket.create_connection((address, port), 2))\n\
        for line in open('/proc/net/tcp').read().splitlines()[1:]:\n\
        \x20   if line.split()[3] == '0A': breach('a listener', line)\n";
    let outcome = assert_no_breach(&fixture.handle, text, &[&port.to_string()]).await;
    other.close().await?;
    outcome
}

async fn another_sandboxes_resources_are_reached(fixture: &Fixture<'_>) -> Outcome {
    let mut other = fixture.open(small_limits()).await?;
    // These objects exist as long as this command runs in the other sandbox.
    let plant = "import socket, ctypes, time, os\n\
        s = socket.socket(socket.AF_UNIX); s.bind('\\0proctor-neighbour'); s.listen()\n\
        c = ctypes.CDLL(None); m = c.shmget(0x70726f63, 4096, 0o1666); c.shmat(m, None, 0)\n\
        for p in ('/tmp', '/dev/shm', '/var/tmp'): open(p + '/neighbour', 'w').write('x')\n\
        os.mkfifo('/tmp/up'); time.sleep(60)\n";
    let handle = std::sync::Arc::clone(other.handle());
    let planted = tokio::spawn(async move {
        handle.run(Command::new(["python3", "-c", plant, "proctor-neighbour"])).await
    });
    let up = "until [ -p /tmp/up ]; do sleep 0.05; done";
    let ready = crate::fixture::run_shell(other.handle(), up).await;
    let text = "tried('its socket', lambda: socket.socket(socket.AF_UNIX).connect('\\0proctor-neighbour'))\n\
        if libc.shmget(0x70726f63, 4096, 0) >= 0: breach('its shared memory')\n\
        for p in ('/tmp', '/dev/shm', '/var/tmp'):\n\
        \x20   if os.path.exists(p + '/neighbour'): breach('its file in', p)\n\
        for pid in filter(str.isdigit, os.listdir('/proc')):\n\
        \x20   if pid != str(os.getpid()) and b'proctor-neighbour' in open(f'/proc/{pid}/cmdline', 'rb').read():\n\
        \x20       breach('its process', pid)\n";
    let outcome = assert_no_breach(&fixture.handle, text, &[]).await;
    other.close().await?;
    let ended = planted.await;
    expect_success(&ready?)?;
    ensure!(matches!(ended, Ok(Err(_))), "the other sandbox's command ended early: {ended:?}");
    outcome?;
    assert_responsive(&fixture.handle).await
}
