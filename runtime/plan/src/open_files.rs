//! Raises the limit on open files at startup, and checks whether the limit is high enough for a
//! plan.

use proctor_types::{Arm, NetworkMode, SCRIPT_URL_PREFIX, ShippedTable, UserError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Deserialize;

static OPEN_FILE_NEEDS: ShippedTable<OpenFileNeeds> = ShippedTable::new(
    "tables/open-files.toml",
    include_str!("../../../configs/tables/open-files.toml"),
);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenFileNeeds {
    base: u64,
    trial: u64,
    script: u64,
    network: u64,
    own_sandbox: u64,
    own_sandbox_scaffolds: Vec<String>,
}

/// Raises the soft limit to the hard limit. The soft limit is low only for the sake of programs
/// that use `select`, which Proctor does not. Sandboxes have their own limit.
pub fn raise_limit() {
    let files = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: files.maximum, maximum: files.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
}

/// Rejects `jobs` concurrent trials if they need more open files than the limit. Otherwise, trials
/// would fail at random points during the run.
pub fn check_limit<'a>(
    jobs: usize,
    trials: usize,
    arms: impl Iterator<Item = &'a Arm>,
) -> Result<(), UserError> {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return Ok(()) };
    let needs = OPEN_FILE_NEEDS.get().map_err(UserError::new)?;
    let most = needs.max_concurrent_trials(limit, arms);
    if jobs.min(trials) as u64 <= most {
        return Ok(());
    }
    let what = format!(
        "jobs = {jobs}: {} parallel trials need more open files than the limit of {limit}",
        jobs.min(trials)
    );
    let raise = "raise the limit (`ulimit -n`, or `LimitNOFILE=` in a systemd unit)";
    let hint = match most {
        0 => format!("{raise}: the limit is too low for a single trial"),
        most => format!("set `jobs` to {most} or less, or {raise}"),
    };
    Err(UserError::new(what).hint(hint))
}

impl OpenFileNeeds {
    /// Returns how many trials of the most demanding arm fit within the limit.
    fn max_concurrent_trials<'a>(&self, limit: u64, arms: impl Iterator<Item = &'a Arm>) -> u64 {
        let of = |arm: &Arm| {
            let model = arm.model.as_ref();
            let scripted = model.is_some_and(|model| model.base_url.starts_with(SCRIPT_URL_PREFIX));
            let network = arm.network.mode != NetworkMode::Closed;
            let own = self.own_sandbox_scaffolds.contains(&arm.scaffold);
            self.trial
                + self.script * u64::from(scripted)
                + self.network * u64::from(network)
                + self.own_sandbox * u64::from(own)
        };
        limit.saturating_sub(self.base) / arms.map(of).max().unwrap_or(self.trial).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_needs_fit_220_trials_into_1024_files() {
        let needs = OPEN_FILE_NEEDS.get().unwrap();
        assert!(needs.max_concurrent_trials(1024, [].into_iter()) >= 220);
        assert_eq!(needs.max_concurrent_trials(64, [].into_iter()), 0);
    }
}
