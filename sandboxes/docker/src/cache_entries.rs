//! Lists and removes images that this back end created.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bollard::{
    errors::Error,
    query_parameters::{ListImagesOptionsBuilder, RemoveImageOptionsBuilder},
};
use proctor_sandbox_api::CacheEntry;
use proctor_types::Fault;

use crate::{
    base::{self, REPOSITORY},
    build,
    engine::Engine,
    fault,
    image::{self, HOST_LAYER_REPOSITORY, LAYER_REPOSITORY},
    layer,
};

/// Lists named images that this back end created. Images that depend on others come first, because
/// an engine does not remove an image that others depend on.
pub async fn list(engine: &Engine) -> Result<Vec<CacheEntry>, Fault> {
    let options = ListImagesOptionsBuilder::new().build();
    let images = engine.client.list_images(Some(options)).await;
    let images = images.map_err(|error| fault::sandbox_fault("cannot list images", &error))?;
    let mut found = Vec::new();
    for image in images {
        for tag in &image.repo_tags {
            let Some(rank) = rank(tag) else { continue };
            let kept = CacheEntry {
                description: format!("docker image {}", shorten_tag(tag)),
                bytes: u64::try_from(image.size).unwrap_or(0),
                created_at: to_system_time(image.created),
                backend_id: tag.clone(),
            };
            found.push((rank, kept));
        }
    }
    found.extend(list_dangling(engine).await?.into_iter().map(|kept| (0, kept)));
    found.sort_by(|(a, one), (b, other)| {
        a.cmp(b).then_with(|| one.backend_id.cmp(&other.backend_id))
    });
    Ok(found.into_iter().map(|(_, kept)| kept).collect())
}

/// Lists images that this back end created but that have no name. If two processes build the same
/// image at the same time, one of the images loses its name. Such an image has only an id, but its
/// comment shows that this back end created it.
async fn list_dangling(engine: &Engine) -> Result<Vec<CacheEntry>, Fault> {
    let filters = HashMap::from([("dangling", vec!["true"])]);
    let options = ListImagesOptionsBuilder::new().filters(&filters).build();
    let images = engine.client.list_images(Some(options)).await;
    let images = images
        .map_err(|error| fault::sandbox_fault("cannot list images without a name", &error))?;
    let mut found = Vec::new();
    for image in images {
        let comment = image::read_comment(engine, &image.id).await?;
        if !comment.is_some_and(|comment| [base::COMMENT, layer::COMMENT].contains(&&*comment)) {
            continue;
        }
        let id = image.id.strip_prefix("sha256:").unwrap_or(&image.id);
        found.push(CacheEntry {
            description: format!("unnamed docker image {id:.12}"),
            bytes: u64::try_from(image.size).unwrap_or(0),
            created_at: to_system_time(image.created),
            backend_id: image.id,
        });
    }
    Ok(found)
}

/// Converts seconds since the Unix epoch.
fn to_system_time(created: i64) -> Option<SystemTime> {
    let since = u64::try_from(created).ok().map(Duration::from_secs)?;
    UNIX_EPOCH.checked_add(since)
}

/// Removes the name of an image, and the image itself if that was its last name. Returns `false` if
/// a container or another image still uses the image.
pub async fn remove(engine: &Engine, tag: &str) -> Result<bool, Fault> {
    let options = RemoveImageOptionsBuilder::new().build();
    match engine.client.remove_image(tag, Some(options), None).await {
        Ok(_) => Ok(true),
        Err(error) if fault::is_missing(&error) => Ok(true),
        Err(Error::DockerResponseServerError { status_code: 409, .. }) => Ok(false),
        Err(error) => Err(fault::sandbox_fault(&format!("cannot remove the image {tag}"), &error)),
    }
}

/// Returns an image's position in the removal order. Returns `None` if the name shows that another
/// program created the image.
fn rank(tag: &str) -> Option<u8> {
    let (repository, tag) = tag.rsplit_once(':')?;
    let made =
        |digest: &str| digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    match (repository, tag.strip_prefix("base-")) {
        (LAYER_REPOSITORY | HOST_LAYER_REPOSITORY, None) if made(tag) => Some(0),
        (HOST_LAYER_REPOSITORY, Some(digest)) if made(digest) => Some(1),
        (REPOSITORY | build::REPOSITORY, None) if made(tag) => Some(2),
        _ => None,
    }
}

fn shorten_tag(tag: &str) -> &str {
    match tag.char_indices().rev().find(|(_, c)| *c == ':') {
        Some((colon, _)) => tag.get(..colon + 13).unwrap_or(tag),
        None => tag,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_rejects_foreign_image_names() {
        let digest = "0123456789abcdef".repeat(2);
        assert_eq!(rank(&format!("proctor-layer:{digest}")), Some(0));
        assert_eq!(rank(&format!("proctor-layer-host:{digest}")), Some(0));
        assert_eq!(rank(&format!("proctor-layer-host:base-{digest}")), Some(1));
        assert_eq!(rank(&format!("proctor-base:{digest}")), Some(2));
        assert_eq!(rank(&format!("proctor-build:{digest}")), Some(2));
        for theirs in [
            "proctor-layer:latest".to_owned(),
            format!("mine/proctor-layer:{digest}"),
            format!("proctor-layers:{digest}"),
            "debian:12".to_owned(),
            "proctor".to_owned(),
        ] {
            assert_eq!(rank(&theirs), None, "{theirs}");
        }
        assert_eq!(shorten_tag(&format!("proctor-base:{digest}")), "proctor-base:0123456789ab");
    }
}
