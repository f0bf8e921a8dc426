//! Creates containers for sandboxes and for setup, and connects their channels.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, atomic::Ordering},
};

use bollard::{
    models::{
        ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType,
        MountVolumeOptions, MountVolumeOptionsDriverConfig,
    },
    query_parameters::{
        AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, InspectContainerOptions,
        StartContainerOptions,
    },
};
use proctor_host::{absent::HostOverlay, host_base};
use proctor_sandbox_api::{
    Enforcement, FailureDiagnostics, Mount as HostMount, SandboxHandle, SandboxRequest,
    WrittenPathLister,
};
use proctor_types::{Fault, FaultCause, FaultLayer, SandboxSpec};

use crate::{
    container::ContainerGuard,
    diagnostics::EngineDiagnostics,
    engine::Engine,
    fault, hardening, image, owner,
    stream::{AgentOutput, StderrTail, stderr_text},
    tarball::AGENT_PATH,
};

/// The only capabilities that root has in a sandbox:
/// - `CHOWN`, `FOWNER`, `DAC_OVERRIDE`: an image may contain files owned by several users, and the
///   agent must be able to write, remove and snapshot all of them;
/// - `SETUID`, `SETGID`: a task may specify the user that runs its commands;
/// - `KILL`: the agent must be able to kill that user's processes.
///
/// Engines also grant these by default, but sandboxes don't get them: `NET_RAW` and
/// `NET_BIND_SERVICE` (there is no network), `MKNOD`, `SYS_CHROOT`, `SETFCAP`, `SETPCAP`, `FSETID`,
/// `AUDIT_WRITE`.
const ALLOWED_CAPABILITIES: &[&str] =
    &["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "KILL"];

/// Mount options for an empty file system that covers a directory.
const EMPTY_TMPFS_OPTIONS: &str = "ro,nosuid,nodev,size=4k";

/// Number of threads that the agent may need. They count as processes, so this number is added to
/// the process limit.
const AGENT_THREADS: u64 = 16;

/// A running container and its channel.
pub struct OpenContainer {
    pub handle: Arc<SandboxHandle>,
    pub enforcement: Enforcement,
    pub guard: ContainerGuard,
}

/// Opens a sandbox in a prepared environment.
pub async fn open_sandbox(
    engine: &Arc<Engine>,
    request: &SandboxRequest,
) -> Result<OpenContainer, Fault> {
    let image = &request.environment.backend_id;
    let mut enforcement = Enforcement { not_enforced: engine.not_enforced.clone() };
    let mut asked = host_config(image, &request.limits);
    hardening::harden(&mut asked, &request.limits, &engine.disabled_defenses, engine.has_selinux);
    if engine.has_selinux {
        let why =
            "agent_settings: with SELinux, the container's root can set the agent's OOM score";
        enforcement.not_enforced.push(why.to_owned());
    }
    enforcement.not_enforced.extend(hardening::unenforceable_limits());
    let agent = hardening::entrypoint(&format!("/{AGENT_PATH}"), &engine.disabled_defenses);
    if image::has_host_base(image) && !request.environment.hidden_paths.paths.is_empty() {
        add_overlays(
            &mut asked,
            engine.prepare_overlays(request.environment.hidden_paths.clone()).await?,
        )?;
    }
    add_mounts(&mut asked, &request.mounts, engine.is_local)?;
    if engine.has_quota() {
        let size = format!("{}m", request.limits.disk_mb);
        asked.storage_opt = Some(HashMap::from([("size".to_owned(), size)]));
    }
    let guard = match create_container(engine, image, &request.purpose, &agent, asked.clone()).await
    {
        Err(error) if asked.storage_opt.is_some() && mentions_quota(&error) => {
            engine.has_quota.store(false, Ordering::Relaxed);
            asked.storage_opt = None;
            create_container(engine, image, &request.purpose, &agent, asked).await
        }
        other => other,
    };
    let (guard, warnings) = guard.map_err(|error| match fault::is_missing(&error) {
        true => fault::environment_fault("cannot create a container", &error)
            .cause(FaultCause::Gone)
            .hint("the image was removed during the run; the next try rebuilds it"),
        false => fault::sandbox_fault("cannot create a container", &error),
    })?;
    if !engine.has_quota() {
        let why = "disk: the engine's storage driver has no quota";
        enforcement.not_enforced.push(why.to_owned());
    }
    for warning in warnings {
        tracing::debug!(warning, "the engine returned a warning");
    }
    let leaks = async {
        let handle = start_container(engine, &guard).await?;
        let notes = hardening::verify_hardening(&handle, &engine.disabled_defenses).await?;
        handle.set_image_env(image::read_env(engine, image).await?);
        Ok((handle, notes))
    };
    let (handle, notes) = match leaks.await {
        Ok(both) => both,
        Err(fault) => {
            // Ignore errors here: the reason for the failed start is more useful, and the guard
            // tries again to remove the container.
            let _ = guard.remove().await;
            return Err(fault);
        }
    };
    enforcement.not_enforced.extend(notes);
    let word = Arc::new(EngineDiagnostics {
        client: engine.client.clone(),
        id: guard.id().to_owned(),
        disk_mb: (!engine.has_quota()).then_some(request.limits.disk_mb),
        listings: Mutex::default(),
    });
    handle.set_diagnostics(Arc::clone(&word) as Arc<dyn FailureDiagnostics>);
    handle.set_written_path_lister(word as Arc<dyn WrittenPathLister>);
    Ok(OpenContainer { handle, enforcement, guard })
}

/// Hides entries of host directories. Each directory becomes a volume that the engine mounts as an
/// overlay and removes with the container.
fn add_overlays(config: &mut HostConfig, overlays: Vec<HostOverlay>) -> Result<(), Fault> {
    for cut in overlays {
        let (at, marks) =
            (cut.mount_point.display().to_string(), cut.whiteouts.display().to_string());
        if [&at, &marks].iter().any(|path| path.contains([':', ',', '\\'])) {
            let what = format!(
                "cannot hide entries of {at}: the engine cannot mount a path with `:`, `,` or `\\`"
            );
            return Err(Fault::new(FaultLayer::Sandbox, what).hint("choose another cache folder"));
        }
        let bind = format!("{at}:{at}:ro");
        config.binds.get_or_insert_default().retain(|other| *other != bind);
        let options = [
            ("type", "overlay".to_owned()),
            ("device", "overlay".to_owned()),
            ("o", format!("ro,userxattr,lowerdir={marks}:{at}")),
        ];
        let options = options.map(|(key, value)| (key.to_owned(), value));
        let driver = MountVolumeOptionsDriverConfig {
            name: Some("local".to_owned()),
            options: Some(HashMap::from(options)),
        };
        config.mounts.get_or_insert_default().push(Mount {
            target: Some(at),
            // The mount options above already make the volume read-only. An engine rejects a
            // read-only volume without a name.
            typ: Some(MountType::VOLUME),
            volume_options: Some(MountVolumeOptions {
                // Don't copy what the image has at this path, because it is not part of the host's
                // directory.
                no_copy: Some(true),
                driver_config: Some(driver),
                ..MountVolumeOptions::default()
            }),
            ..Mount::default()
        });
    }
    Ok(())
}

/// Mounts directories of this machine read-only.
fn add_mounts(config: &mut HostConfig, mounts: &[HostMount], is_local: bool) -> Result<(), Fault> {
    for mount in mounts {
        let (folder, at) = (mount.folder.display(), &mount.mount_point);
        if !is_local {
            let what = format!(
                "{at} is a folder on this machine ({folder}), but DOCKER_HOST is set to an engine on another"
            );
            return Err(Fault::new(FaultLayer::Sandbox, what).cause(FaultCause::Invalid).hint(
                "run Proctor on the engine's machine, unset DOCKER_HOST, or use a built-in scaffold",
            ));
        }
        let found = std::fs::canonicalize(&mount.folder).map_err(|error| {
            Fault::new(FaultLayer::Sandbox, format!("cannot mount {folder} at {at}: {error}"))
                .cause(FaultCause::from_io_error(&error))
                .hint("the folder was removed during the run; `proctor resume` recreates it")
        })?;
        // Don't use `binds`: the engine splits binds at colons and creates missing directories.
        config.mounts.get_or_insert_default().push(Mount {
            target: Some(at.to_string()),
            source: Some(found.display().to_string()),
            typ: Some(MountType::BIND),
            read_only: Some(true),
            ..Mount::default()
        });
    }
    Ok(())
}

fn mentions_quota(error: &bollard::errors::Error) -> bool {
    let words = fault::engine_message(error).to_lowercase();
    ["storage-opt", "storage opt", "quota", "pquota"].iter().any(|sign| words.contains(sign))
}

fn host_config(image: &str, limits: &SandboxSpec) -> HostConfig {
    let memory = saturating_i64(limits.memory_mb) << 20;
    let capabilities = |list: &[&str]| Some(list.iter().map(|&name| name.to_owned()).collect());
    HostConfig {
        network_mode: Some("none".to_owned()),
        cap_drop: capabilities(&["ALL"]),
        cap_add: capabilities(ALLOWED_CAPABILITIES),
        memory: Some(memory),
        // The limit for memory and swap together. It equals the memory limit, so that the container
        // cannot use swap.
        memory_swap: Some(memory),
        pids_limit: Some(saturating_i64(limits.processes + AGENT_THREADS)),
        nano_cpus: Some((limits.cpus * 1e9) as i64),
        // `/dev/shm` is a separate in-memory file system. Its files count toward the sandbox's
        // memory.
        shm_size: Some((memory / 2).max(1 << 20)),
        ..common_config(image)
    }
}

/// Returns the settings that all of Proctor's containers share.
fn common_config(image: &str) -> HostConfig {
    let mut config = HostConfig {
        // The container's output is the channel. If the engine logged it, it would write every byte
        // to disk.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        auto_remove: Some(false),
        privileged: Some(false),
        ipc_mode: Some("private".to_owned()),
        ..HostConfig::default()
    };
    if image::has_host_base(image) {
        let shown = host_base::visible_folders();
        let bind = |path: &std::path::PathBuf| format!("{0}:{0}:ro", path.display());
        config.binds = Some(shown.iter().map(bind).collect());
        // Cover the path with an empty file system. An empty host directory would have to be
        // created first.
        let cover =
            |path: std::path::PathBuf| (path.display().to_string(), EMPTY_TMPFS_OPTIONS.to_owned());
        config.tmpfs = Some(host_base::hidden_folders().into_iter().map(cover).collect());
    }
    config
}

/// Creates a container for setup commands. They are trusted: they use the machine's network and
/// have no limits.
pub async fn create_setup_container(
    engine: &Arc<Engine>,
    image: &str,
    binds: Vec<String>,
) -> Result<ContainerGuard, Fault> {
    let mut config = common_config(image);
    // Use the host's network, so that setup commands reach registries in the same way as the
    // machine does. A bridge's addresses and rules would differ between engines.
    config.network_mode = Some("host".to_owned());
    config.binds.get_or_insert_default().extend(binds);
    let agent = [format!("/{AGENT_PATH}"), "serve".to_owned()];
    let created = create_container(engine, image, "setup", &agent, config).await;
    created
        .map(|(guard, _)| guard)
        .map_err(|error| fault::environment_fault("cannot create the setup container", &error))
}

async fn create_container(
    engine: &Arc<Engine>,
    image: &str,
    purpose: &str,
    entrypoint: &[String],
    host_config: HostConfig,
) -> Result<(ContainerGuard, Vec<String>), bollard::errors::Error> {
    let host_network = host_config.network_mode.as_deref() == Some("host");
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(entrypoint.to_vec()),
        cmd: Some(Vec::new()),
        user: Some("0:0".to_owned()),
        working_dir: Some("/".to_owned()),
        hostname: (!host_network).then(|| "sandbox".to_owned()),
        labels: Some(owner::labels(&engine.lock, purpose)),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        // When the runtime closes its end of the channel, the engine closes the agent's standard
        // input.
        stdin_once: Some(true),
        tty: Some(false),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        host_config: Some(host_config),
        ..ContainerCreateBody::default()
    };
    let name = owner::container_name(&engine.lock);
    let options = CreateContainerOptionsBuilder::new().name(&name).build();
    let created = engine.client.create_container(Some(options), body).await?;
    Ok((ContainerGuard::new(engine, created.id), created.warnings))
}

