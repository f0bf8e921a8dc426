//! Reads the structure of an image archive: which of its files are layers, and their order.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use proctor_types::ImageSettings;
use serde::Deserialize;

use super::compressed;

/// Maximum length of a manifest or index in bytes.
const JSON_LIMIT: u64 = 8 << 20;

/// An archive and the positions of the files in it.
pub(super) struct ImageArchive {
    file: File,
    files: HashMap<String, ArchiveFile>,
}

enum ArchiveFile {
    Bytes {
        offset: u64,
        size: u64,
    },
    /// A link to another file. Old versions of `docker save` write a repeated layer as a link.
    Link(String),
}

#[derive(Deserialize)]
struct SavedManifest {
    #[serde(rename = "Layers")]
    layers: Vec<String>,
    #[serde(rename = "Config", default)]
    config: Option<String>,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    config: Option<Descriptor>,
    /// A nested index.
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

/// An image's layers, lowest first, and its configuration.
struct ImageParts {
    layers: Vec<String>,
    config: Option<String>,
}

#[derive(Deserialize)]
struct Image {
    config: Option<ContainerConfig>,
}

#[derive(Deserialize)]
struct ContainerConfig {
    #[serde(rename = "Env", default)]
    env: Option<Vec<String>>,
    #[serde(rename = "WorkingDir", default)]
    workdir: Option<String>,
    #[serde(rename = "User", default)]
    user: Option<String>,
    #[serde(rename = "Entrypoint", default)]
    entrypoint: Option<Vec<String>>,
    #[serde(rename = "Cmd", default)]
    cmd: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

impl ImageArchive {
    /// Opens an archive, which may be compressed.
    pub(super) fn open(archive: &Path) -> io::Result<Self> {
        let mut file = File::open(archive)?;
        let mut content = compressed::decompress(file.try_clone()?)?;
        if content.is_compressed {
            // Layers are read by offset, so decompress the archive to a temporary file.
            let mut plain = tempfile::tempfile_in(archive.parent().unwrap_or(Path::new("/")))
                .or_else(|_| tempfile::tempfile())?;
            io::copy(&mut content.stream, &mut plain)?;
            drop(content);
            file = plain;
        }
        file.seek(SeekFrom::Start(0))?;
        let mut parts = HashMap::new();
        let mut tar = tar::Archive::new(BufReader::new(&file));
        for entry in tar.entries()? {
            let entry = entry?;
            let name = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
            let part = match entry.link_name()? {
                Some(target) => ArchiveFile::Link(resolve_link(&name, &target.to_string_lossy())),
                None => {
                    ArchiveFile::Bytes { offset: entry.raw_file_position(), size: entry.size() }
                }
            };
            parts.insert(name, part);
        }
        Ok(Self { file, files: parts })
    }

    /// Returns the names of the layers, lowest first.
    pub(super) fn layers(&self) -> io::Result<Vec<String>> {
        Ok(self.read_image_parts()?.layers)
    }

    /// Returns the image's container settings.
    pub(super) fn settings(&self) -> io::Result<ImageSettings> {
        let config =
            self.read_image_parts()?.config.filter(|config| self.files.contains_key(config));
        let Some(config) = config else { return Ok(ImageSettings::default()) };
        let image: Image = self.read_json(&config)?;
        let Some(config) = image.config else { return Ok(ImageSettings::default()) };
        let lines = config.env.unwrap_or_default();
        let pairs = lines.iter().filter_map(|line| line.split_once('='));
        Ok(ImageSettings {
            env: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            workdir: config.workdir.filter(|path| !matches!(path.as_str(), "" | "/")),
            user: config.user.filter(|user| !user.is_empty()),
            entrypoint: config.entrypoint.unwrap_or_default(),
            cmd: config.cmd.unwrap_or_default(),
        })
    }

    fn read_image_parts(&self) -> io::Result<ImageParts> {
        if self.files.contains_key("manifest.json") {
            let saved: Vec<SavedManifest> = self.read_json("manifest.json")?;
            return match <[SavedManifest; 1]>::try_from(saved) {
                Ok([one]) => Ok(ImageParts { layers: one.layers, config: one.config }),
                Err(all) => {
                    Err(invalid_data_error(format!("it has {} images instead of one", all.len())))
                }
            };
        }
        if !self.files.contains_key("index.json") {
            return Err(invalid_data_error(
                "not an image: it has neither manifest.json nor index.json",
            ));
        }
        let mut candidates = self.read_json::<Index>("index.json")?.manifests;
        // An index may refer to another index. A longer chain is probably a loop.
        for _ in 0..4 {
            let chosen = choose_manifest(&candidates)?;
            let manifest: Manifest = self.read_json(&blob_path(&chosen.digest)?)?;
            if manifest.manifests.is_empty() {
                let layers = manifest.layers.iter().map(|layer| blob_path(&layer.digest));
                let config = manifest.config.map(|config| blob_path(&config.digest)).transpose()?;
                return Ok(ImageParts { layers: layers.collect::<io::Result<_>>()?, config });
            }
            candidates = manifest.manifests;
        }
        Err(invalid_data_error("its index has no manifest"))
    }

    /// Opens one layer as an uncompressed tar stream.
    pub(super) fn open_layer(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        Ok(compressed::decompress(self.open_file(name)?)?.stream)
    }

    fn read_json<T: for<'a> Deserialize<'a>>(&self, name: &str) -> io::Result<T> {
        let mut text = Vec::new();
        self.open_file(name)?.take(JSON_LIMIT).read_to_end(&mut text)?;
        serde_json::from_slice(&text)
            .map_err(|error| invalid_data_error(format!("{name}: {error}")))
    }

    fn open_file(&self, name: &str) -> io::Result<io::Take<File>> {
        let mut name = name;
        for _ in 0..8 {
            match self.files.get(name) {
                Some(ArchiveFile::Bytes { offset, size }) => {
                    let mut file = self.file.try_clone()?;
                    file.seek(SeekFrom::Start(*offset))?;
                    return Ok(file.take(*size));
                }
                Some(ArchiveFile::Link(target)) => name = target,
                None => return Err(invalid_data_error(format!("{name} is missing"))),
            }
        }
        Err(invalid_data_error(format!("{name} is a circular link")))
    }
}

/// Returns the descriptor of the manifest for this machine's architecture.
fn choose_manifest(candidates: &[Descriptor]) -> io::Result<&Descriptor> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let fits = |found: &&Descriptor| {
        found.platform.as_ref().is_some_and(|p| p.os == "linux" && p.architecture == architecture)
    };
    candidates
        .iter()
        .find(fits)
        .or_else(|| candidates.iter().find(|found| found.platform.is_none()))
        .ok_or_else(|| invalid_data_error(format!("it has no image for linux/{architecture}")))
}

fn blob_path(digest: &str) -> io::Result<String> {
    let (kind, hex) =
        digest.split_once(':').ok_or_else(|| invalid_data_error("a digest has no algorithm"))?;
    Ok(format!("blobs/{kind}/{hex}"))
}

/// Resolves a link's target relative to the link's directory.
fn resolve_link(name: &str, target: &str) -> String {
    let mut parts: Vec<&str> = name.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." | "" => {}
            other => parts.push(other),
        }
    }
    parts.join("/")
}

pub(super) fn invalid_data_error(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}
