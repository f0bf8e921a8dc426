//! Checks how the state outside a sandbox's work directory is captured.

use proctor_sandbox_api::{
    BlobSink, LayerState, SandboxHandle, SnapshotError,
    wire::{EntryKind, LayerDiff, LayerRequest},
};
use proctor_types::SandboxSpec;

use super::{
    CheckError,
    check::{Check, list},
    fixture::{Fixture, Outcome, check_failed, ensure, expect_success, raw_path, run_shell},
};

pub fn checks() -> Vec<Check> {
    list![
        full layer_contains_changes_outside_the_work_directory,
        full layer_reports_what_cannot_be_restored,
    ]
}

/// The file contents that were received, in order of arrival.
#[derive(Default)]
struct ContentSink(Vec<Vec<u8>>);

impl BlobSink for ContentSink {
    type Error = std::convert::Infallible;

    fn begin(&mut self, _: u64) -> Result<(), Self::Error> {
        self.0.push(Vec::new());
        Ok(())
    }

    fn write_chunk(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        if let Some(last) = self.0.last_mut() {
            last.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

async fn capture_layer(
    handle: &SandboxHandle,
    is_fresh: bool,
) -> Result<(LayerState, ContentSink), CheckError> {
    let request = LayerRequest {
        files_alone: false,
        fresh: is_fresh,
        workdir: raw_path("/work"),
        repositories: vec![raw_path("/work/.git")],
        listed: false,
        file_limit: 1 << 20,
        content_limit: 2 << 20,
        entry_limit: 10_000,
    };
    let mut contents = ContentSink::default();
    match handle.capture_layer(request, &mut contents).await {
        Ok(state) => Ok((state, contents)),
        Err(SnapshotError::Sandbox(error)) => Err(error.into()),
        Err(SnapshotError::Sink(never)) => match never {},
    }
}

async fn capture_changed_layer(
    handle: &SandboxHandle,
) -> Result<(LayerDiff, ContentSink), CheckError> {
    match capture_layer(handle, false).await? {
        (LayerState::Changed(layer), contents) => Ok((layer, contents)),
        (other, _) => Err(check_failed(format!("{other:?}"))),
    }
}

/// Returns the changed paths without directories, and the removed paths.
fn changed_and_removed_paths(layer: &LayerDiff) -> (Vec<String>, Vec<String>) {
    let files = layer.changed.iter().filter(|one| one.entry.kind != EntryKind::Dir);
    let changed = files.map(|one| one.entry.path.to_string()).collect();
    (changed, layer.removed.iter().map(ToString::to_string).collect())
}

async fn layer_contains_changes_outside_the_work_directory(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    let handle = sandbox.handle();
    let before = "mkdir -p /work/.git /tmp/there; echo a > /tmp/there/kept; echo b > /tmp/there/edited; \
                  echo c > /tmp/there/lost";
    expect_success(&run_shell(handle, before).await?)?;
    capture_layer(handle, true).await?;
    let (layer, _) = capture_changed_layer(handle).await?;
    ensure!(layer == LayerDiff::default(), "reported changes although nothing changed: {layer:?}");

    let line = "echo more >> /tmp/there/edited; rm /tmp/there/lost; echo new > /tmp/new; \
                ln -s new /tmp/link; echo memory > /dev/shm/state; echo in > /work/file; \
                echo ref > /work/.git/HEAD; mkdir /tmp/empty; chmod 750 /tmp/empty";
    expect_success(&run_shell(handle, line).await?)?;
    let (layer, contents) = capture_changed_layer(handle).await?;
    let (files, removed) = changed_and_removed_paths(&layer);
    let expected = ["dev/shm/state", "tmp/link", "tmp/new", "tmp/there/edited", "work/.git/HEAD"];
    ensure!(files == expected, "{files:?}");
    ensure!(removed.contains(&"tmp/there/lost".to_owned()), "{removed:?}");
    let folder = layer.changed.iter().find(|one| one.entry.path == raw_path("tmp/empty"));
    ensure!(folder.is_some_and(|one| one.entry.mode == 0o750), "{folder:?}");
    for content in [&b"b\nmore\n"[..], b"new\n", b"memory\n", b"ref\n"] {
        let count = contents.0.iter().filter(|one| *one == content).count();
        ensure!(count == 1, "{:?} was sent {count} times", String::from_utf8_lossy(content));
    }
    let (again, contents) = capture_layer(handle, false).await?;
    ensure!(again == LayerState::Unchanged && contents.0.is_empty(), "{again:?}");
    sandbox.close().await?;
    Ok(())
}

async fn layer_reports_what_cannot_be_restored(fixture: &Fixture<'_>) -> Outcome {
    let mut sandbox = fixture.open(SandboxSpec::default()).await?;
    let handle = sandbox.handle();
    capture_layer(handle, true).await?;
    for (line, undo, why) in [
        ("mkfifo /tmp/pipe", "rm /tmp/pipe", "/tmp/pipe is a socket, a pipe or a device"),
        ("head -c 1100000 /dev/zero > /tmp/large", "rm /tmp/large", "/tmp/large is larger"),
        (
            "for n in 1 2 3; do head -c 1000000 /dev/zero > /tmp/$n; done",
            "rm /tmp/[123]",
            "files outside the work directory exceed 2 MiB",
        ),
        ("setsid sleep 77 > /dev/null 2>&1 & sleep 0.5", "", "agent processes were still running"),
    ] {
        expect_success(&run_shell(handle, line).await?)?;
        match capture_layer(handle, false).await?.0 {
            LayerState::Unrestorable(told) if told.contains(why) => {}
            other => return Err(check_failed(format!("{line}: {other:?}"))),
        }
        expect_success(&run_shell(handle, undo).await?)?;
    }
    sandbox.close().await?;
    Ok(())
}
