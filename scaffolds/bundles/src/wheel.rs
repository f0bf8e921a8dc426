//! Installs Python packages without running any of their code. The installed files are the same as
//! those that `pip` installs.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read},
    path::Path,
};

use proctor_types::normalize_package_name;

use crate::{
    BundleError,
    recipe::is_contained_path,
    requirements::{Requirement, is_same_version},
    unpack::{self, ArchiveEntry},
};

/// Maximum size of `METADATA` in bytes.
const MAX_METADATA_BYTES: u64 = 8 << 20;

/// Installs a wheel's files for `site-packages`. Skips its scripts, because their first line names
/// an interpreter that does not exist.
pub(crate) fn install_wheel(bytes: Vec<u8>, site: &Path) -> Result<(), BundleError> {
    let broken = |error: zip::result::ZipError| BundleError::new(format!("invalid wheel: {error}"));
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(broken)?;
        let name = entry.name().map_err(broken)?.into_owned();
        if entry.is_dir() {
            continue;
        }
        if !is_contained_path(&name) {
            return Err(BundleError::new(format!(
                "invalid wheel: {name} points outside the package folder"
            )));
        }
        let Some(below) = site_packages_path(&name) else { continue };
        let executable = entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
        unpack::write_file(&site.join(below), &mut entry, executable)?;
    }
    Ok(())
}

/// Returns the metadata of a distribution: `METADATA` in a wheel, `PKG-INFO` in an sdist.
pub(crate) fn read_metadata(bytes: &[u8]) -> Result<String, BundleError> {
    let mut text = String::new();
    if bytes.starts_with(b"PK") {
        let broken =
            |error: zip::result::ZipError| BundleError::new(format!("invalid wheel: {error}"));
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index).map_err(broken)?;
            let name = entry.name().map_err(broken)?.into_owned();
            let in_folder = name
                .split_once('/')
                .is_some_and(|(folder, file)| folder.ends_with(".dist-info") && file == "METADATA");
            if in_folder {
                text = read_text(&mut entry)?;
            }
        }
    } else {
        unpack::for_each_tar_entry(flate2::read::GzDecoder::new(bytes), &mut |path, entry| {
            if let ArchiveEntry::File { content, .. } = entry
                && path.ends_with("PKG-INFO")
                && path.components().count() == 2
            {
                text = read_text(content)?;
            }
            Ok(())
        })?;
    }
    match text.is_empty() {
        true => Err(BundleError::new("the distribution has no METADATA")),
        false => Ok(text),
    }
}

fn read_text(content: &mut dyn Read) -> Result<String, BundleError> {
    let mut bytes = Vec::new();
    let read = content.take(MAX_METADATA_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| BundleError::new(format!("invalid archive: {error}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the values of a metadata field. Ignores the description, which follows the fields.
pub(crate) fn metadata_fields<'a>(
    metadata: &'a str,
    name: &'a str,
) -> impl Iterator<Item = &'a str> {
    let head = metadata.lines().take_while(|line| !line.trim().is_empty());
    head.filter_map(move |line| {
        let (field, value) = line.split_once(':')?;
        field.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

/// Checks that the metadata in a file matches the requested package.
pub(crate) fn verify_metadata(bytes: &[u8], requirement: &Requirement) -> Result<(), BundleError> {
    let text = read_metadata(bytes)?;
    let one =
        |name: &'static str| metadata_fields(&text, name).next().unwrap_or_default().to_owned();
    let (name, version) = (one("Name"), one("Version"));
    if normalize_package_name(&name) == requirement.name
        && is_same_version(&version, &requirement.version)
    {
        return Ok(());
    }
    Err(BundleError::new(format!(
        "the file is {name} {version}, expected {} {}",
        requirement.name, requirement.version
    ))
    .hint("the checksum in the manifest belongs to a different release; fix it"))
}

/// Extracts the program with this name from a wheel. The wheel must contain exactly one such file.
pub(crate) fn extract_program(bytes: Vec<u8>, name: &str, path: &Path) -> Result<(), BundleError> {
    let broken = |error: zip::result::ZipError| BundleError::new(format!("invalid wheel: {error}"));
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
    let end = format!(".data/scripts/{name}");
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(broken)?;
        if entry.name().map_err(broken)?.ends_with(&end) {
            return unpack::write_file(path, &mut entry, true);
        }
    }
    Err(BundleError::new(format!("the wheel has no {name}")))
}

/// Returns the path of a wheel's entry relative to `site-packages`; `None` if the entry belongs
/// elsewhere.
fn site_packages_path(name: &str) -> Option<&str> {
    let Some((_, rest)) = name.split_once('/').filter(|(top, _)| top.ends_with(".data")) else {
        return Some(name);
    };
    rest.strip_prefix("purelib/").or_else(|| rest.strip_prefix("platlib/"))
}

/// Installs the named directories or modules from an sdist's top level or its `src` directory.
pub(crate) fn install_sdist(
    bytes: &[u8],
    names: &[String],
    site: &Path,
) -> Result<(), BundleError> {
    let mut found = BTreeMap::<&str, bool>::new();
    unpack::for_each_tar_entry(flate2::read::GzDecoder::new(bytes), &mut |path, entry| {
        let ArchiveEntry::File { content, is_executable: executable } = entry else {
            return Ok(());
        };
        let below: std::path::PathBuf = path.components().skip(1).collect();
        let below = below.strip_prefix("src").map(Path::to_owned).unwrap_or(below);
        let Some(name) = names.iter().find(|name| below.starts_with(name)) else { return Ok(()) };
        found.insert(name, true);
        unpack::write_file(&site.join(&below), content, executable)
    })?;
    match names.iter().find(|name| !found.contains_key(name.as_str())) {
        Some(name) => Err(BundleError::new(format!("the sdist has no {name}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_ignore_the_description() {
        let text =
            "Metadata-Version: 2.1\nName: A.b\nVersion: 1.0\nRequires-Dist: c==2\n\nVersion: 9\n";
        assert_eq!(metadata_fields(text, "version").collect::<Vec<_>>(), ["1.0"]);
        assert_eq!(metadata_fields(text, "Requires-Dist").collect::<Vec<_>>(), ["c==2"]);
    }

    #[test]
    fn site_packages_path_omits_scripts() {
        assert_eq!(site_packages_path("p-1.data/scripts/p"), None);
        assert_eq!(site_packages_path("p-1.data/purelib/p/a.py"), Some("p/a.py"));
        assert_eq!(site_packages_path("p.data.py"), Some("p.data.py"));
    }
}
