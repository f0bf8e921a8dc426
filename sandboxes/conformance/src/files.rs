//! Checks of files, directories and links.

use std::time::Duration;

use proctor_sandbox_api::{
    Command, SandboxError,
    wire::{EntryKind, RawPath, RefusalKind},
};

use super::{
    CheckError,
    check::{Check, list},
    fixture::{Fixture, Outcome, check_failed, ensure, expect_success, raw_path},
};

pub fn checks() -> Vec<Check> {
    list![
        quick file_is_read_back,
        full large_file_is_read_back,
        full empty_file_is_a_file,
        full missing_file_is_rejected,
        full folder_is_not_read_as_a_file,
        full file_over_the_limit_is_rejected,
        full reading_a_pipe_does_not_block,
        full circular_links_are_rejected,
        full parents_are_created,
        full write_as_sets_the_owner_of_new_files_and_folders,
        full modes_are_set_and_kept,
        full writing_is_atomic,
        full append_keeps_existing_content,
        full odd_names_are_bytes,
        full list_is_sorted,
        full stat_and_list_do_not_follow_links,
        quick write_beneath_stays_beneath,
        full write_beneath_never_follows_a_link_outside,
        full symlink_beneath_stays_beneath,
        full remove_deletes_a_tree_but_no_link_target,
    ]
}

fn expect_refusal<T>(result: Result<T, SandboxError>, kinds: &[RefusalKind]) -> Outcome {
    match result {
        Err(SandboxError::Refused(refusal)) if kinds.contains(&refusal.why) => Ok(()),
        Err(other) => Err(check_failed(format!(
            "expected an error of one of the kinds {kinds:?}, but got {other:?}"
        ))),
        Ok(_) => Err(check_failed(format!("not rejected as {kinds:?}: the request succeeded"))),
    }
}

async fn file_is_read_back(fixture: &Fixture<'_>) -> Outcome {
    let file = raw_path(&format!("{}/f", fixture.create_folder().await?));
    let bytes = b"caf\xc3\xa9 \xff\0\r\nno newline at the end";
    fixture.handle.write(&file, bytes, None).await?;
    let back = fixture.handle.read(&file, 1 << 20).await?;
    ensure!(back == bytes, "{back:?}");
    let done = fixture.handle.run(Command::new([raw_path("cat"), file])).await?;
    ensure!(done.stdout.head == bytes, "{:?}", done.stdout.head);
    Ok(())
}

async fn write_as_sets_the_owner_of_new_files_and_folders(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("other users")?;
    let folder = fixture.create_folder().await?;
    expect_success(
        &fixture.run_shell(&format!("chmod 755 {folder}; echo old > {folder}/old")).await?,
    )?;
    let owner = Some("65534:65534");
    for name in ["new/inner/file", "old"] {
        let file = raw_path(&format!("{folder}/{name}"));
        fixture.handle.write_as(&file, b"x\n", None, owner).await?;
    }
    let line = format!("cd {folder}; ls -ldn new new/inner new/inner/file old | tr -s ' '");
    let listed = expect_success(&fixture.run_shell(&line).await?)?;
    let owners: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    ensure!(owners == ["65534", "65534", "65534", "0"], "{listed}");
    Ok(())
}

async fn large_file_is_read_back(fixture: &Fixture<'_>) -> Outcome {
    let file = raw_path(&format!("{}/f", fixture.create_folder().await?));
    let bytes: Vec<u8> = (0..20_000_000u32).map(|n| (n / 11) as u8).collect();
    fixture.handle.write(&file, &bytes, None).await?;
    ensure!(fixture.handle.read(&file, 1 << 26).await? == bytes, "different bytes were read back");
    fixture.handle.remove(&file).await?;
    Ok(())
}

async fn empty_file_is_a_file(fixture: &Fixture<'_>) -> Outcome {
    let file = raw_path(&format!("{}/f", fixture.create_folder().await?));
    fixture.handle.write(&file, b"something", None).await?;
    fixture.handle.write(&file, b"", None).await?;
    ensure!(fixture.handle.read(&file, 0).await?.is_empty(), "the file is not empty");
    Ok(())
}

async fn missing_file_is_rejected(fixture: &Fixture<'_>) -> Outcome {
    expect_refusal(
        fixture.handle.read(&raw_path("/no/such/file"), 10).await,
        &[RefusalKind::NotFound],
    )?;
    expect_refusal(
        fixture.handle.list(&raw_path("/no/such/folder")).await,
        &[RefusalKind::NotFound],
    )
}

async fn folder_is_not_read_as_a_file(fixture: &Fixture<'_>) -> Outcome {
    expect_refusal(fixture.handle.read(&raw_path("/tmp"), 10).await, &[RefusalKind::IsADirectory])?;
    expect_refusal(fixture.handle.list(&raw_path("/bin/sh")).await, &[RefusalKind::NotADirectory])
}

