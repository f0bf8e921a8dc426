//! Checks of search and snapshots.

use proctor_sandbox_api::{
    SandboxError,
    wire::{EntryKind, Match, RefusalKind, SearchRequest, SnapshotReply, SnapshotRequest},
};

use super::{
    CheckError,
    check::{Check, list},
    fixture::{Fixture, Outcome, check_failed, ensure, expect_success, raw_path},
};

pub fn checks() -> Vec<Check> {
    list![
        quick search_finds_lines,
        full search_respects_ignore_files,
        full search_lists_by_glob,
        full search_is_limited,
        full search_rejects_a_bad_pattern,
        quick first_snapshot_contains_the_whole_tree,
        quick snapshot_treats_a_lost_root_as_empty,
        full snapshot_of_no_change_is_empty,
        quick snapshot_contains_changes,
        full snapshot_detects_a_change_with_old_times,
        full snapshot_skips_named_folders,
        full snapshot_lists_large_files_without_content,
        full snapshot_truncates_a_tree_with_too_many_entries,
        full snapshot_of_thousands_of_files,
    ]
}

fn search_request(root: &str, pattern: Option<&str>, glob: Option<&str>) -> SearchRequest {
    SearchRequest {
        root: raw_path(root),
        pattern: pattern.map(str::to_owned),
        glob: glob.map(str::to_owned),
        ignore_case: false,
        honour_ignore: true,
        limit: 100,
    }
}

/// Returns the file names of the matches with line numbers. The paths are dropped, because they may
/// be absolute or relative to the root.
fn match_names(matches: &[Match]) -> Vec<(String, u64)> {
    let name = |text: String| text.rsplit('/').next().unwrap_or_default().to_owned();
    let mut out: Vec<_> = matches.iter().map(|m| (name(m.path.to_string()), m.line)).collect();
    out.sort();
    out
}

fn to_owned_matches(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|(name, line)| ((*name).to_owned(), *line)).collect()
}

async fn search_finds_lines(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let make = format!("cd {folder}; printf 'x\\nNeedle 1\\n' > a; mkdir d; echo needle2 > d/b");
    expect_success(&fixture.run_shell(&make).await?)?;
    let (found, more) =
        fixture.handle.search(search_request(&folder, Some("eedle ?[0-9]"), None)).await?;
    ensure!(match_names(&found) == to_owned_matches(&[("a", 2), ("b", 1)]) && !more, "{found:?}");
    ensure!(found.iter().any(|m| m.text.trim_end() == "Needle 1"), "{found:?}");
    let (found, _) = fixture.handle.search(search_request(&folder, Some("needle"), None)).await?;
    ensure!(match_names(&found) == to_owned_matches(&[("b", 1)]), "{found:?}");
    let any_case =
        SearchRequest { ignore_case: true, ..search_request(&folder, Some("NEEDLE"), None) };
    let (found, _) = fixture.handle.search(any_case).await?;
    ensure!(found.len() == 2, "{found:?}");
    Ok(())
}

async fn search_respects_ignore_files(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let make = format!(
        "cd {folder}; echo '*.log' > .gitignore; echo other > .ignore; \
         for n in a.log other kept; do echo needle > $n; done"
    );
    expect_success(&fixture.run_shell(&make).await?)?;
    let honouring = search_request(&folder, Some("needle"), None);
    let (found, _) = fixture.handle.search(honouring.clone()).await?;
    ensure!(match_names(&found) == to_owned_matches(&[("kept", 1)]), "{found:?}");
    let all = SearchRequest { honour_ignore: false, ..honouring };
    let (found, _) = fixture.handle.search(all).await?;
    ensure!(found.len() == 3, "{found:?}");
    Ok(())
}

async fn search_lists_by_glob(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    expect_success(
        &fixture.run_shell(&format!("cd {folder}; mkdir d; touch a.py b.txt d/c.py")).await?,
    )?;
    let (found, _) = fixture.handle.search(search_request(&folder, None, Some("**/*.py"))).await?;
    ensure!(match_names(&found) == to_owned_matches(&[("a.py", 0), ("c.py", 0)]), "{found:?}");
    Ok(())
}

