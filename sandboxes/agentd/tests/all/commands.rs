//! Tests what commands receive and return, and that they leave no processes behind.

use std::time::{Duration, Instant};

use proctor_wire::{Frame, FrameKind, RefusalKind, Reply, Request, RunRequest, channel};

use crate::{
    not_run::not_run,
    support::{Agent, is_running, run_request, shell_request, wait_until},
};

#[test]
fn missing_program_uses_fallback_and_merged_outputs_keep_order() {
    let mut agent = Agent::start();
    let line = "echo out; echo err >&2; echo out";
    let both = RunRequest { merged: true, fallback: Some("/bin/sh".into()), ..shell_request(line) };
    let mut missing = both.clone();
    missing.argv[0] = "no-such-shell".into();
    let mut there = both.clone();
    (there.argv[0], there.fallback) = ("sh".into(), Some("/bin/false".into()));
    for request in [both, missing, there] {
        let done = agent.ask(&Request::Run(request));
        assert_eq!((done.stdout.as_slice(), done.stderr.len()), (&b"out\nerr\nout\n"[..], 0));
    }
    let nowhere =
        RunRequest { fallback: Some("no-such-either".into()), ..run_request(&["no-such"]) };
    assert_eq!(agent.ask(&Request::Run(nowhere)).exited().code, Some(127));
}

