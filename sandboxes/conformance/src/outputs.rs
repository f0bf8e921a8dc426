//! Checks that a command's output arrives unchanged.

use proctor_sandbox_api::Command;

use super::{
    check::{Check, list},
    fixture::{Fixture, Outcome, ensure, expect_success},
};

pub fn checks() -> Vec<Check> {
    list![
        quick output_is_utf8,
        full output_is_raw_bytes,
        full output_may_be_empty,
        full output_streams_are_separate,
        full output_past_the_cap_is_spilled,
        full output_of_many_megabytes_is_counted,
        quick results_pipe_is_a_separate_stream,
        full results_pipe_is_only_open_on_request,
        full closed_results_pipe_stays_closed,
        full results_pipe_ends_with_its_command,
        full no_descriptor_leaks_in,
    ]
}

async fn output_is_utf8(fixture: &Fixture<'_>) -> Outcome {
    let done = fixture.run_shell("printf 'h\\303\\244\\303\\237 \\346\\274\\242\\n'").await?;
    ensure!(expect_success(&done)? == "häß 漢\n", "{:?}", done.stdout.text());
    Ok(())
}

async fn output_is_raw_bytes(fixture: &Fixture<'_>) -> Outcome {
    let done = fixture.run_shell("printf '\\377\\376\\000x\\r\\n'").await?;
    ensure!(done.stdout.head == b"\xff\xfe\0x\r\n", "{:?}", done.stdout.head);
    Ok(())
}

async fn output_may_be_empty(fixture: &Fixture<'_>) -> Outcome {
    let done = fixture.run_shell("true").await?;
    ensure!(
        done.success() && done.stdout.total_bytes == 0 && done.stderr.total_bytes == 0,
        "{done:?}"
    );
    Ok(())
}

async fn output_streams_are_separate(fixture: &Fixture<'_>) -> Outcome {
    let done = fixture.run_shell("echo out; echo err >&2; echo out2").await?;
    let (out, err) = (done.stdout.text(), done.stderr.text());
    ensure!(out == "out\nout2\n" && err == "err\n", "{out:?} {err:?}");
    Ok(())
}

async fn output_past_the_cap_is_spilled(fixture: &Fixture<'_>) -> Outcome {
    let name = format!("proctor-kit-{}-{:p}", std::process::id(), fixture);
    let spill = std::env::temp_dir().join(name);
    let mut command = Command::shell("seq 1 200000; echo the end");
    command.head_cap = 1000;
    command.spill_base = Some(spill);
    let done = fixture.handle.run(command).await?;
    let Some(file) = &done.stdout.spill_file else {
        return Err(super::fixture::check_failed("no spill file"));
    };
    let whole = std::fs::read(file).unwrap_or_default();
    let _ = std::fs::remove_file(file);
    ensure!(
        whole.len() as u64 == done.stdout.total_bytes,
        "the spill file has {} bytes",
        whole.len()
    );
    ensure!(whole.starts_with(&done.stdout.head), "the captured head is not the start of the file");
    ensure!(done.stdout.head.len() == 1000, "the head has {} bytes", done.stdout.head.len());
    ensure!(done.stdout.tail.ends_with(b"200000\nthe end\n"), "the captured tail is wrong");
    ensure!(done.stderr.spill_file.is_none(), "an empty stream was spilled");
    Ok(())
}

async fn output_of_many_megabytes_is_counted(fixture: &Fixture<'_>) -> Outcome {
    let done =
        fixture.run_shell("head -c 40000000 /dev/zero; head -c 3000000 /dev/zero >&2").await?;
    ensure!(done.stdout.total_bytes == 40_000_000, "{} bytes", done.stdout.total_bytes);
    ensure!(done.stderr.total_bytes == 3_000_000, "{} bytes", done.stderr.total_bytes);
    ensure!(done.stdout.head.len() == 1 << 20, "the head has {} bytes", done.stdout.head.len());
    Ok(())
}

async fn results_pipe_is_a_separate_stream(fixture: &Fixture<'_>) -> Outcome {
    let mut command = Command::shell("echo said; echo result >&3");
    command.has_results_pipe = true;
    let done = fixture.handle.run(command).await?;
    ensure!(done.results == b"result\n", "{:?}", done.results);
    ensure!(done.stdout.text() == "said\n", "{:?}", done.stdout.text());
    Ok(())
}

async fn results_pipe_is_only_open_on_request(fixture: &Fixture<'_>) -> Outcome {
    let done = fixture.run_shell("(echo forged >&3) 2>/dev/null && echo wrote; true").await?;
    ensure!(expect_success(&done)?.is_empty() && done.results.is_empty(), "{done:?}");
    Ok(())
}

async fn closed_results_pipe_stays_closed(fixture: &Fixture<'_>) -> Outcome {
    // The parent keeps the pipe open. A child that was started without the pipe cannot reopen it,
    // not even through /proc.
    let inner = "(echo forged >&3) 2>/dev/null; (echo forged >/proc/self/fd/3) 2>/dev/null; \
                 (echo forged >/proc/1/fd/3) 2>/dev/null; true";
    let mut command = Command::shell(&format!("echo true >&3; sh -c '{inner}' 3>&-"));
    command.has_results_pipe = true;
    let done = fixture.handle.run(command).await?;
    ensure!(done.results == b"true\n", "{:?}", String::from_utf8_lossy(&done.results));
    Ok(())
}

async fn results_pipe_ends_with_its_command(fixture: &Fixture<'_>) -> Outcome {
    let mut command = Command::shell("(trap '' TERM HUP; sleep 1; echo late >&3) & echo early >&3");
    command.has_results_pipe = true;
    let done = fixture.handle.run(command).await?;
    ensure!(done.results == b"early\n", "{:?}", String::from_utf8_lossy(&done.results));
    Ok(())
}

async fn no_descriptor_leaks_in(fixture: &Fixture<'_>) -> Outcome {
    let line = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))";
    let done = fixture.handle.run(Command::new(["python3", "-c", line])).await?;
    // The three standard streams, and the descriptor that `listdir` itself opens.
    ensure!(expect_success(&done)? == "[0, 1, 2, 3]\n", "{:?}", done.stdout.text());
    Ok(())
}