async fn search_is_limited(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    expect_success(&fixture.run_shell(&format!("seq 1 1000 > {folder}/f")).await?)?;
    let few = SearchRequest { limit: 10, ..search_request(&folder, Some("."), None) };
    let (found, more) = fixture.handle.search(few).await?;
    ensure!(found.len() == 10 && more, "{} and more: {more}", found.len());
    Ok(())
}

async fn search_rejects_a_bad_pattern(fixture: &Fixture<'_>) -> Outcome {
    match fixture.handle.search(search_request("/tmp", Some("("), None)).await {
        Err(SandboxError::Refused(refusal)) if refusal.why == RefusalKind::BadRequest => Ok(()),
        other => Err(check_failed(format!("{other:?}"))),
    }
}

fn snapshot_request(root: &str) -> SnapshotRequest {
    SnapshotRequest {
        root: raw_path(root),
        fresh: false,
        skip: vec![raw_path(".git")],
        file_limit: 10 << 20,
        entry_limit: 100_000,
        content_limit: 0,
    }
}

async fn take_snapshot(fixture: &Fixture<'_>, root: &str) -> Result<SnapshotReply, CheckError> {
    Ok(fixture.handle.snapshot(snapshot_request(root)).await?.0)
}

fn changed_names(reply: &SnapshotReply) -> String {
    let changed: Vec<_> = reply.changed.iter().map(|entry| entry.path.to_string()).collect();
    let removed: Vec<_> = reply.removed.iter().map(|path| format!("-{path}")).collect();
    [changed, removed].concat().join(" ")
}

/// Returns the changed paths without directories.
fn changed_files(reply: &SnapshotReply) -> Vec<String> {
    let files = reply.changed.iter().filter(|entry| entry.kind != EntryKind::Dir);
    files.map(|entry| entry.path.to_string()).collect()
}

/// If the root directory of a snapshot was removed or replaced, the snapshot must be empty.
/// Otherwise, a single command could prevent a trial from being scored, or submit other files in
/// the sandbox.
async fn snapshot_treats_a_lost_root_as_empty(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    expect_success(
        &fixture.run_shell(&format!("mkdir {folder}/root; echo one > {folder}/root/a")).await?,
    )?;
    let root = format!("{folder}/root");
    take_snapshot(fixture, &root).await?;
    for line in [
        "rm -rf root",
        "rm -rf root; touch root",
        "rm -rf root; mkfifo root",
        "rm -rf root; ln -s root root",
        "rm -rf root; ln -s /etc root",
        "rm -rf root; ln -s / root",
        "mv root other",
    ] {
        expect_success(&fixture.run_shell(&format!("cd {folder} && {line}")).await?)?;
        let lost = changed_names(&take_snapshot(fixture, &root).await?);
        ensure!(lost == "-a", "{line}: {lost:?}");
        let back = "rm -rf root other; mkdir root; echo one > root/a";
        expect_success(&fixture.run_shell(&format!("cd {folder} && {back}")).await?)?;
        let found = changed_names(&take_snapshot(fixture, &root).await?);
        ensure!(found == "a", "after {line}: {found:?}");
    }
    expect_success(
        &fixture.run_shell(&format!("cd {folder} && mv root moved && ln -s moved root")).await?,
    )?;
    let first = format!("{folder}/first");
    expect_success(&fixture.run_shell(&format!("cd {folder} && ln -s moved first")).await?)?;
    let led = changed_names(&take_snapshot(fixture, &first).await?);
    ensure!(led == "a", "a root that was already a link at the first snapshot: {led:?}");
    match take_snapshot(fixture, &format!("{folder}/never")).await {
        Err(_) => Ok(()),
        Ok(reply) => {
            Err(check_failed(format!("a root that never existed: {}", changed_names(&reply))))
        }
    }
}

