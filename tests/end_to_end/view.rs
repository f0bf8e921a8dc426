//! Tests how a run can be viewed: the report as a page, `show`, and `view` over real HTTP.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use crate::stage::Stage;

/// Runs the demo. Returns its run directory.
fn run_demo(stage: &Stage) -> String {
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
    fn start(stage: &Stage, run: &str) -> Self {
        let mut child = stage.proctor(["view", run]).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let (host, path) = first.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        assert!(host.starts_with("127.0.0.1:"), "{first}");
        Self { host: host.to_owned(), path: format!("/{path}"), child }
    }

    /// Sends a request. Returns the status line, the headers and the body.
    fn send_request(&self, method: &str, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str) -> String {
        self.send_request("GET", path, &self.host)
    }
}

/// Returns all files below a folder.
fn list_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { list_files(&path) } else { vec![path] }).collect()
}

/// Returns the scripted model's trial of the first task, in the form that `--trial` expects.
fn trial_name(stage: &Stage) -> String {
    let shown = stage.run(["show", stage.path("run").to_str().unwrap()], 0);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let line =
        shown.lines().find(|line| line.contains("roman") && line.contains("/ tools/scripted /"));
    let name = line.unwrap().split("  ").find(|part| part.contains(" / ")).unwrap();
    name.replace(" / ", "/")
}