#[test]
fn command_returns_output_and_code_and_has_exact_environment() {
    let mut agent = Agent::start();
    let answer = agent.shell("echo out; echo err >&2; exit 7");
    assert_eq!(answer.exited().code, Some(7));
    assert_eq!((&answer.stdout[..], &answer.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    let answer = agent.ask(&Request::Run(run_request(&["env"])));
    assert_eq!(answer.stdout, b"PATH=/usr/local/bin:/usr/bin:/bin\n");
    let request = RunRequest { cwd: "/usr".into(), ..run_request(&["pwd"]) };
    assert_eq!(agent.ask(&Request::Run(request)).stdout, b"/usr\n");
    let answer = agent.shell("kill -TERM $$");
    assert_eq!((answer.exited().code, answer.exited().signal), (None, Some(15)));
}

#[test]
fn command_accepts_arguments_with_any_bytes() {
    let mut agent = Agent::start();
    let mut request = run_request(&["printf", "%s"]);
    request.argv.push(proctor_wire::RawPath::new(&b"\xff\xfe %"[..]));
    assert_eq!(agent.ask(&Request::Run(request)).stdout, b"\xff\xfe %");
}

#[test]
fn unrunnable_command_exits_with_the_shells_code() {
    let mut agent = Agent::start();
    for (program, code) in [("no-such-program", 127), ("/no/such", 127), ("/etc/passwd", 126)] {
        let answer = agent.ask(&Request::Run(run_request(&[program])));
        assert_eq!(answer.exited().code, Some(code), "{program}");
        assert!(String::from_utf8_lossy(&answer.stderr).contains(program));
    }
    let cases = [
        (RunRequest { cwd: "/nowhere".into(), ..run_request(&["true"]) }, RefusalKind::NotFound),
        (
            RunRequest { cwd: "/etc/passwd".into(), ..run_request(&["true"]) },
            RefusalKind::NotADirectory,
        ),
        (run_request(&[]), RefusalKind::BadRequest),
        (run_request(&["a\0b"]), RefusalKind::BadRequest),
        (
            RunRequest { user: Some("nobody-here".into()), ..run_request(&["true"]) },
            RefusalKind::BadRequest,
        ),
    ];
    for (request, why) in cases {
        assert_eq!(agent.ask(&Request::Run(request)).reply.unwrap_err().why, why);
    }
}

#[test]
fn commands_inherit_only_standard_descriptors() {
    let mut agent = Agent::start();
    let line = "ls /proc/self/fd | tr '\\n' ' '";
    // `ls` itself opens the fourth descriptor, for the directory.
    assert_eq!(agent.shell(line).stdout, b"0 1 2 3 ");
    let request = RunRequest { results: true, ..shell_request(line) };
    assert_eq!(agent.ask(&Request::Run(request)).stdout, b"0 1 2 3 4 ");
    let request = RunRequest { results: true, ..shell_request("echo said; echo found >&3") };
    let answer = agent.ask(&Request::Run(request));
    assert_eq!((&answer.stdout[..], &answer.results[..]), (&b"said\n"[..], &b"found\n"[..]));
    // A missing program is also reported if the request has a results pipe.
    let request = RunRequest { results: true, ..run_request(&["no-such-program"]) };
    assert_eq!(agent.ask(&Request::Run(request)).exited().code, Some(127));
}

#[test]
fn command_accepts_input_of_any_size() {
    let mut agent = Agent::start();
    assert_eq!(agent.ask(&Request::Run(run_request(&["wc", "-c"]))).stdout, b"0\n");
    let input: Vec<u8> = (0..5_000_000u32).map(|n| (n * 7 / 3) as u8).collect();
    let request = Request::Run(RunRequest { stdin: true, ..run_request(&["cat"]) });
    assert!(agent.ask_with(&request, &input).stdout == input);
    // If a command does not read its input, the host can still send it.
    let request =
        Request::Run(RunRequest { stdin: true, ..shell_request("exec <&-; sleep 0.2; echo ok") });
    assert_eq!(agent.ask_with(&request, &input).stdout, b"ok\n");
}

#[test]
fn huge_output_waits_for_credit() {
    let mut agent = Agent::start();
    let stream =
        agent.open_stream(&Request::Run(run_request(&["head", "-c", "50000000", "/dev/zero"])));
    let mut come = 0;
    while let Some(frame) = agent.any_frame(Duration::from_millis(500)) {
        assert_eq!((frame.kind, frame.stream), (FrameKind::Data, stream));
        come += frame.body.len() - 1;
    }
    assert_eq!(come, 1 << 20, "the agent must not exceed the initial credit");
    let Ok(Reply::Pong { processes, agent_rss_kb }) = agent.ask(&Request::Ping).reply else {
        panic!("no pong");
    };
    assert!(agent_rss_kb < 16 << 10, "{agent_rss_kb} kB");
    assert_eq!(processes, 1);
    agent.send(&Frame::new(FrameKind::Credit, stream, (1u32 << 20).to_be_bytes()));
    let answer = agent.read_until_reply(stream);
    assert_eq!(come + answer.stdout.len(), 50_000_000);
    assert_eq!(answer.exited().code, Some(0));
}

#[test]
fn time_limit_kills_processes_that_left_the_group() {
    let mut agent = Agent::start();
    // Start one process in the group, one in its own session, and one double-forked orphan without
    // environment variables.
    let line = "sleep 7001 & setsid sleep 7002 & \
                (setsid env -i /bin/sh -c 'sleep 7003 & sleep 7004 & exit' &) ; sleep 7005";
    let request = RunRequest { time_limit_ms: Some(300), ..shell_request(line) };
    let start = Instant::now();
    let answer = agent.ask(&Request::Run(request));
    assert!(answer.exited().timed_out && !answer.exited().cancelled);
    assert_eq!(answer.exited().signal, Some(9));
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    for word in ["7001", "7002", "7003", "7004", "7005"] {
        assert!(!is_running(word), "sleep {word} is still running");
    }
    assert!(matches!(agent.ask(&Request::Ping).reply, Ok(Reply::Pong { processes: 0, .. })));
}

#[test]
fn time_limit_does_not_affect_other_commands() {
    let mut agent = Agent::start();
    let other = agent.open_stream(&Request::Run(shell_request(
        "setsid sh -c 'sleep 0.6; echo x' | cat; echo y",
    )));
    let request =
        RunRequest { time_limit_ms: Some(200), ..shell_request("setsid sleep 7010 & sleep 7011") };
    assert!(agent.ask(&Request::Run(request)).exited().timed_out);
    assert!(!is_running("7010"));
    let answer = agent.read_until_reply(other);
    assert_eq!((answer.exited().code, &answer.stdout[..]), (Some(0), &b"x\ny\n"[..]));
}

#[test]
fn cancelled_command_gets_a_reply() {
    let mut agent = Agent::start();
    let stream = agent.open_stream(&Request::Run(shell_request("echo here; sleep 7020")));
    assert_eq!(agent.next_frame(stream).body, b"\x01here\n");
    agent.send(&Frame::new(FrameKind::Cancel, stream, []));
    let answer = agent.read_until_reply(stream);
    assert!(answer.exited().cancelled && !answer.exited().timed_out);
    assert!(!is_running("7020"));
    // A late frame for a closed stream is not an error.
    agent.send(&Frame::new(FrameKind::Credit, stream, 5u32.to_be_bytes()));
    agent.send(&Frame::new(FrameKind::Cancel, stream, []));
    assert_eq!(agent.shell("echo on").stdout, b"on\n");
}

#[test]
fn daemon_with_open_pipe_does_not_delay_the_reply() {
    let mut agent = Agent::start();
    let start = Instant::now();
    let line = "setsid sh -c 'trap \"\" PIPE; while :; do echo noise; done' 2>/dev/null & sleep 7030 & sleep 0.1; echo done";
    let answer = agent.shell(line);
    assert!(start.elapsed() < Duration::from_secs(3));
    assert!(answer.stdout.windows(5).any(|w| w == b"done\n"));
    assert_eq!((answer.exited().code, answer.exited().left_behind), (Some(0), 1));
    assert!(!is_running("7030"), "the group must be killed at the end");
    let Ok(Reply::Pong { processes, .. }) = agent.ask(&Request::Ping).reply else { panic!() };
    assert_eq!(processes, 1, "the daemon must still run");
    let request = RunRequest { reap_all: true, ..shell_request("setsid sleep 7031 & sleep 0.1") };
    assert_eq!(agent.ask(&Request::Run(request)).exited().left_behind, 2);
    assert!(matches!(agent.ask(&Request::Ping).reply, Ok(Reply::Pong { processes: 0, .. })));
}

#[test]
fn commands_run_concurrently() {
    let mut agent = Agent::start();
    let start = Instant::now();
    let streams: Vec<u32> = (0..50)
        .map(|n| {
            agent.open_stream(&Request::Run(shell_request(&format!(
                "sleep 0.3; echo {n}; exit {n}"
            ))))
        })
        .collect();
    for (n, stream) in streams.into_iter().enumerate() {
        let answer = agent.read_until_reply(stream);
        assert_eq!(answer.exited().code, Some(n as i32));
        assert_eq!(answer.stdout, format!("{n}\n").into_bytes());
    }
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn agent_descriptors_and_environment_are_unreadable() {
    let mut agent = Agent::start();
    // Run the command as another user, because root may read everything unless the sandbox prevents
    // it.
    let line = "ls /proc/$PPID/fd; cat /proc/$PPID/environ; cat /proc/$PPID/comm";
    let request = RunRequest { user: Some("65534:65534".into()), ..shell_request(line) };
    let answer = agent.ask(&Request::Run(request));
    if answer.exited().code == Some(126) {
        let test = "agent_descriptors_and_environment_are_unreadable";
        return not_run(test, "ROOT", "the agent cannot become another user (as it reported)");
    }
    assert_eq!(answer.stdout, b"agentd\n");
    assert!(String::from_utf8_lossy(&answer.stderr).contains("Permission denied"));
    let request = RunRequest { user: Some("nobody".into()), ..run_request(&["id", "-u"]) };
    assert_eq!(agent.ask(&Request::Run(request)).stdout, b"65534\n");
}

#[test]
fn end_of_stream_kills_the_sandbox() {
    let mut agent = Agent::start();
    let stream =
        agent.open_stream(&Request::Run(shell_request("setsid sleep 7040 & echo up; sleep 7041")));
    assert_eq!(agent.next_frame(stream).body[0], channel::STDOUT);
    assert!(wait_until(|| is_running("7040") && is_running("7041")));
    agent.hang_up();
    assert_eq!(agent.wait_for_exit().code(), Some(0));
    assert!(!is_running("7040") && !is_running("7041"));
}

#[test]
fn shutdown_gets_a_reply_and_leaves_no_process() {
    let mut agent = Agent::start();
    let pending = agent.open_stream(&Request::Run(shell_request("setsid sleep 7050 & sleep 7051")));
    assert!(wait_until(|| is_running("7050")));
    assert_eq!(agent.ask(&Request::Shutdown).reply, Ok(Reply::Done));
    assert_eq!(agent.wait_for_exit().code(), Some(0));
    // A command that was killed with its sandbox is not reported as ended.
    assert_eq!(agent.take_unread_frames(pending), []);
    assert!(!is_running("7050") && !is_running("7051"));
}
