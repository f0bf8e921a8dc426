//! Checks that a sandbox has no network, no privileges and no access to the host.

use proctor_sandbox_api::Command;
use proctor_types::SandboxSpec;

use super::{
    check::{Check, list},
    fixture::{Fixture, Outcome, ensure, expect_success, raw_path, run_shell},
};

pub fn checks() -> Vec<Check> {
    list![
        quick loopback_is_the_only_interface,
        full no_route_leads_outside,
        full no_connection_leads_outside,
        full no_name_is_resolved,
        full loopback_works,
        quick host_processes_are_hidden,
        quick agent_descriptors_are_inaccessible,
        full agent_memory_is_inaccessible,
        full agent_cannot_be_killed,
        quick privileges_cannot_be_gained,
        quick capabilities_are_dropped,
        full mounting_is_denied,
        full user_namespace_does_not_allow_mounts,
        full host_files_are_hidden,
        full host_environment_is_hidden,
        full devices_are_harmless,
        full common_devices_work,
        full kernel_settings_are_read_only,
        full sandboxes_do_not_share_files,
    ]
}

/// The numbers of capabilities that no sandbox may have: those for bypassing read permissions, the
/// network, kernel modules, raw I/O, tracing, administration, devices, and others.
const FORBIDDEN_CAPABILITIES: &[u32] =
    &[2, 9, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 32, 33, 34, 37, 38, 39, 40];

async fn run_python(fixture: &Fixture<'_>, program: &str) -> Result<String, super::CheckError> {
    expect_success(&fixture.handle.run(Command::new(["python3", "-c", program])).await?)
}

async fn loopback_is_the_only_interface(fixture: &Fixture<'_>) -> Outcome {
    let text = expect_success(&fixture.run_shell("tail -n +3 /proc/net/dev | cut -d: -f1").await?)?;
    ensure!(text.split_whitespace().eq(["lo"]), "{text:?}");
    Ok(())
}

async fn no_route_leads_outside(fixture: &Fixture<'_>) -> Outcome {
    let text = expect_success(&fixture.run_shell("tail -n +2 /proc/net/route").await?)?;
    ensure!(text.is_empty(), "{text:?}");
    Ok(())
}

async fn no_connection_leads_outside(fixture: &Fixture<'_>) -> Outcome {
    // Addresses that are reserved for documentation, and the usual gateway of a Docker bridge.
    let program = "import socket\n\
        for where in ('192.0.2.1', '198.51.100.7', '172.17.0.1'):\n\
        \x20   s = socket.socket(); s.settimeout(3)\n\
        \x20   try: s.connect((where, 80)); print('connected', where)\n\
        \x20   except OSError as e: print(e.errno)\n";
    let text = run_python(fixture, program).await?;
    // The error must be an immediate ENETUNREACH, not a timeout.
    ensure!(text.split_whitespace().all(|word| word == "101"), "{text:?}");
    Ok(())
}

async fn no_name_is_resolved(fixture: &Fixture<'_>) -> Outcome {
    let program = "import socket\n\
        try: print(socket.getaddrinfo('proctor.invalid', 80))\n\
        except OSError: print('no')\n";
    let text = run_python(fixture, program).await?;
    ensure!(text == "no\n", "{text:?}");
    Ok(())
}

async fn loopback_works(fixture: &Fixture<'_>) -> Outcome {
    let program = "import socket\n\
        a = socket.create_server(('127.0.0.1', 0)); b = socket.create_connection(a.getsockname())\n\
        c, _ = a.accept(); b.sendall(b'hi'); print(c.recv(2))\n";
    let text = run_python(fixture, program).await?;
    ensure!(text == "b'hi'\n", "{text:?}");
    Ok(())
}

async fn host_processes_are_hidden(fixture: &Fixture<'_>) -> Outcome {
    let text =
        expect_success(&fixture.run_shell("ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm").await?)?;
    let mut lines = text.lines();
    let count: u32 = lines.next().and_then(|line| line.trim().parse().ok()).unwrap_or(u32::MAX);
    ensure!(count <= 6, "{count} processes are visible");
    ensure!(lines.next() == Some("agentd"), "process 1 is not the agent: {text:?}");
    Ok(())
}

async fn agent_descriptors_are_inaccessible(fixture: &Fixture<'_>) -> Outcome {
    // Programs may see the descriptor numbers, but cannot open or resolve them.
    let program = "import os\n\
        for n in range(64):\n\
        \x20   for mode in (os.O_RDONLY, os.O_WRONLY):\n\
        \x20       try: os.open(f'/proc/1/fd/{n}', mode); print('opened', n)\n\
        \x20       except OSError: pass\n\
        \x20   try: print(os.readlink(f'/proc/1/fd/{n}'))\n\
        \x20   except OSError: pass\n";
    let text = run_python(fixture, program).await?;
    ensure!(text.is_empty(), "{text:?}");
    Ok(())
}

async fn agent_memory_is_inaccessible(fixture: &Fixture<'_>) -> Outcome {
    let line = "for f in mem environ maps auxv; do head -c1 /proc/1/$f >/dev/null 2>&1 && echo $f; \
                done; ls /proc/1/root/ >/dev/null 2>&1 && echo root; true";
    let text = expect_success(&fixture.run_shell(line).await?)?;
    ensure!(text.is_empty(), "readable: {text:?}");
    Ok(())
}

async fn agent_cannot_be_killed(fixture: &Fixture<'_>) -> Outcome {
    fixture.run_shell("kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1").await?;
    let done = fixture.run_shell("echo alive").await?;
    ensure!(expect_success(&done)? == "alive\n", "{done:?}");
    Ok(())
}

