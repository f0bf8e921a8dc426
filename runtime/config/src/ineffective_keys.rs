//! Rejects settings that have no effect. A key that only seems to restrict, allow or record
//! something is worse than a missing key.

use std::collections::BTreeMap;

use proctor_types::{NetworkMode, NetworkPolicy};

use crate::{ConfigFile, ConfigSource, UserError};

/// Rejects keys that have no effect without another key.
pub fn check_key_dependencies(file: &ConfigFile, source: &ConfigSource) -> Result<(), UserError> {
    if file.grading.certificate.is_none() && source.contains(&["grading", "flaky"]) {
        let what = "has no effect without a `certificate` that lists unreliable tests";
        let hint = "add certificate = \"FILE\" (create it with `proctor tasks validate --repeat 3 \
                    --certificate FILE`), or remove the key";
        return Err(source.error(&["grading", "flaky"], what).hint(hint));
    }
    for (index, arm) in file.arms.iter().enumerate() {
        if arm.replay.is_some() && arm.scaffold != "replay" {
            let what = format!(
                "has no effect: the scaffold `{}` does not replay trajectories",
                arm.scaffold
            );
            return Err(source
                .error(&["arms", &index.to_string(), "replay"], what)
                .hint("set scaffold = \"replay\", or remove the key"));
        }
    }
    Ok(())
}

/// Rejects a `[network]` key that has no effect in any of its arms, and a mode that blocks
/// everything.
///
/// All arms are checked together, because a list at the top of the file may apply only to the one
/// arm whose mode is not closed.
pub fn check_network(file: &ConfigFile, source: &ConfigSource) -> Result<(), UserError> {
    let indices: Vec<String> = (0..file.arms.len()).map(|index| index.to_string()).collect();
    // Maps each key that is set to the reason why it has no effect, or to `None` if it has an
    // effect in at least one arm.
    let mut unused: BTreeMap<Vec<&str>, Option<IneffectiveKey>> = BTreeMap::new();
    for (arm, index) in file.arms.iter().zip(&indices) {
        let network = &arm.network;
        for (key, set) in network_settings(network) {
            if !set {
                continue;
            }
            let path = source.arm_key_path(index, "network", key);
            let why = no_effect_reason(network, key);
            let known = unused.entry(path).or_insert(why);
            if why.is_none() {
                *known = None;
            }
        }
        let named = source.contains(&source.arm_key_path(index, "network", "allow"));
        if network.mode == NetworkMode::Allow
            && !named
            && network.allow.is_empty()
            && !network.audit
        {
            let mode = source.arm_key_path(index, "network", "mode");
            return Err(source
                .error(&mode, "mode `allow` without patterns in `allow` blocks everything")
                .hint(
                    "add allow = [\"https://HOST/**\"], or set mode = \"closed\"; `allow = []` \
                     starts a proxy that records and denies every request",
                ));
        }
    }
    match unused.into_iter().find_map(|(path, why)| Some((path, why?))) {
        Some((path, IneffectiveKey { message: what, hint })) => {
            Err(source.error(&path, what).hint(hint))
        }
        None => Ok(()),
    }
}

#[derive(Debug, Clone, Copy)]
struct IneffectiveKey {
    message: &'static str,
    hint: &'static str,
}

/// Returns every key except `mode`, and whether the key is set.
fn network_settings(network: &NetworkPolicy) -> [(&'static str, bool); 5] {
    [
        ("allow", !network.allow.is_empty()),
        ("deny", !network.deny.is_empty()),
        ("private", !network.private.is_empty()),
        ("audit", network.audit),
        ("ca_file", network.ca_file.is_some()),
    ]
}

fn no_effect_reason(network: &NetworkPolicy, key: &str) -> Option<IneffectiveKey> {
    match (network.mode, key) {
        (NetworkMode::Closed, _) => Some(IneffectiveKey {
            message: "has no effect, because `network.mode` is `closed`",
            hint: "set mode = \"allow\" or mode = \"open_except\", or remove the key",
        }),
        (NetworkMode::OpenExcept, "allow") => Some(IneffectiveKey {
            message: "has no effect, because `network.mode` is `open_except`: everything that is not denied is allowed",
            hint: "set mode = \"allow\", or remove the key",
        }),
        (NetworkMode::OpenExcept, "audit") if network.deny.is_empty() => Some(IneffectiveKey {
            message: "has no effect: `network.mode` is `open_except`, and `deny` has no patterns to audit",
            hint: "add patterns to `deny`, set mode = \"allow\", or remove the key",
        }),
        _ => None,
    }
}
