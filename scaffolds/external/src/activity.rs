//! Detects whether an agent is working while it sends no requests.
//!
//! An agent may send no requests for a long time, for example while a test suite runs. So Proctor
//! checks the CPU time of all processes except the agent's own: if it grows, the agent is working.
//! The agent's own CPU time does not count, because a client that is stuck in a loop would look
//! busy.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use proctor_scaffold_api::Traffic;

/// Shell code that prints the shell's process id, the agent's process id, and the `stat` file of
/// every process. It uses only builtins.
pub const SAMPLE_SCRIPT: &str = "echo $$; read -r agent <\"$1\"; echo \"$agent\"; \
                          for f in /proc/[0-9]*/stat; do read -r line <$f && echo \"$line\"; done \
                          2>/dev/null; :";

/// Minimum fraction of one CPU that processes must use between two checks to count as work. Timers
/// alone use less.
const MIN_CPU_FRACTION: f64 = 0.05;
/// The unit of the CPU times in `stat`: clock ticks per second. The same on all current Linux
/// systems.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub struct Activity {
    request_count: u64,
    /// When activity was last detected.
    last_active_at: Instant,
    last_check_at: Instant,
    cpu_ticks: BTreeMap<u32, u64>,
}

impl Default for Activity {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            request_count: 0,
            last_active_at: now,
            last_check_at: now,
            cpu_ticks: BTreeMap::new(),
        }
    }
}

impl Activity {
    /// Returns whether a request was sent since the last check or a request is still waiting for
    /// its response.
    pub fn has_new_requests(&mut self, traffic: &Traffic) -> bool {
        let asked =
            traffic.received_requests > self.request_count || traffic.requests_in_flight > 0;
        self.request_count = traffic.received_requests;
        if asked {
            self.last_active_at = Instant::now();
            // Discard earlier samples, so that the next check starts from zero.
            self.cpu_ticks.clear();
        }
        asked
    }

    /// Returns how long the agent has been idle, given the output of [`SAMPLE_SCRIPT`].
    pub fn idle_time(&mut self, sample: &str) -> Duration {
        let now = Instant::now();
        let ticks = parse_ticks(sample);
        let first = self.cpu_ticks.is_empty();
        let used: u64 = ticks
            .iter()
            .map(|(pid, ticks)| ticks.saturating_sub(self.cpu_ticks.get(pid).copied().unwrap_or(0)))
            .sum();
        let took = now.duration_since(self.last_check_at).as_secs_f64();
        let work = used as f64 > (took * TICKS_PER_SECOND * MIN_CPU_FRACTION).max(1.0);
        (self.cpu_ticks, self.last_check_at) = (ticks, now);
        if work && !first {
            self.last_active_at = now;
        }
        now.duration_since(self.last_active_at)
    }
}

/// Returns the CPU time of each process. For the agent's own process, counts only its finished
/// children. Leaves out the shell that takes the sample.
fn parse_ticks(sample: &str) -> BTreeMap<u32, u64> {
    let mut lines = sample.lines();
    let mut pid = || lines.next().and_then(|line| line.trim().parse::<u32>().ok());
    let (own, agent) = (pid(), pid());
    let mut found = BTreeMap::new();
    for line in lines {
        // The format is `PID (NAME) STATE PARENT ...`. The name may contain any characters.
        let Some((head, rest)) = line.rsplit_once(')') else { continue };
        let Some(pid) = head.split_whitespace().next().and_then(|pid| pid.parse().ok()) else {
            continue;
        };
        let fields: Vec<u64> =
            rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        // Fields 14 to 17 are the process's own user and system time and those of its finished
        // children.
        let Some([user, system, of_children, of_their_system]) = fields.get(11..15) else {
            continue;
        };
        let children = of_children + of_their_system;
        let used = if Some(pid) == agent { children } else { user + system + children };
        // Skip process 1, which is the sandbox agent: taking the sample uses CPU time there.
        if Some(pid) != own && pid != 1 {
            found.insert(pid, used);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::{thread::sleep, time::Duration};

    use proctor_scaffold_api::Traffic;

    use super::Activity;

    fn stat(pid: u32, name: &str, own_ticks: u64, child_ticks: u64) -> String {
        format!(
            "{pid} ({name}) S 1 {pid} {pid} 0 -1 4194304 1 2 3 4 {own_ticks} 0 {child_ticks} 0 20 0 1 0\n"
        )
    }

    #[test]
    fn activity_counts_only_child_processes() {
        let sample = |agent: u64, of_children: u64, other: u64| {
            format!("9\n5\n{}", stat(1, "agentd", 10 * agent, 0))
                + &stat(5, "my (odd) cli", agent, of_children)
                + &stat(7, "pytest", other, 0)
                + &stat(9, "sh", 900, 0)
        };
        let mut activity = Activity::default();
        let step = |activity: &mut Activity, text: &str| {
            sleep(Duration::from_millis(20));
            activity.idle_time(text)
        };
        step(&mut activity, &sample(0, 0, 0));
        let busy_itself = step(&mut activity, &sample(1000, 0, 0));
        assert!(busy_itself >= Duration::from_millis(40), "{busy_itself:?}");
        assert!(step(&mut activity, &sample(1000, 0, 50)) < Duration::from_millis(10));
        assert!(step(&mut activity, &sample(1000, 50, 50)) < Duration::from_millis(10));
        assert!(step(&mut activity, &sample(2000, 50, 50)) >= Duration::from_millis(20));
        let traffic = Traffic { received_requests: 1, ..Traffic::default() };
        assert!(activity.has_new_requests(&traffic) && !activity.has_new_requests(&traffic));
        assert!(step(&mut activity, &sample(2000, 50, 9000)) < Duration::from_millis(40));
    }
}