#[test]
fn finished_run_can_be_viewed() {
    let stage = Stage::new();
    let run = run_demo(&stage);
    let said = |args: &[&str]| String::from_utf8(stage.run(args, 0).stdout).unwrap();

    let page = said(&["report", &run, "--format", "html"]);
    assert!(
        page.contains("<svg") && page.contains("tools/scripted")
            || page.contains("tools&#x2f;scripted")
    );
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href=\"http"));
    let file = stage.path("report.csv");
    stage.run(["report", &run, "--format", "csv", "--out", file.to_str().unwrap()], 0);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap().lines().count(),
        7,
        "a header and six trials"
    );
    assert!(
        said(&["report", &run, "--format", "markdown"])
            .contains("| `tools/scripted` | 1/2 50.0% |")
    );

    let list = said(&["show", &run]);
    assert_eq!(list.lines().filter(|line| line.contains(" / tools/scripted / 1")).count(), 2);
    assert_eq!(list.matches("(never edited; submitted, 0 steps)").count(), 2, "{list}");
    assert!(list.contains("(submitted, 5 steps)"), "{list}");
    let trial = said(&["show", &run, "roman", "noop"]);
    assert!(trial.contains("not resolved: never edited") && trial.contains("F2P "), "{trial}");
    let trial = said(&["show", &run, "roman", "tools/scripted", "1"]);
    assert!(trial.contains("step  seconds") && trial.contains("trajectory.jsonl"), "{trial}");
    let step = said(&["show", &run, "roman", "scripted", "--step", "1"]);
    assert!(step.contains("== call: ") && step.contains("== changes =="), "{step}");
    for (task, arm, hint) in [
        ("roman", "tools/scriptd", "did you mean `tools/scripted`?"),
        ("zebra", "gold", "this run has: `"),
        ("roman", "oo", "use a full name: `noop`, `tools/scripted`"),
    ] {
        let wrong = stage.run(["show", &run, task, arm], 2);
        let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(said.contains(hint), "{said}");
    }
    stage.run(["show", &run, "roman", "scripted", "--step", "999"], 2);

    // Labels are stored next to the record of the trial.
    let journal = crate::stage::find_files(&stage.path("run/trials"), "trajectory.jsonl");
    let before: Vec<_> = journal.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let name = trial_name(&stage);
    let label = |more: &[&str], status: i32| {
        let out = stage.run([&["label", &run, "--trial", &name], more].concat(), status);
        String::from_utf8(out.stderr).unwrap()
    };
    label(&["--step", "1", "--label", "odd", "--comment", "first"], 0);
    label(&["--step", "1", "--label", "odd", "--comment", "reads <the> tests"], 0);
    label(&["--label", "gone"], 0);
    label(&["--label", "gone", "--remove"], 0);
    assert!(label(&["--step", "99", "--label", "odd"], 2).contains("hint: "));
    assert!(label(&["--label", "gone", "--remove"], 2).contains("no label `gone`"));
    let listed = said(&["label", &run]);
    assert!(
        listed.lines().count() == 1 && listed.contains("step 1: odd (reads <the> tests)"),
        "{listed}"
    );
    assert!(said(&["show", &run, "roman", "scripted"]).contains("label: odd, step 1: reads <the>"));
    let json: serde_json::Value =
        serde_json::from_str(&said(&["report", &run, "--format", "json"])).unwrap();
    let counts: Vec<_> =
        json["arms"].as_array().unwrap().iter().map(|arm| arm["labels"]["odd"].as_u64()).collect();
    assert_eq!(counts.iter().flatten().sum::<u64>(), 1, "{counts:?}");
    assert!(
        journal.iter().zip(before).all(|(path, before)| std::fs::read(path).unwrap() == before)
    );

    let viewer = Viewer::start(&stage, &run);
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
        matrix.matches("<script").count() == 1 && !matrix.contains("://"),
        "a page of the viewer links to another site"
    );
    let refused = |answer: String, status: &str| {
        let first = answer.lines().next().unwrap_or_default();
        assert!(first.starts_with(&format!("HTTP/1.1 {status}")), "{first}");
        assert!(!answer.contains("<html"), "an error response must not contain a page");
    };
    let other = root.replace(|sign: char| sign.is_ascii_digit(), "f");
    for path in ["/", "/x/", other.as_str(), root.trim_end_matches('/').get(..9).unwrap()] {
        refused(viewer.get(path), "403");
    }
    refused(viewer.send_request("GET", &root, "evil.example"), "403");
    refused(viewer.send_request("POST", &root, &viewer.host), "405");
    refused(viewer.get(&format!("{root}1/nothing/at/1")), "404");
    refused(viewer.get(&format!("{root}../../etc/passwd")), "404");

    let links = |page: &str| -> Vec<String> {
        let all = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        all.map(|link| link.replace("&#x2f;", "/").replace("&amp;", "&")).collect()
    };
    let trials = |page: &str| -> Vec<String> {
        let first = format!("{root}1/");
        links(page).into_iter().filter(|link| link.starts_with(&first)).collect()
    };
    let all = trials(&matrix);
    assert_eq!(all.len(), 6);
    for link in &all {
        let page = viewer.get(link);
        assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("id=\"tests\""), "{link}");
        assert!(page.contains("only this trial"), "{link}");
    }
    let steps: Vec<_> = all
        .iter()
        .filter(|link| viewer.get(&format!("{link}/step/1")).contains("Changes in this step"))
        .collect();
    assert_eq!(steps.len(), 2, "the scripted trials have steps, gold and noop have none");

    // Request a filtered list, a search, trials side by side, and the exact bytes of a request to
    // the model.
    let some = viewer.get(&format!("{root}?reason=never_edited&text=ROMAN"));
    assert_eq!(trials(&some).len(), 1, "{some}");
    assert!(some.contains("1 of 6 trials"), "{some}");
    assert!(steps.iter().any(|link| {
        let page = viewer.get(&format!("{link}/step/1"));
        page.contains("reads &lt;the&gt; tests") && viewer.get(link).contains("class=\"label\"")
    }));
    let found = viewer.get(&format!("{root}search?q=from_roman"));
    let hits = links(&found);
    let hit = hits.iter().find(|link| link.contains("/step/")).unwrap();
    assert!(found.contains("<mark>from_roman</mark>"), "{found}");
    assert!(viewer.get(hit.split('#').next().unwrap()).contains("from_roman"));
    assert!(
        viewer.get(&format!("{root}search?q=(&pattern=1")).contains("invalid regular expression")
    );
    let step = viewer.get(&format!("{}/step/1", steps[0]));
    // Next to the conversation, the page shows the files in the work directory after the step, and
    // the content of one of them.
    let changed: Vec<_> = steps
        .iter()
        .map(|link| viewer.get(&format!("{link}/step/1")))
        .filter(|page| page.contains("id=\"workspace\""))
        .collect();
    assert_eq!(changed.len(), 2);
    let file =
        changed.iter().flat_map(|page| links(page)).find(|link| link.contains("&open=")).unwrap();
    let opened = viewer.get(file.split('#').next().unwrap());
    assert!(opened.contains("aria-current=\"true\"") && opened.contains("<h3><code>"), "{opened}");
    let bytes = links(&step).into_iter().find(|link| link.contains("/bytes/")).unwrap();
    let sent = viewer.get(&bytes);
    assert!(sent.contains("content-type: text/plain") && sent.contains("\"messages\""), "{sent}");
    // The report has its own content security policy: it may only use its own style sheet.
    let report = viewer.get(&format!("{root}report/1"));
    assert!(report.contains("content-security-policy: default-src 'none'; style-src 'sha256-"));
    assert!(report.contains("Proctor report") && !report.contains("<script"));
    assert_eq!(trials(&report).len(), 6, "a served report links to its trials");
    assert!(links(&report).contains(&root), "and to the page of the run");
    refused(viewer.get(&format!("{root}report/2")), "404");
    assert_eq!(trials(&viewer.get(&format!("{root}1"))).len(), 6, "the run's page has its own URL");
    let task = links(&matrix).into_iter().find(|link| link.contains("/beside/")).unwrap();
    assert!(viewer.get(&task).contains("side by side"));
    for (name, kind) in [("viewer.js", "text/javascript"), ("viewer.css", "text/css")] {
        assert!(viewer.get(&format!("{root}{name}")).contains(kind), "{name}");
    }
    // If a page has not changed, it is not sent again.
    let tag = matrix.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let host = format!("{}\r\nIf-None-Match: {tag}", viewer.host);
    assert!(viewer.send_request("GET", &root, &host).starts_with("HTTP/1.1 304 "));

    // Write the same pages as files. Every link on a page must lead to one of these files.
    let files = stage.path("pages");
    let told = said(&["view", &run, "--static", files.to_str().unwrap()]);
    let pages = list_files(&files);
    assert!(told.starts_with(&format!("wrote {} files to ", pages.len())), "{told}");
    assert!(pages.len() > 7 && files.join("index.html").exists(), "{pages:?}");
    for page in pages.iter().filter(|page| page.extension().is_some_and(|end| end == "html")) {
        let text = std::fs::read_to_string(page).unwrap().replace("&#x2f;", "/");
        assert!(text.contains("http-equiv=\"Content-Security-Policy\""));
        let links = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for link in links.filter(|link| !link.starts_with('#')) {
            assert!(page.parent().unwrap().join(link).is_file(), "{}: {link}", page.display());
        }
    }
    stage.run(["view", &run, "--static", files.to_str().unwrap()], 2);
}