async fn file_over_the_limit_is_rejected(fixture: &Fixture<'_>) -> Outcome {
    let file = raw_path(&format!("{}/f", fixture.create_folder().await?));
    fixture.handle.write(&file, &[b'x'; 101], None).await?;
    expect_refusal(fixture.handle.read(&file, 100).await, &[RefusalKind::TooLarge])?;
    ensure!(
        fixture.handle.read(&file, 101).await?.len() == 101,
        "a file whose size equals the limit is rejected"
    );
    Ok(())
}

async fn reading_a_pipe_does_not_block(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    expect_success(&fixture.run_shell(&format!("mkfifo {folder}/p")).await?)?;
    let pipe = raw_path(&format!("{folder}/p"));
    let read = tokio::time::timeout(Duration::from_secs(5), fixture.handle.read(&pipe, 10)).await;
    let read = read.map_err(|_| check_failed("reading a pipe hangs"))?;
    ensure!(matches!(read, Err(SandboxError::Refused(_))), "{read:?}");
    Ok(())
}

async fn circular_links_are_rejected(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    expect_success(&fixture.run_shell(&format!("ln -s b {folder}/a; ln -s a {folder}/b")).await?)?;
    let read = fixture.handle.read(&raw_path(&format!("{folder}/a")), 10).await;
    ensure!(matches!(read, Err(SandboxError::Refused(_))), "{read:?}");
    Ok(())
}

async fn parents_are_created(fixture: &Fixture<'_>) -> Outcome {
    let file = raw_path(&format!("{}/a/b/c/d", fixture.create_folder().await?));
    fixture.handle.write(&file, b"deep", None).await?;
    ensure!(fixture.handle.read(&file, 10).await? == b"deep", "the file is not there");
    Ok(())
}

async fn modes_are_set_and_kept(fixture: &Fixture<'_>) -> Outcome {
    let file = raw_path(&format!("{}/f", fixture.create_folder().await?));
    for (asked, expected) in
        [(None, 0o644), (Some(0o751), 0o751), (None, 0o751), (Some(0o400), 0o400)]
    {
        fixture.handle.write(&file, b"#!/bin/sh\n", asked).await?;
        let found = fixture
            .handle
            .stat(&file)
            .await?
            .ok_or_else(|| check_failed("the file is not there"))?;
        ensure!(found.mode & 0o7777 == expected, "mode {asked:?} resulted in {:o}", found.mode);
    }
    Ok(())
}

async fn writing_is_atomic(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let file = raw_path(&format!("{folder}/f"));
    let (small, large) = (vec![b'a'; 1000], vec![b'b'; 2_000_000]);
    fixture.handle.write(&file, &small, None).await?;
    let line = format!(
        "for n in $(seq 300); do wc -c < {folder}/f || echo gone; done | sort -u; ls -A {folder}"
    );
    let watching = fixture.run_shell(&line);
    let writing = async {
        for turn in 0..12 {
            fixture.handle.write(&file, if turn % 2 == 0 { &large } else { &small }, None).await?;
        }
        Ok::<(), CheckError>(())
    };
    let (seen, written) = tokio::join!(watching, writing);
    written?;
    let seen = expect_success(&seen?)?;
    let torn = seen.lines().take_while(|line| *line != "f").any(|line| {
        // The listing may include the temporary file of a write in progress.
        line.parse::<usize>().is_ok_and(|size| size != small.len() && size != large.len())
            || line == "gone"
    });
    ensure!(!torn, "{seen:?}");
    let left = expect_success(&fixture.run_shell(&format!("ls -A {folder}")).await?)?;
    ensure!(left == "f\n", "left: {left:?}");
    Ok(())
}

async fn append_keeps_existing_content(fixture: &Fixture<'_>) -> Outcome {
    let file = raw_path(&format!("{}/f", fixture.create_folder().await?));
    fixture.handle.append(&file, b"one\n").await?;
    fixture.handle.append(&file, b"two\n").await?;
    ensure!(
        fixture.handle.read(&file, 100).await? == b"one\ntwo\n",
        "the file does not contain both lines"
    );
    Ok(())
}

async fn odd_names_are_bytes(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let names = [&b"\xff\xfe"[..], b" a b ", b"new\nline", b"%41", "漢é".as_bytes()];
    for name in names {
        let file = RawPath::new([folder.as_bytes(), b"/", name].concat());
        fixture.handle.write(&file, name, None).await?;
        ensure!(fixture.handle.read(&file, 100).await? == name, "{file}");
    }
    let mut listed: Vec<_> = fixture
        .handle
        .list(&raw_path(&folder))
        .await?
        .into_iter()
        .map(|entry| entry.name.0)
        .collect();
    let mut expected: Vec<_> = names.iter().map(|name| name.to_vec()).collect();
    expected.sort();
    listed.sort();
    ensure!(listed == expected, "{listed:?}");
    Ok(())
}