async fn first_snapshot_contains_the_whole_tree(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let make = format!(
        "cd {folder}; mkdir d; echo one > a; echo one > d/same; touch empty; ln -s a l; \
         chmod 755 a; printf '\\377' > d/raw"
    );
    expect_success(&fixture.run_shell(&make).await?)?;
    let (reply, blobs) = fixture.handle.snapshot(snapshot_request(&folder)).await?;
    let seen = changed_files(&reply);
    ensure!(seen == ["a", "d/raw", "d/same", "empty", "l"], "{seen:?}");
    let entry = |name: &str| {
        let found = reply.changed.iter().find(|entry| entry.path == raw_path(name));
        found.ok_or_else(|| check_failed(format!("no {name}")))
    };
    ensure!(entry("a")?.mode & 0o777 == 0o755 && entry("a")?.size == 4, "{:?}", entry("a")?);
    ensure!(entry("a")?.hash == entry("d/same")?.hash, "equal contents have different hashes");
    ensure!(entry("l")?.link == Some(raw_path("a")), "{:?}", entry("l")?);
    let content = |name: &str| {
        let hash = entry(name)?.hash.clone().unwrap_or_default();
        let found = blobs.iter().find(|(own, _)| *own == hash).map(|(_, bytes)| bytes.clone());
        found.ok_or_else(|| check_failed(format!("no content of {name}")))
    };
    ensure!(
        content("a")? == b"one\n" && content("d/raw")? == b"\xff",
        "the captured contents are wrong"
    );
    let copies = blobs.iter().filter(|(_, bytes)| bytes == b"one\n").count();
    ensure!(copies == 1, "the same content was sent {copies} times");
    Ok(())
}

async fn snapshot_of_no_change_is_empty(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    expect_success(
        &fixture.run_shell(&format!("cd {folder}; mkdir d; echo x > d/f; echo y > g")).await?,
    )?;
    take_snapshot(fixture, &folder).await?;
    let (second, blobs) = fixture.handle.snapshot(snapshot_request(&folder)).await?;
    ensure!(changed_names(&second).is_empty() && blobs.is_empty(), "{:?}", changed_names(&second));
    Ok(())
}

async fn snapshot_contains_changes(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let make = format!(
        "cd {folder}; mkdir d gone; for n in change mode keep d/drop gone/f turn; do echo 1 > $n; \
         done; ln -s a l"
    );
    expect_success(&fixture.run_shell(&make).await?)?;
    take_snapshot(fixture, &folder).await?;
    let change = format!(
        "cd {folder}; echo 2 > change; chmod 600 mode; rm d/drop; rm -r gone; ln -sfn b l; \
         echo 1 > new; rm turn; mkdir turn; touch turn/f"
    );
    expect_success(&fixture.run_shell(&change).await?)?;
    let (reply, blobs) = fixture.handle.snapshot(snapshot_request(&folder)).await?;
    let seen = changed_files(&reply);
    ensure!(seen == ["change", "l", "mode", "new", "turn/f"], "{}", changed_names(&reply));
    let removed: Vec<_> = reply.removed.iter().map(ToString::to_string).collect();
    ensure!(removed.iter().any(|name| name == "d/drop"), "{removed:?}");
    ensure!(removed.iter().any(|name| name == "gone/f" || name == "gone"), "{removed:?}");
    ensure!(!removed.iter().any(|name| name == "keep"), "{removed:?}");
    let again = blobs.iter().any(|(_, bytes)| bytes == b"1\n");
    ensure!(!again, "known content was sent again");
    let third = take_snapshot(fixture, &folder).await?;
    ensure!(changed_names(&third).is_empty(), "{}", changed_names(&third));
    Ok(())
}