#[test]
fn folder_of_runs_is_a_dashboard() {
    let stage = Stage::new();
    let run = run_demo(&stage);
    let folder = stage.path("runs");
    std::fs::create_dir_all(folder.join("no-run")).unwrap();
    for name in ["first", "second"] {
        let mut copy = std::process::Command::new("cp");
        copy.arg("-r").arg(&run).arg(folder.join(name));
        assert!(copy.status().unwrap().success());
    }
    let viewer = Viewer::start(&stage, folder.to_str().unwrap());
    let page = viewer.get(&viewer.path);
    assert!(page.contains("<h1>2 runs</h1>"), "{page}");
    assert!(page.contains("<bdi>first</bdi>") && page.contains("<bdi>second</bdi>"), "{page}");
    assert!(!page.contains("no-run"), "{page}");
    let root = viewer.path.clone();
    for run in ["1", "2"] {
        let page = viewer.get(&format!("{root}{run}"));
        assert!(page.contains("6 of 6 trials") && page.contains("All runs"), "{page}");
    }
    assert!(viewer.get(&format!("{root}3")).starts_with("HTTP/1.1 404 "));

    let files = stage.path("pages");
    stage.run(["view", folder.to_str().unwrap(), "--static", files.to_str().unwrap()], 0);
    for name in ["index.html", "1.html", "2.html", "report/1.html", "report/2.html"] {
        assert!(files.join(name).is_file(), "{name}");
    }
    // A run whose plan is corrupt does not hide the others.
    for name in ["run.json", "run.json.gz"] {
        std::fs::write(folder.join("first").join(name), "broken").unwrap();
    }
    let viewer = Viewer::start(&stage, folder.to_str().unwrap());
    let page = viewer.get(&viewer.path);
    assert!(page.contains("<h1>2 runs</h1>") && page.contains("This run cannot be read"), "{page}");
    assert!(viewer.get(&format!("{}2", viewer.path)).contains("6 of 6 trials"));
    assert!(viewer.get(&format!("{}1", viewer.path)).starts_with("HTTP/1.1 404 "));
    // A folder without runs is an error.
    stage.run(["view", folder.join("no-run").to_str().unwrap()], 2);
}
