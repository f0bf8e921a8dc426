//! Builds images like the benchmark's. Each image contains one repository: the whole library,
//! installed in development mode at `/testbed` and copied to `/root/my_repo`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use proctor_setup::Sources;
use proctor_types::Source;

use crate::stage::cache_folder;

/// A library on PyPI whose sdist contains the tests.
pub struct Library {
    pub name: &'static str,
    pub repo: &'static str,
    pub version: &'static str,
    pub sha256: &'static str,
}

pub const BOLTONS: Library = Library {
    name: "boltons",
    repo: "mahmoud/boltons",
    version: "25.0.0",
    sha256: "e110fbdc30b7b9868cb604e3f71d4722dd8f4dcb4a5ddd06028ba8f1ab0b5ace",
};

pub const MISTUNE: Library = Library {
    name: "mistune",
    repo: "lepture/mistune",
    version: "3.4.0",
    sha256: "2eaf7952af928ca8d33b779762effc1da517b62c6ad85ec8ca957e3b07b9782a",
};

/// Packages that tests and builds need. Each has a wheel that works with any Python 3.
const WHEELS: [&str; 9] = [
    "pytest==8.4.2",
    "pytest-timeout==2.4.0",
    "iniconfig==2.1.0",
    "packaging==25.0",
    "pluggy==1.6.0",
    "pygments==2.19.2",
    "setuptools==80.9.0",
    "wheel==0.45.1",
    "flit-core==3.12.0",
];

const DOCKERFILE: &str = "FROM proctor-test:git
COPY wheels /wheels
RUN python3 -m venv /opt/miniconda3/envs/testbed && \\
    /opt/miniconda3/envs/testbed/bin/pip install -q --no-cache-dir --no-index /wheels/*.whl
COPY source /testbed
RUN cd /testbed && \\
    /opt/miniconda3/envs/testbed/bin/pip install -q --no-cache-dir --no-index --no-build-isolation -e . && \\
    cp -r /testbed /root/my_repo && rm -rf /wheels
";

impl Library {
    /// Returns the name of the image, in the same form as in the benchmark's rows.
    pub fn image_name(&self) -> String {
        format!("proctor-test/featurebench-specs_{}-instance_{}", self.name, &self.sha256[..8])
    }

    /// Returns the folder that contains the unpacked sdist.
    pub fn source_folder(&self) -> PathBuf {
        let source = Source::Pypi {
            pypi: self.name.into(),
            version: self.version.into(),
            sha256: self.sha256.into(),
        };
        let sources = Sources::new(cache_folder().join("sources"));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(sources.fetch(&source, Path::new("."))).unwrap().folder
    }

    pub fn read_file(&self, path: &str) -> String {
        fs::read_to_string(self.source_folder().join(path)).unwrap()
    }

    /// Builds the image. Later calls are fast because of the engine's cache.
    pub fn build_image(&self) {
        let context = tempfile::tempdir().unwrap();
        let at = |name: &str| context.path().join(name);
        run_command(Command::new("cp").arg("-rL").arg(download_wheels()).arg(at("wheels")));
        run_command(Command::new("cp").arg("-r").arg(self.source_folder()).arg(at("source")));
        fs::write(at("Dockerfile"), DOCKERFILE).unwrap();
        let mut build = Command::new("docker");
        build
            .args(["build", "-q", "--network", "none", "-t", &self.image_name()])
            .arg(context.path());
        // Use the builder in the engine, because BuildKit is a plug-in that may be missing.
        run_command(build.env("DOCKER_BUILDKIT", "0"));
    }
}

/// Returns the folder with the wheels, which all tests share.
fn download_wheels() -> PathBuf {
    let folder = cache_folder().join("featurebench-wheels");
    if folder.is_dir() {
        return folder;
    }
    fs::create_dir_all(cache_folder()).unwrap();
    let place = tempfile::tempdir_in(cache_folder()).unwrap();
    let venv = place.path().join("venv");
    run_command(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&venv));
    let wheels = place.path().join("wheels");
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["download", "-q", "--no-deps", "--only-binary", ":all:", "-d"]).arg(&wheels);
    run_command(pip.args(WHEELS));
    // If this fails, another test has created the folder first.
    let _ = fs::rename(&wheels, &folder);
    folder
}

fn run_command(command: &mut Command) {
    let output = command.output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}\n{}\n{}",
        said(&output.stdout),
        said(&output.stderr)
    );
}
