//! Attacks on the kernel through system calls, devices, settings and privileged programs.

use proctor_sandbox_api::Command;

use super::attack::{Attack, assert_no_breach, assert_responsive, list};
use crate::{
    Fixture,
    fixture::{Outcome, ensure, expect_success, raw_path},
};

/// Paths that are covered in every sandbox.
const COVERED_PATHS: &str = include_str!("../../../../configs/sandbox/covered-paths.txt");

pub fn attacks() -> Vec<Attack> {
    list![
        dangerous_system_calls_are_made [SystemCalls],
        rare_socket_families_are_opened [SystemCalls],
        programs_for_another_abi_are_run [],
        device_nodes_are_created [],
        set_uid_programs_gain_root [NoNewPrivileges],
        core_dumps_are_written [CoreDumps],
        machine_state_is_read_and_changed [CoveredProc],
    ]
}

async fn dangerous_system_calls_are_made(fixture: &Fixture<'_>) -> Outcome {
    assert_no_breach(&fixture.handle, include_str!("programs/system_calls.py"), &[]).await?;
    assert_responsive(&fixture.handle).await
}

async fn rare_socket_families_are_opened(fixture: &Fixture<'_>) -> Outcome {
    assert_no_breach(&fixture.handle, include_str!("programs/socket_families.py"), &[]).await
}

/// The 32-bit ABI has its own system call numbers, which the denylist does not contain.
async fn programs_for_another_abi_are_run(fixture: &Fixture<'_>) -> Outcome {
    assert_no_breach(&fixture.handle, include_str!("programs/other_interface.py"), &[]).await?;
    assert_responsive(&fixture.handle).await
}

async fn device_nodes_are_created(fixture: &Fixture<'_>) -> Outcome {
    assert_no_breach(&fixture.handle, include_str!("programs/devices.py"), &[]).await
}

async fn set_uid_programs_gain_root(fixture: &Fixture<'_>) -> Outcome {
    expect_success(
        &fixture.run_shell("cp /usr/bin/id /var/tmp/id && chmod 6755 /var/tmp/id").await?,
    )?;
    let mut command = Command::new(["/var/tmp/id", "-u"]);
    // Run the program as another user, because root already is root.
    command.user = Some("1000:1000".to_owned());
    let done = match fixture.handle.run(command).await {
        // If the sandbox has only one user, there is no user who could become root.
        Err(error) if !error.is_broken() => {
            fixture.skip_unless_enforced("other users")?;
            return Err(error.into());
        }
        other => other?,
    };
    let said = done.stdout.text();
    ensure!(said.trim() != "0", "a set-uid program became root");
    let line = "setcap cap_sys_admin+ep /var/tmp/id 2>/dev/null && echo set; true";
    let said = expect_success(&fixture.run_shell(line).await?)?;
    ensure!(said.is_empty(), "a file was given a capability");
    Ok(())
}

async fn core_dumps_are_written(fixture: &Fixture<'_>) -> Outcome {
    let line = "mkdir /tmp/cores && cd /tmp/cores && ulimit -c unlimited 2>/dev/null; \
                python3 -c 'import os; os.abort()' 2>/dev/null; ulimit -H -c; ls";
    let said = expect_success(&fixture.run_shell(line).await?)?;
    ensure!(said == "0\n", "{said:?}");
    Ok(())
}

async fn machine_state_is_read_and_changed(fixture: &Fixture<'_>) -> Outcome {
    let list: Vec<&str> = COVERED_PATHS.lines().filter(|line| line.starts_with('/')).collect();
    fixture.handle.write(&raw_path("/tmp/covered"), list.join("\n").as_bytes(), None).await?;
    assert_no_breach(&fixture.handle, include_str!("programs/proc_secrets.py"), &[]).await?;
    assert_responsive(&fixture.handle).await
}
