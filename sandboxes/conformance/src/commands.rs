//! Checks of a command's arguments, environment, input and exit status.

use std::collections::BTreeMap;

use proctor_sandbox_api::{
    Command, CommandEvent, SandboxError,
    wire::{RawPath, RefusalKind},
};

use super::{
    check::{Check, list},
    fixture::{Fixture, Outcome, check_failed, ensure, expect_success},
};

pub fn checks() -> Vec<Check> {
    list![
        quick exit_codes_are_kept,
        full signals_are_named,
        full missing_program_is_127,
        full unexecutable_file_is_126,
        full arguments_are_bytes,
        full long_argument_arrives,
        quick environment_is_exact,
        full environment_is_bytes,
        full working_directory_is_kept,
        quick missing_working_directory_is_rejected,
        full invalid_argument_is_rejected,
        quick input_is_echoed_back,
        full input_is_empty_by_default,
        full unread_input_does_not_hang,
        full running_command_accepts_input,
        full dropped_conversation_kills_the_command,
        full another_user_is_restricted_by_permissions,
    ]
}

async fn exit_codes_are_kept(fixture: &Fixture<'_>) -> Outcome {
    for code in [0, 1, 2, 42, 255] {
        let exited = fixture.run_shell(&format!("exit {code}")).await?.exit;
        ensure!(exited.code == Some(code) && exited.signal.is_none(), "{code}: {exited:?}");
    }
    Ok(())
}

async fn signals_are_named(fixture: &Fixture<'_>) -> Outcome {
    for signal in [9, 11, 15] {
        let exited = fixture.run_shell(&format!("kill -{signal} $$")).await?.exit;
        ensure!(exited.signal == Some(signal) && exited.code.is_none(), "{signal}: {exited:?}");
    }
    Ok(())
}

async fn missing_program_is_127(fixture: &Fixture<'_>) -> Outcome {
    for program in ["no-such-program", "/no/such/program"] {
        let done = fixture.handle.run(Command::new([program])).await?;
        ensure!(done.exit.code == Some(127), "{:?}", done.exit);
        ensure!(
            done.stderr.text().contains("no-such") || done.stderr.total_bytes > 0,
            "the error is not reported"
        );
    }
    Ok(())
}

async fn unexecutable_file_is_126(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    expect_success(
        &fixture
            .run_shell(&format!("echo 'echo no' > {folder}/plain; chmod 644 {folder}/plain"))
            .await?,
    )?;
    let done = fixture.handle.run(Command::new([format!("{folder}/plain")])).await?;
    ensure!(done.exit.code == Some(126), "{:?}", done.exit);
    Ok(())
}

async fn arguments_are_bytes(fixture: &Fixture<'_>) -> Outcome {
    let odd = [&b"a b"[..], b"\xff\xfe", b"", b"line\nline", b"%41$HOME'\"\\"];
    let mut argv = vec![RawPath::from("printf"), RawPath::from("<%s>")];
    argv.extend(odd.iter().map(|arg| RawPath::new(*arg)));
    let done = fixture.handle.run(Command::new(argv)).await?;
    let expected: Vec<u8> = odd.iter().flat_map(|arg| [b"<", *arg, b">"].concat()).collect();
    ensure!(done.stdout.head == expected, "{:?}", done.stdout.text());
    Ok(())
}

async fn long_argument_arrives(fixture: &Fixture<'_>) -> Outcome {
    let long = "x".repeat(100_000);
    let done = fixture.handle.run(Command::new(["printf", "%s", &long])).await?;
    ensure!(done.stdout.total_bytes == 100_000, "{} bytes", done.stdout.total_bytes);
    Ok(())
}

async fn environment_is_exact(fixture: &Fixture<'_>) -> Outcome {
    let mut command = Command::new(["/usr/bin/env"]);
    command.env = BTreeMap::from([("ONLY".to_owned(), RawPath::from("this one"))]);
    let done = fixture.handle.run(command).await?;
    ensure!(expect_success(&done)? == "ONLY=this one\n", "{:?}", done.stdout.text());
    Ok(())
}

async fn environment_is_bytes(fixture: &Fixture<'_>) -> Outcome {
    let command = Command::shell("printf %s \"$ODD\"").env("ODD", RawPath::new(&b"\xff=\n'"[..]));
    let done = fixture.handle.run(command).await?;
    ensure!(done.stdout.head == b"\xff=\n'", "{:?}", done.stdout.head);
    Ok(())
}

async fn working_directory_is_kept(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let done = fixture.handle.run(Command::new(["pwd"]).cwd(&*folder)).await?;
    ensure!(expect_success(&done)? == format!("{folder}\n"), "{:?}", done.stdout.text());
    Ok(())
}

