//! Before the first trial, checks whether the plan's images are present locally or can be pulled.
//!
//! The check downloads nothing and never prevents a trial from starting, because a registry that is
//! unavailable now may be available when the image is needed. If the image is still unavailable
//! then, the trial ends with an environment fault.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use proctor_sandbox_api::{Base, ImageLocation};
use proctor_setup::sandbox_base;
use proctor_types::{Fault, SandboxKind, count_with_noun};
use tokio::time::timeout;

use crate::{Plan, RunContext};

/// Number of concurrent image checks.
const MAX_CONCURRENT_CHECKS: usize = 8;

/// Maximum number of images to name. The rest are only counted.
const MAX_LISTED_IMAGES: usize = 5;

/// Checks the images and returns lines to show to the user. `seconds` is the time limit for all
/// images together.
pub(crate) async fn check_images(context: &RunContext, plan: &Plan, seconds: f64) -> Vec<String> {
    let wanted = pending_images(context, plan);
    let asked = stream::iter(&wanted).map(|((kind, image), tasks)| async move {
        let place = match context.backend(*kind) {
            Ok(backend) => backend.image_location(image).await,
            Err(fault) => Err(fault),
        };
        (image, tasks.len(), place)
    });
    let mut asked = asked.buffer_unordered(MAX_CONCURRENT_CHECKS);
    let mut found = Vec::new();
    let all = async {
        while let Some(one) = asked.next().await {
            found.push(one);
        }
    };
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let in_time = timeout(limit, all).await.is_ok();
    drop(asked);
    let mut lines = summary_lines(found);
    if !in_time {
        lines.push(format!("could not check all images within {seconds} s; continuing"));
    }
    lines
}

/// Returns the images of pending trials, each with its tasks.
fn pending_images(
    context: &RunContext,
    plan: &Plan,
) -> BTreeMap<(SandboxKind, String), BTreeSet<String>> {
    let mut wanted: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for (id, planned, arm) in plan.selected_trials() {
        if context.run.trial_dir(&id).verdict_path().exists() {
            continue;
        }
        // Ignore invalid environments here; another check reports them.
        if let Ok(Base::Image(image)) = sandbox_base(&planned.task, &planned.base_dir) {
            let key = (arm.sandbox.kind, image);
            wanted.entry(key).or_default().insert(planned.task.id.to_string());
        }
    }
    wanted
}

fn summary_lines(
    image_results: Vec<(&String, usize, Result<ImageLocation, Fault>)>,
) -> Vec<String> {
    let all = image_results.len();
    let in_registry =
        |place: &Result<ImageLocation, Fault>| matches!(place, Ok(ImageLocation::Registry));
    let pulled = image_results.iter().filter(|(.., place)| in_registry(place)).count();
    let mut missing: Vec<_> = image_results
        .into_iter()
        .filter_map(|(image, tasks, place)| Some((image, tasks, place.err()?)))
        .collect();
    missing.sort_by_key(|(image, ..)| *image);
    let mut lines = Vec::new();
    if pulled > 0 {
        lines.push(format!("{pulled} of {} will be pulled", count_with_noun(all, "image")));
    }
    for (_, tasks, fault) in missing.iter().take(MAX_LISTED_IMAGES) {
        lines.push(format!("{}: {fault}", count_with_noun(*tasks, "task")));
    }
    if let Some(more) = missing.len().checked_sub(MAX_LISTED_IMAGES).filter(|more| *more > 0) {
        lines.push(format!(
            "and {} that are neither local nor reachable",
            count_with_noun(more, "more image")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use proctor_types::FaultLayer;

    use super::*;

    #[test]
    fn summary_lists_only_images_that_are_not_local() {
        let names: Vec<String> = (0..8).map(|number| format!("i{number}")).collect();
        assert!(summary_lines(vec![(&names[0], 3, Ok(ImageLocation::BackEnd))]).is_empty());
        let lines = summary_lines(vec![
            (&names[0], 1, Ok(ImageLocation::BackEnd)),
            (&names[1], 1, Ok(ImageLocation::Registry)),
            (
                &names[2],
                2,
                Err(Fault::new(FaultLayer::Environment, "image i2 is gone").hint("load it")),
            ),
        ]);
        assert_eq!(lines[0], "1 of 3 images will be pulled");
        assert!(lines[1].starts_with("2 tasks: ") && lines[1].contains("load it"), "{lines:?}");
        let gone = |name| (name, 1, Err(Fault::new(FaultLayer::Environment, "gone")));
        let lines = summary_lines(names.iter().map(gone).collect());
        assert_eq!(lines.len(), MAX_LISTED_IMAGES + 1);
        assert!(lines[MAX_LISTED_IMAGES].starts_with("and 3 more images"), "{lines:?}");
    }
}