async fn snapshot_detects_a_change_with_old_times(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    expect_success(
        &fixture.run_shell(&format!("cd {folder}; echo aaaa > f; touch -d 2020-01-01 f")).await?,
    )?;
    take_snapshot(fixture, &folder).await?;
    let change =
        format!("cd {folder}; printf 'bbbb\\n' | dd of=f conv=notrunc; touch -d 2020-01-01 f");
    expect_success(&fixture.run_shell(&change).await?)?;
    let reply = take_snapshot(fixture, &folder).await?;
    ensure!(changed_names(&reply) == "f", "{:?}", changed_names(&reply));
    Ok(())
}

async fn snapshot_skips_named_folders(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let make = format!("cd {folder}; mkdir -p .git sub/.git; touch .git/a sub/.git/b sub/c");
    expect_success(&fixture.run_shell(&make).await?)?;
    let reply = take_snapshot(fixture, &folder).await?;
    let inside = reply.changed.iter().any(|entry| entry.path.to_string().contains(".git/"));
    ensure!(!inside, "{}", changed_names(&reply));
    Ok(())
}

async fn snapshot_lists_large_files_without_content(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    expect_success(&fixture.run_shell(&format!("head -c 5000 /dev/zero > {folder}/large")).await?)?;
    let small = SnapshotRequest { file_limit: 4999, ..snapshot_request(&folder) };
    let (reply, blobs) = fixture.handle.snapshot(small).await?;
    let entry = reply.changed.iter().find(|entry| entry.path == raw_path("large"));
    let listed = entry.is_some_and(|entry| entry.hash.is_none() && entry.size == 5000);
    ensure!(listed && blobs.is_empty(), "{entry:?}");
    Ok(())
}

/// The snapshot is truncated and not rejected, because the trial would lose its work if it were
/// rejected. Known entries stay known, entries within the limit are captured, and directories that
/// are not walked are reported.
async fn snapshot_truncates_a_tree_with_too_many_entries(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let make = "mkdir src; echo 1 > src/work; echo 1 > src/kept";
    expect_success(&fixture.run_shell(&format!("cd {folder}; {make}")).await?)?;
    let few = || SnapshotRequest { entry_limit: 20, ..snapshot_request(&folder) };
    fixture.handle.snapshot(few()).await?;
    let heap = "mkdir a z; touch a/$(seq -s ' a/' 1 15) z/$(seq -s ' z/' 1 9) z/x z/y; \
                echo 2 > src/work";
    expect_success(&fixture.run_shell(&format!("cd {folder}; {heap}")).await?)?;
    let (cut, _) = fixture.handle.snapshot(few()).await?;
    ensure!(
        changed_names(&cut).split(' ').any(|name| name == "src/work"),
        "{}",
        changed_names(&cut)
    );
    ensure!(cut.removed.is_empty(), "{}", changed_names(&cut));
    ensure!(cut.unwalked.contains(&raw_path("a")), "{:?}", cut.unwalked);
    ensure!(cut.entries <= 20, "{} entries", cut.entries);
    expect_success(&fixture.run_shell(&format!("cd {folder}; rm -r a z src/kept")).await?)?;
    let (whole, _) = fixture.handle.snapshot(few()).await?;
    ensure!(whole.unwalked.is_empty(), "{:?}", whole.unwalked);
    ensure!(whole.removed.contains(&raw_path("src/kept")), "{}", changed_names(&whole));
    Ok(())
}

async fn snapshot_of_thousands_of_files(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let long = "n".repeat(150);
    let make = format!("cd {folder}; for n in $(seq 1 5000); do echo $n of many > {long}$n; done");
    expect_success(&fixture.run_shell(&make).await?)?;
    let (reply, blobs) = fixture.handle.snapshot(snapshot_request(&folder)).await?;
    let files = reply.changed.iter().filter(|entry| entry.kind == EntryKind::File).count();
    ensure!(files == 5000 && blobs.len() == 5000, "{files} files, {} contents", blobs.len());
    ensure!(reply.changed.is_sorted_by(|a, b| a.path <= b.path), "not sorted");
    expect_success(&fixture.run_shell(&format!("rm -r {folder}")).await?)?;
    Ok(())
}