async fn privileges_cannot_be_gained(fixture: &Fixture<'_>) -> Outcome {
    let text = expect_success(&fixture.run_shell("grep NoNewPrivs: /proc/self/status").await?)?;
    ensure!(text.split_whitespace().nth(1) == Some("1"), "{text:?}");
    Ok(())
}

async fn capabilities_are_dropped(fixture: &Fixture<'_>) -> Outcome {
    let text = expect_success(
        &fixture.run_shell("grep -E 'Cap(Eff|Prm|Bnd|Inh|Amb)' /proc/self/status").await?,
    )?;
    for line in text.lines() {
        let hex = line.split_whitespace().nth(1).unwrap_or("ffffffffffffffff");
        let mask = u64::from_str_radix(hex, 16).unwrap_or(u64::MAX);
        let held: Vec<_> =
            FORBIDDEN_CAPABILITIES.iter().filter(|&&bit| mask >> bit & 1 == 1).collect();
        ensure!(held.is_empty(), "{line}: has {held:?}");
    }
    Ok(())
}

async fn mounting_is_denied(fixture: &Fixture<'_>) -> Outcome {
    let line = "mount -t tmpfs none /mnt 2>&1 && echo mounted; \
                mount -o remount,rw,bind /usr 2>&1 && echo remounted; true";
    let text = expect_success(&fixture.run_shell(line).await?)?;
    ensure!(!text.lines().any(|line| line.ends_with("mounted")), "{text:?}");
    Ok(())
}

async fn user_namespace_does_not_allow_mounts(fixture: &Fixture<'_>) -> Outcome {
    let line =
        "unshare --user --map-root-user --mount mount -t tmpfs none /mnt && echo mounted; true";
    let text = expect_success(&fixture.run_shell(line).await?)?;
    ensure!(text.is_empty(), "{text:?}");
    Ok(())
}

async fn host_files_are_hidden(fixture: &Fixture<'_>) -> Outcome {
    let marker = std::env::temp_dir().join(format!("proctor-kit-marker-{}", std::process::id()));
    std::fs::write(&marker, "host")
        .map_err(|error| super::fixture::check_failed(error.to_string()))?;
    let seen = fixture.handle.stat(&raw_path(&marker.to_string_lossy())).await;
    let _ = std::fs::remove_file(&marker);
    ensure!(seen?.is_none(), "a file of the host is visible");
    let line = "ls -A /root /home 2>/dev/null | grep -E '^\\.(ssh|aws|netrc|gitconfig|docker|cargo)$'; \
                ls -d /var/run/docker.sock /run/docker.sock /run/containerd /etc/ssh 2>/dev/null; true";
    let text = expect_success(&fixture.run_shell(line).await?)?;
    ensure!(text.is_empty(), "{text:?}");
    Ok(())
}

async fn host_environment_is_hidden(fixture: &Fixture<'_>) -> Outcome {
    let known: Vec<String> = std::env::vars().map(|(key, _)| key).collect();
    let program = "import os; print('\\n'.join(os.environ))";
    let text = run_python(fixture, program).await?;
    let allowed = ["PATH", "HOME", "LANG", "LC_CTYPE"];
    let leaked: Vec<_> = text
        .lines()
        .filter(|key| !allowed.contains(key) && known.iter().any(|own| own == key))
        .collect();
    ensure!(leaked.is_empty(), "{leaked:?}");
    Ok(())
}

async fn devices_are_harmless(fixture: &Fixture<'_>) -> Outcome {
    let line = "for d in mem kmem kmsg port sda vda nvme0n1 loop0 fuse kvm net/tun; do \
                head -c1 /dev/$d >/dev/null 2>&1 && echo $d; done; \
                mknod /tmp/kit-null c 1 3 2>/dev/null && cat /tmp/kit-null && echo made; true";
    let text = expect_success(&fixture.run_shell(line).await?)?;
    ensure!(text.is_empty(), "{text:?}");
    Ok(())
}

async fn common_devices_work(fixture: &Fixture<'_>) -> Outcome {
    let line = "echo x > /dev/null && test $(head -c 16 /dev/urandom | wc -c) = 16 && \
                test $(head -c 3 /dev/zero | wc -c) = 3 && echo s > /dev/shm/kit && \
                cat /dev/shm/kit && echo e > /dev/stderr";
    let done = fixture.run_shell(line).await?;
    ensure!(
        expect_success(&done)? == "s\n" && done.stderr.text() == "e\n",
        "{:?}",
        done.stdout.text()
    );
    let program = "import multiprocessing as m; q = m.Lock(); print('lock'); import pty; pty.openpty(); print('pty')";
    let text = run_python(fixture, program).await?;
    ensure!(text == "lock\npty\n", "{text:?}");
    Ok(())
}

async fn kernel_settings_are_read_only(fixture: &Fixture<'_>) -> Outcome {
    let line = "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/vm/drop_caches \
                /sys/kernel/uevent_helper; do (echo x > $f) 2>/dev/null && echo $f; done; true";
    let text = expect_success(&fixture.run_shell(line).await?)?;
    ensure!(text.is_empty(), "writable: {text:?}");
    Ok(())
}

async fn sandboxes_do_not_share_files(fixture: &Fixture<'_>) -> Outcome {
    let mut other = fixture.open(SandboxSpec::default()).await?;
    let line = "for d in /etc /root /tmp /var/tmp /dev/shm; do echo x > $d/kit-shared; done";
    let wrote = run_shell(other.handle(), line).await;
    let seen = fixture.run_shell("ls /etc/kit-shared /root/kit-shared /tmp/kit-shared /var/tmp/kit-shared /dev/shm/kit-shared 2>/dev/null; true").await;
    other.close().await?;
    expect_success(&wrote?)?;
    let seen = expect_success(&seen?)?;
    ensure!(seen.is_empty(), "{seen:?}");
    Ok(())
}