async fn missing_working_directory_is_rejected(fixture: &Fixture<'_>) -> Outcome {
    expect_refusal(fixture, Command::new(["pwd"]).cwd("/no/such/folder"), RefusalKind::NotFound)
        .await?;
    expect_refusal(fixture, Command::new(["pwd"]).cwd("/bin/sh"), RefusalKind::NotADirectory).await
}

async fn invalid_argument_is_rejected(fixture: &Fixture<'_>) -> Outcome {
    let nul = Command::new([RawPath::from("echo"), RawPath::new(&b"a\0b"[..])]);
    expect_refusal(fixture, nul, RefusalKind::BadRequest).await?;
    expect_refusal(fixture, Command::new(Vec::<RawPath>::new()), RefusalKind::BadRequest).await?;
    expect_success(&fixture.run_shell("true").await?).map(drop)
}

async fn expect_refusal(fixture: &Fixture<'_>, command: Command, kind: RefusalKind) -> Outcome {
    match fixture.handle.run(command).await {
        Err(SandboxError::Refused(refusal)) if refusal.why == kind => Ok(()),
        other => Err(check_failed(format!("not rejected as {kind:?}: {other:?}"))),
    }
}

async fn input_is_echoed_back(fixture: &Fixture<'_>) -> Outcome {
    // Send more than the pipes and the credit can buffer, so that data must flow in both directions
    // at once.
    let input: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7) as u8).collect();
    let mut command = Command::new(["cat"]);
    command.stdin = input.clone();
    command.head_cap = 4 << 20;
    let done = fixture.handle.run(command).await?;
    ensure!(done.stdout.head == input, "{} bytes came back", done.stdout.total_bytes);
    Ok(())
}

async fn input_is_empty_by_default(fixture: &Fixture<'_>) -> Outcome {
    let done = fixture.run_shell("cat; echo end").await?;
    ensure!(expect_success(&done)? == "end\n", "{:?}", done.stdout.text());
    Ok(())
}

async fn unread_input_does_not_hang(fixture: &Fixture<'_>) -> Outcome {
    let mut command = Command::new(["true"]);
    command.stdin = vec![b'x'; 5_000_000];
    let done = fixture.handle.run(command).await?;
    ensure!(done.success(), "{:?}", done.exit);
    Ok(())
}

async fn running_command_accepts_input(fixture: &Fixture<'_>) -> Outcome {
    let program = "while read -r line; do case $line in end) exit 3;; esac; echo \"<$line>\"; done";
    let mut running = fixture.handle.start(Command::shell(program))?;
    let mut heard = Vec::new();
    // Send a line only after the previous line was echoed.
    for line in ["one", "two", "end"] {
        running.queue_input(format!("{line}\n").as_bytes());
        let before = heard.len();
        while heard.len() == before {
            match running.next_event().await? {
                CommandEvent::Stdout(bytes) => heard.extend(bytes),
                CommandEvent::Stderr(bytes) => {
                    return Err(check_failed(String::from_utf8_lossy(&bytes).into_owned()));
                }
                CommandEvent::Exited(exited) => {
                    ensure!(exited.code == Some(3) && line == "end", "{exited:?} at {line}");
                    ensure!(heard == b"<one>\n<two>\n", "{:?}", String::from_utf8_lossy(&heard));
                    return Ok(());
                }
            }
        }
    }
    Err(check_failed("the command continued after its end"))
}

async fn dropped_conversation_kills_the_command(fixture: &Fixture<'_>) -> Outcome {
    let folder = fixture.create_folder().await?;
    let program = format!("echo up; sleep 1; echo late > {folder}/late");
    let mut running = fixture.handle.start(Command::shell(&program))?;
    let first = running.next_event().await?;
    ensure!(first == CommandEvent::Stdout(b"up\n".to_vec()), "{first:?}");
    drop(running);
    let late = expect_success(&fixture.run_shell(&format!("sleep 2; ls {folder}")).await?)?;
    ensure!(late.is_empty(), "{late:?}");
    Ok(())
}

async fn another_user_is_restricted_by_permissions(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("other users")?;
    let folder = fixture.create_folder().await?;
    let make = format!("chmod 755 {folder}; echo s > {folder}/own; chmod 600 {folder}/own");
    expect_success(&fixture.run_shell(&make).await?)?;
    let mut command = Command::shell(&format!("id -u; cat {folder}/own; echo x > {folder}/new"));
    command.user = Some("65534:65534".to_owned());
    let done = fixture.handle.run(command).await?;
    ensure!(done.stdout.text() == "65534\n" && !done.success(), "{:?}", done.stdout.text());
    Ok(())
}