async fn list_is_sorted(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let make = format!("cd {folder}; mkdir c; echo hi > b; ln -s nowhere a; mkfifo d; touch .e");
    expect_success(&fixture.run_shell(&make).await?)?;
    let entries = fixture.handle.list(&raw_path(&folder)).await?;
    let seen: Vec<_> = entries.iter().map(|entry| (entry.name.to_string(), entry.kind)).collect();
    let expected = [
        (".e", EntryKind::File),
        ("a", EntryKind::Link),
        ("b", EntryKind::File),
        ("c", EntryKind::Dir),
        ("d", EntryKind::Other),
    ]
    .map(|(name, kind)| (name.to_owned(), kind));
    ensure!(seen == expected, "{seen:?}");
    ensure!(entries[1].link == Some(raw_path("nowhere")), "{:?}", entries[1]);
    ensure!(entries[2].size == 3, "{:?}", entries[2]);
    Ok(())
}

async fn stat_and_list_do_not_follow_links(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    expect_success(&fixture.run_shell(&format!("ln -s /bin/sh {folder}/l")).await?)?;
    let found = fixture.handle.stat(&raw_path(&format!("{folder}/l"))).await?;
    let link = found.is_some_and(|entry| entry.link == Some(raw_path("/bin/sh")));
    ensure!(link, "the link was followed");
    let none = fixture.handle.stat(&raw_path(&format!("{folder}/none"))).await?;
    ensure!(none.is_none(), "{none:?}");
    Ok(())
}

async fn write_beneath_stays_beneath(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let root = raw_path(&format!("{folder}/root"));
    expect_success(&fixture.run_shell(&format!("mkdir {folder}/root")).await?)?;
    fixture.handle.write_beneath(&root, &raw_path("a/b"), b"in", None).await?;
    ensure!(
        fixture.handle.read(&raw_path(&format!("{folder}/root/a/b")), 10).await? == b"in",
        "the file is not there"
    );
    for bad in ["../out", "a/../../out", "a/b/../../../out"] {
        let wrote = fixture.handle.write_beneath(&root, &raw_path(bad), b"out", None).await;
        expect_refusal(
            wrote,
            &[RefusalKind::Outside, RefusalKind::BadRequest, RefusalKind::NotADirectory],
        )?;
    }
    let out = fixture.handle.stat(&raw_path(&format!("{folder}/out"))).await?;
    ensure!(out.is_none(), "{out:?}");
    Ok(())
}

async fn write_beneath_never_follows_a_link_outside(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let make = format!(
        "cd {folder}; mkdir root out; echo kept > out/f; ln -s ../out root/dir; \
         ln -s {folder}/out root/abs; ln -s ../out/f root/file; ln -s / root/top"
    );
    expect_success(&fixture.run_shell(&make).await?)?;
    let root = raw_path(&format!("{folder}/root"));
    for bad in ["dir/f", "abs/f", "dir/new", "top/tmp/kit-escape"] {
        let wrote = fixture.handle.write_beneath(&root, &raw_path(bad), b"escaped", None).await;
        ensure!(matches!(wrote, Err(SandboxError::Refused(_))), "{bad}: {wrote:?}");
    }
    // A link in the last component may be replaced or rejected, but must never be followed.
    let _ = fixture.handle.write_beneath(&root, &raw_path("file"), b"escaped", None).await;
    let kept =
        expect_success(&fixture.run_shell(&format!("cat {folder}/out/f; ls {folder}/out")).await?)?;
    ensure!(kept == "kept\nf\n", "{kept:?}");
    let escaped = fixture.handle.stat(&raw_path("/tmp/kit-escape")).await?;
    ensure!(escaped.is_none(), "{escaped:?}");
    Ok(())
}

async fn symlink_beneath_stays_beneath(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    expect_success(
        &fixture.run_shell(&format!("mkdir {folder}/root; ln -s .. {folder}/root/up")).await?,
    )?;
    let root = raw_path(&format!("{folder}/root"));
    fixture.handle.symlink_beneath(&root, &raw_path("l"), &raw_path("../anywhere")).await?;
    let found = fixture.handle.stat(&raw_path(&format!("{folder}/root/l"))).await?;
    let link = found.and_then(|entry| entry.link);
    ensure!(link == Some(raw_path("../anywhere")), "{link:?}");
    for bad in ["../l", "up/l"] {
        let made = fixture.handle.symlink_beneath(&root, &raw_path(bad), &raw_path("x")).await;
        ensure!(matches!(made, Err(SandboxError::Refused(_))), "{bad}: {made:?}");
    }
    Ok(())
}

async fn remove_deletes_a_tree_but_no_link_target(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let make = format!(
        "cd {folder}; mkdir -p tree/a/b kept; echo x > tree/a/b/f; echo k > kept/f; \
         ln -s ../kept tree/link; chmod 0 tree/a/b"
    );
    expect_success(&fixture.run_shell(&make).await?)?;
    fixture.handle.remove(&raw_path(&format!("{folder}/tree"))).await?;
    fixture.handle.remove(&raw_path(&format!("{folder}/tree"))).await?;
    let left = expect_success(&fixture.run_shell(&format!("cd {folder}; ls; ls kept")).await?)?;
    ensure!(left == "kept\nf\n", "{left:?}");
    Ok(())
}
