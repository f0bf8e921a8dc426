//! The set-up lines of an environment.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use proctor_sandbox_api::{Base, Command, Completed, LayerSpec, SandboxHandle, host_base};
use proctor_types::{Fault, Layer};
use proctor_wire::Bind;

use crate::base::raw;

/// Characters of a failed line's output that a fault quotes.
const QUOTED: usize = 4_000;

/// What the machine itself lends to a set-up: settings of its registries, certificates, names. It is
/// shown by views that end with the set-up, so that none of it stays in the layer.
pub(crate) fn lent(folder: &Path, base: &Base) -> io::Result<Vec<Bind>> {
    fs::create_dir_all(folder)?;
    let mut binds = Vec::new();
    for (index, (to, bytes)) in host_base::setup_files().into_iter().enumerate() {
        let from = folder.join(index.to_string());
        fs::write(&from, bytes)?;
        binds.push(Bind { from: raw(&from), to: raw(&to) });
    }
    if !matches!(base, Base::Host) {
        // A host base shows it already, where it is below `/opt`.
        let wheels = std::env::var("PIP_FIND_LINKS").map(PathBuf::from);
        if let Ok(wheels) = wheels
            && wheels.is_absolute()
            && wheels.is_dir()
        {
            binds.push(Bind { from: raw(&wheels), to: raw(&wheels) });
        }
    }
    Ok(binds)
}

/// Removes the empty files that views needed to stand on, from a layer's own tree.
pub(crate) fn sweep_mount_points(tree: &Path, binds: &[Bind]) -> io::Result<()> {
    for bind in binds {
        let Ok(inner) = std::str::from_utf8(bind.to.as_bytes()) else { continue };
        let path = tree.join(inner.trim_start_matches('/'));
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() && found.len() == 0 => fs::remove_file(&path)?,
            Ok(found) if found.is_dir() => {
                // Only where it is empty.
                let _ = fs::remove_dir(&path);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Runs the lines in order; the first that fails ends it.
pub(crate) async fn run(handle: &SandboxHandle, spec: &LayerSpec) -> Result<(), Fault> {
    let started = Instant::now();
    for (index, line) in spec.setup.iter().enumerate() {
        let number = index + 1;
        let left = spec.time_limit.saturating_sub(started.elapsed()).max(Duration::from_millis(1));
        let mut command = Command::shell(line).cwd(spec.workdir.clone()).time_limit(left);
        for (key, value) in host_base::setup_env().iter().chain(&spec.env) {
            command = command.env(key, value.as_str());
        }
        tracing::debug!(number, line, "set-up");
        let done = handle.run(command).await.map_err(|error| {
            Fault::new(Layer::Environment, format!("set-up line {number} (`{line}`): {error}"))
        })?;
        if !done.success() {
            return Err(failed(number, line, &done));
        }
    }
    Ok(())
}

fn failed(number: usize, line: &str, done: &Completed) -> Fault {
    let how = if done.exited.timed_out {
        "ran out of time".to_owned()
    } else {
        match (done.exited.code, done.exited.signal) {
            (Some(code), _) => format!("ended with exit status {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "did not end by itself".to_owned(),
        }
    };
    let output = [&done.stdout, &done.stderr].map(|stream| {
        let bytes = if stream.is_whole() { &stream.head } else { &stream.tail };
        String::from_utf8_lossy(bytes).into_owned()
    });
    let output = output.concat();
    let skipped = output.chars().count().saturating_sub(QUOTED);
    let tail: String = output.chars().skip(skipped).collect();
    let fault = Fault::new(
        Layer::Environment,
        format!("set-up line {number} (`{line}`) {how}:\n{}", tail.trim_end()),
    );
    if tail.contains("ensurepip is not available") || tail.contains("No module named ensurepip") {
        return fault.hint("install the distribution's python3-venv package, or use an image");
    }
    fault
}
