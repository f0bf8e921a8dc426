//! Reads a container's resource counters, from inside the container or from the engine.

use bollard::query_parameters::StatsOptionsBuilder;
use futures_util::{StreamExt, future::join_all};
use proctor_sandbox_api::{KERNEL_FILES, SandboxHandle, read_kernel_counts, wire::RawPath};
use proctor_types::{CpuCounts, MemoryCounts, SandboxCounts};

/// Maximum size of a kernel file to read, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A container, and what is needed to request its counters.
pub struct ContainerRef<'a> {
    pub client: &'a bollard::Docker,
    pub id: &'a str,
    /// Whether the engine uses cgroup v2.
    pub has_cgroup_v2: bool,
}

/// Reads the counters inside the container. This also works if the engine is on another machine. If
/// the container has ended, asks the engine whether the kernel killed it.
///
/// The numbers can be trusted: the engine mounts the container's own cgroup read-only, and root in
/// the container can neither write to it nor mount over it.
pub async fn read_counts(handle: &SandboxHandle, container: &ContainerRef<'_>) -> SandboxCounts {
    let read = |&(controller, file): &(&str, &'static str)| {
        let path = match container.has_cgroup_v2 {
            true => format!("/sys/fs/cgroup/{file}"),
            false => format!("/sys/fs/cgroup/{controller}/{file}"),
        };
        async move {
            let content = handle.read(&RawPath::from(path.as_str()), MAX_FILE_BYTES).await.ok()?;
            Some((file, String::from_utf8(content).ok()?))
        }
    };
    let texts: Vec<_> =
        join_all(KERNEL_FILES.iter().map(read)).await.into_iter().flatten().collect();
    let counts = read_kernel_counts(|wanted| {
        texts.iter().find(|(file, _)| *file == wanted).map(|(_, text)| text.clone())
    });
    if counts != SandboxCounts::default() {
        return counts;
    }
    match handle.broken_reason() {
        None => read_engine_counts(container).await,
        // The cgroup no longer exists, but the engine reports whether the kernel killed the
        // container.
        Some(_) => SandboxCounts {
            memory: MemoryCounts {
                oom_kills: read_oom_kills(container).await,
                ..Default::default()
            },
            ..SandboxCounts::default()
        },
    }
}

/// Requests the counters from the engine, which has fewer of them. With cgroup v2, it provides
/// neither the peak memory nor the number of kills.
async fn read_engine_counts(container: &ContainerRef<'_>) -> SandboxCounts {
    let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
    let mut stats = Box::pin(container.client.stats(container.id, Some(options)));
    let Some(Ok(stats)) = stats.next().await else { return SandboxCounts::default() };
    let nanos = |count: u64| count as f64 / 1e9;
    let memory = stats.memory_stats.unwrap_or_default();
    let cpu = stats.cpu_stats.unwrap_or_default();
    let throttled = cpu.throttling_data.unwrap_or_default();
    let used = cpu.cpu_usage.and_then(|usage| usage.total_usage);
    SandboxCounts {
        memory: MemoryCounts {
            limit_bytes: memory.limit,
            peak_bytes: memory.max_usage.filter(|most| *most > 0),
            ..MemoryCounts::default()
        },
        cpu: CpuCounts {
            seconds: used.map(nanos),
            periods: throttled.periods,
            throttled_periods: throttled.throttled_periods,
            throttled_seconds: throttled.throttled_time.map(nanos),
            ..CpuCounts::default()
        },
        ..SandboxCounts::default()
    }
}

/// Returns 1 if the kernel killed any process in the container, otherwise 0. The engine does not
/// count kills.
async fn read_oom_kills(container: &ContainerRef<'_>) -> Option<u64> {
    let found = container.client.inspect_container(container.id, None).await.ok()?;
    found.state?.oom_killed.map(u64::from)
}
