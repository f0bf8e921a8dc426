//! Looking at a run: the report as a page, `show`, and `view` over real HTTP.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use crate::stage::Stage;

/// The demo, and its run directory.
fn demo(stage: &Stage) -> String {
    let out = stage.path("run").to_str().unwrap().to_owned();
    stage.run(["run", "configs/demo.toml", "--out", &out], 0);
    out
}

struct Viewer {
    child: Child,
    host: String,
    path: String,
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Viewer {
    fn of(stage: &Stage, run: &str) -> Self {
        let mut child = stage.proctor(["view", run]).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let (host, path) = first.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        assert!(host.starts_with("127.0.0.1:"), "{first}");
        Self { host: host.to_owned(), path: format!("/{path}"), child }
    }

    /// Status line, headers and body.
    fn ask(&self, method: &str, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str) -> String {
        self.ask("GET", path, &self.host)
    }
}

/// All files below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

#[test]
fn a_run_can_be_looked_at() {
    let stage = Stage::new();
    let run = demo(&stage);
    let said = |args: &[&str]| String::from_utf8(stage.run(args, 0).stdout).unwrap();

    let page = said(&["report", &run, "--format", "html"]);
    assert!(
        page.contains("<svg") && page.contains("tools/scripted")
            || page.contains("tools&#x2f;scripted")
    );
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href=\"http"));
    let file = stage.path("report.csv");
    stage.run(["report", &run, "--format", "csv", "--out", file.to_str().unwrap()], 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 7, "a head and six trials");
    assert!(
        said(&["report", &run, "--format", "markdown"])
            .contains("| `tools/scripted` | 1/2 50.0 % |")
    );

    assert_eq!(
        said(&["show", &run]).lines().filter(|line| line.contains(" / tools/scripted / 1")).count(),
        2
    );
    let trial = said(&["show", &run, "roman", "noop"]);
    assert!(trial.contains("not resolved: never edited") && trial.contains("F2P "), "{trial}");
    let trial = said(&["show", &run, "roman", "tools/scripted", "1"]);
    assert!(trial.contains("step  seconds") && trial.contains("trajectory.jsonl"), "{trial}");
    let step = said(&["show", &run, "roman", "scripted", "--step", "1"]);
    assert!(step.contains("== call: ") && step.contains("== what it changed =="), "{step}");
    for (task, arm, hint) in [
        ("roman", "tools/scriptd", "did you mean `tools/scripted`?"),
        ("zebra", "gold", "this run has: `"),
        ("roman", "oo", "write one of them out: `noop`, `tools/scripted`"),
    ] {
        let wrong = stage.run(["show", &run, task, arm], 2);
        let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(said.contains(hint), "{said}");
    }
    stage.run(["show", &run, "roman", "scripted", "--step", "999"], 2);

    let viewer = Viewer::of(&stage, &run);
    let root = viewer.path.clone();
    let matrix = viewer.get(&root);
    assert!(matrix.starts_with("HTTP/1.1 200 "), "{matrix}");
    for header in [
        "content-security-policy: default-src 'none';",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(matrix.contains(header), "{header}");
    }
    assert!(
        !matrix.contains("<script") && !matrix.contains("://"),
        "a page of the viewer leads elsewhere"
    );
    let refused = |answer: String, status: &str| {
        let first = answer.lines().next().unwrap_or_default();
        assert!(first.starts_with(&format!("HTTP/1.1 {status}")), "{first}");
        assert!(!answer.contains("<html"), "a refusal shows nothing");
    };
    let other = root.replace(|sign: char| sign.is_ascii_digit(), "f");
    for path in ["/", "/x/", other.as_str(), root.trim_end_matches('/').get(..9).unwrap()] {
        refused(viewer.get(path), "403");
    }
    refused(viewer.ask("GET", &root, "evil.example"), "403");
    refused(viewer.ask("POST", &root, &viewer.host), "405");
    refused(viewer.get(&format!("{root}1/nothing/at/1")), "404");
    refused(viewer.get(&format!("{root}../../etc/passwd")), "404");

    let links: Vec<String> = matrix
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .map(|link| link.replace("&#x2f;", "/"))
        .collect();
    assert_eq!(links.len(), 6);
    for link in &links {
        let page = viewer.get(link);
        assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("id=\"tests\""), "{link}");
    }
    let steps: Vec<_> = links
        .iter()
        .filter(|link| viewer.get(&format!("{link}/step/1")).contains("What it changed"))
        .collect();
    assert_eq!(steps.len(), 2, "the scripted trials have steps, gold and noop have none");

    // The same pages as files: every link of every page leads to one.
    let files = stage.path("pages");
    let told = said(&["view", &run, "--static", files.to_str().unwrap()]);
    let pages = below(&files);
    assert!(told.starts_with(&format!("{} pages", pages.len())), "{told}");
    assert!(pages.len() > 7 && files.join("index.html").exists(), "{pages:?}");
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap().replace("&#x2f;", "/");
        assert!(text.contains("http-equiv=\"Content-Security-Policy\""));
        let links = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for link in links.filter(|link| !link.starts_with('#')) {
            assert!(page.parent().unwrap().join(link).is_file(), "{}: {link}", page.display());
        }
    }
    stage.run(["view", &run, "--static", files.to_str().unwrap()], 2);
}