/// Attaches to the container, starts it, and exchanges hellos with the agent. Attaches first, so
/// that none of the agent's output is lost.
pub async fn start_container(
    engine: &Arc<Engine>,
    guard: &ContainerGuard,
) -> Result<Arc<SandboxHandle>, Fault> {
    let options = AttachContainerOptionsBuilder::new()
        .stream(true)
        .stdin(true)
        .stdout(true)
        .stderr(true)
        .build();
    let attached = engine.client.attach_container(guard.id(), Some(options)).await;
    let attached =
        attached.map_err(|error| fault::sandbox_fault("cannot attach to a container", &error))?;
    engine
        .client
        .start_container(guard.id(), None::<StartContainerOptions>)
        .await
        .map_err(|error| fault::sandbox_fault("cannot start a container", &error))?;
    let words = StderrTail::default();
    let output = AgentOutput::new(attached.output, Arc::clone(&words));
    match SandboxHandle::connect(output, attached.input).await {
        Ok(handle) => Ok(handle),
        Err(error) => Err(explain_failure(engine, guard.id(), &words, &error.to_string()).await),
    }
}

/// Explains why a container does not respond, from its state or the agent's last output.
async fn explain_failure(
    engine: &Engine,
    id: &str,
    stderr_tail: &StderrTail,
    error: &str,
) -> Fault {
    let mut what = format!("the sandbox agent is not responding: {error}");
    let inspected = engine.client.inspect_container(id, None::<InspectContainerOptions>).await;
    if let Some(state) = inspected.ok().and_then(|inspected| inspected.state) {
        let code = state.exit_code.unwrap_or_default();
        let killed = if state.oom_killed == Some(true) { ", out of memory" } else { "" };
        what.push_str(&format!("; the container ended with {code}{killed}"));
        if let Some(error) = state.error.filter(|error| !error.is_empty()) {
            what.push_str(&format!(": {error}"));
        }
    }
    let words = stderr_text(stderr_tail);
    if !words.is_empty() {
        what.push_str(&format!("; its output: {words}"));
    }
    Fault::new(FaultLayer::Sandbox, what)
}

fn saturating_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
