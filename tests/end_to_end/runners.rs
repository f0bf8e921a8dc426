//! Runs one small task for each test runner. The solution must resolve the task; an empty patch and
//! a wrong solution must not.
//!
//! The core tier uses Node and Perl from Debian. The full tier adds runners from npm and, on
//! Docker, other runners that Debian packages.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    stage::{Stage, find_arm, find_files, has_docker},
    tier::is_full,
};

struct Runner {
    name: &'static str,
    format: &'static str,
    /// The path of the report; `None` if it is written to standard output.
    path: Option<&'static str>,
    command: &'static [&'static str],
    /// The file to complete and its text, with `BODY` where the solution belongs.
    code_file: (&'static str, &'static str),
    /// The code that solves the task.
    solution: &'static str,
    tests: (&'static str, &'static str),
    /// Other files of the task.
    files: &'static [(&'static str, &'static str)],
    hidden_path: &'static str,
    /// One fail-to-pass test and one pass-to-pass test.
    test_ids: [&'static str; 2],
    setup: Option<&'static str>,
    env: &'static [(&'static str, &'static str)],
    /// Whether Proctor has canaries for the tests of this runner.
    has_canaries: bool,
}

const JS_CODE: (&str, &str) = ("calc.js", "module.exports = { add: (a, b) => BODY };\n");
const NODE_TESTS: (&str, &str) = (
    "test/calc.test.js",
    "const { test } = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('../calc.js');\n\
     test('adds', () => assert.equal(add(1, 2), 3));\ntest('zero', () => assert.equal(add(0, 0), 0));\n",
);
const JEST_TESTS: (&str, &str) = (
    "__tests__/calc.test.js",
    "const { add } = require('../calc.js');\ndescribe('calc', () => {\n  test('adds', () => expect(add(1, 2)).toBe(3));\n  \
     test('zero', () => expect(add(0, 0)).toBe(0));\n});\n",
);
const MOCHA_TESTS: (&str, &str) = (
    "test/calc.test.js",
    "const assert = require('node:assert');\nconst { add } = require('../calc.js');\ndescribe('calc', () => {\n  \
     it('adds', () => assert.equal(add(1, 2), 3));\n  it('zero', () => assert.equal(add(0, 0), 0));\n});\n",
);
const PACKAGE_JSON: (&str, &str) = ("package.json", "{}\n");

const NODE_TAP: Runner = Runner {
    name: "node-tap",
    format: "tap",
    path: None,
    command: &["node", "--test", "--test-reporter=tap", "test/"],
    code_file: JS_CODE,
    solution: "a + b",
    tests: NODE_TESTS,
    files: &[],
    hidden_path: "test",
    test_ids: ["adds", "zero"],
    setup: None,
    env: &[],
    has_canaries: true,
};

const NODE_JUNIT: Runner = Runner {
    name: "node-junit",
    format: "junit",
    path: Some("report.xml"),
    command: &[
        "node",
        "--test",
        "--test-reporter=junit",
        "--test-reporter-destination=report.xml",
        "test/",
    ],
    ..NODE_TAP
};

const PROVE: Runner = Runner {
    name: "prove",
    command: &["prove", "-v", "t"],
    code_file: ("Calc.pm", "package Calc;\nsub add { my ($a, $b) = @_; return BODY; }\n1;\n"),
    solution: "$a + $b",
    tests: (
        "t/calc.t",
        "use strict; use warnings; use Test::More tests => 2;\nuse lib '.'; use Calc;\n\
         is(Calc::add(1, 2), 3, 'adds');\nis(Calc::add(0, 0), 0, 'zero');\n",
    ),
    hidden_path: "t",
    has_canaries: false,
    ..NODE_TAP
};

const JEST: Runner = Runner {
    name: "jest",
    format: "jest",
    path: Some("report.json"),
    command: &["node_modules/.bin/jest", "--json", "--outputFile=report.json"],
    tests: JEST_TESTS,
    files: &[PACKAGE_JSON],
    hidden_path: "__tests__",
    test_ids: ["__tests__/calc.test.js::calc > adds", "calc > zero"],
    setup: Some("npm install --no-audit --no-fund --silent jest@29"),
    ..NODE_TAP
};

const MOCHA: Runner = Runner {
    name: "mocha",
    command: &["sh", "-c", "node_modules/.bin/mocha --reporter json > report.json"],
    tests: MOCHA_TESTS,
    hidden_path: "test",
    test_ids: ["test/calc.test.js::calc > adds", "calc > zero"],
    setup: Some("npm install --no-audit --no-fund --silent mocha@10"),
    ..JEST
};

const CTRF: Runner = Runner {
    name: "jest-ctrf",
    format: "ctrf",
    path: Some("ctrf/ctrf-report.json"),
    command: &["node_modules/.bin/jest", "--reporters=jest-ctrf-json-reporter"],
    test_ids: ["adds", "zero"],
    setup: Some("npm install --no-audit --no-fund --silent jest@29 jest-ctrf-json-reporter@0.0.11"),
    ..JEST
};

const GO: Runner = Runner {
    name: "go",
    format: "go-json",
    command: &["go", "test", "-json", "./..."],
    code_file: ("calc.go", "package calc\n\nfunc Add(a, b int) int {\n\treturn BODY\n}\n"),
    tests: (
        "calc_test.go",
        "package calc\n\nimport \"testing\"\n\nfunc TestAdds(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n\n\
         func TestZero(t *testing.T) {\n\tif Add(0, 0) != 0 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n",
    ),
    files: &[("go.mod", "module example.com/calc\n\ngo 1.19\n")],
    hidden_path: "calc_test.go",
    test_ids: ["example.com/calc::TestAdds", "TestZero"],
    env: &[("GOCACHE", "/tmp/go"), ("GOPROXY", "off")],
    has_canaries: false,
    ..NODE_TAP
};

const CARGO: Runner = Runner {
    name: "cargo",
    format: "libtest",
    command: &["sh", "-c", "cargo test --offline 2>&1"],
    code_file: (
        "src/lib.rs",
        "pub fn add(a: i32, b: i32) -> i32 {\n    let _ = (a, b);\n    BODY\n}\n",
    ),
    tests: (
        "tests/calc.rs",
        "#[test]\nfn adds() {\n    assert_eq!(calc::add(1, 2), 3);\n}\n\n#[test]\nfn zero() {\n    assert_eq!(calc::add(0, 0), 0);\n}\n",
    ),
    files: &[(
        "Cargo.toml",
        "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    )],
    hidden_path: "tests",
    env: &[("CARGO_HOME", "/tmp/cargo")],
    ..NODE_TAP
};

const PHPUNIT: Runner = Runner {
    name: "phpunit",
    command: &["phpunit", "--log-junit", "report.xml", "tests"],
    code_file: ("calc.php", "<?php\nfunction add(int $a, int $b): int { return BODY; }\n"),
    solution: "$a + $b",
    tests: (
        "tests/CalcTest.php",
        "<?php\nuse PHPUnit\\Framework\\TestCase;\nrequire_once __DIR__ . '/../calc.php';\nfinal class CalcTest extends TestCase {\n  \
         public function testAdds(): void { $this->assertSame(3, add(1, 2)); }\n  \
         public function testZero(): void { $this->assertSame(0, add(0, 0)); }\n}\n",
    ),
    hidden_path: "tests",
    test_ids: ["CalcTest::testAdds", "testZero"],
    has_canaries: false,
    ..NODE_JUNIT
};

const RSPEC: Runner = Runner {
    name: "rspec",
    command: &[
        "rspec",
        "--require",
        "rspec_junit_formatter",
        "--format",
        "RspecJunitFormatter",
        "--out",
        "report.xml",
        "spec",
    ],
    code_file: ("calc.rb", "def add(a, b) = BODY\n"),
    tests: (
        "spec/calc_spec.rb",
        "require_relative '../calc'\nRSpec.describe 'calc' do\n  it('adds') { expect(add(1, 2)).to eq 3 }\n  \
         it('zero') { expect(add(0, 0)).to eq 0 }\nend\n",
    ),
    hidden_path: "spec",
    test_ids: ["calc adds", "calc zero"],
    has_canaries: false,
    ..NODE_JUNIT
};

const CTEST: Runner = Runner {
    name: "ctest",
    path: Some("build/report.xml"),
    command: &[
        "sh",
        "-c",
        "cmake -S . -B build && cmake --build build && ctest --test-dir build --output-junit report.xml",
    ],
    code_file: ("calc.cpp", "int add(int a, int b) { (void)a; (void)b; return BODY; }\n"),
    tests: (
        "tests/t.cpp",
        "#include <cstring>\nint add(int, int);\nint main(int, char** v) {\n  \
         return std::strcmp(v[1], \"adds\") ? add(0, 0) != 0 : add(1, 2) != 3;\n}\n",
    ),
    files: &[(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.13)\nproject(calc CXX)\nenable_testing()\nadd_executable(t tests/t.cpp calc.cpp)\n\
         add_test(NAME adds COMMAND t adds)\nadd_test(NAME zero COMMAND t zero)\n",
    )],
    hidden_path: "tests",
    has_canaries: false,
    ..NODE_JUNIT
};

const MAVEN: Runner = Runner {
    name: "maven",
    path: Some("target/surefire-reports/TEST-*.xml"),
    command: &["mvn", "-B", "-o", "-q", "-s", "settings.xml", "test"],
    code_file: (
        "src/main/java/a/Calc.java",
        "package a;\n\npublic class Calc {\n  public static int add(int a, int b) { return BODY; }\n}\n",
    ),
    tests: (
        "src/test/java/a/CalcTest.java",
        "package a;\nimport org.junit.*;\npublic class CalcTest {\n  \
         @Test public void adds() { Assert.assertEquals(3, Calc.add(1, 2)); }\n  \
         @Test public void zero() { Assert.assertEquals(0, Calc.add(0, 0)); }\n}\n",
    ),
    files: &[
        ("pom.xml", include_str!("../official/runners/java/pom.xml")),
        ("settings.xml", include_str!("../official/runners/java/settings.xml")),
    ],
    hidden_path: "src/test",
    test_ids: ["a.CalcTest::adds", "zero"],
    has_canaries: false,
    ..NODE_JUNIT
};

/// Adds Debian packages with runners that the test image does not have.
const DOCKERFILE: &str = "FROM proctor-test:bookworm\nRUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends golang-go nodejs cargo rustc perl phpunit cmake make g++ ruby-rspec ruby-rspec-junit-formatter maven \
    libsurefire-java libmaven-compiler-plugin-java libmaven-resources-plugin-java junit4 default-jdk-headless \
    && rm -rf /var/lib/apt/lists/*\n";

impl Runner {
    fn code_with_body(&self, body: &str) -> String {
        self.code_file.1.replace("BODY", body)
    }

    /// Returns a patch for the file to complete.
    fn body_patch(&self, old_body: &str, new_body: &str) -> String {
        replacement_patch(
            self.code_file.0,
            &self.code_with_body(old_body),
            &self.code_with_body(new_body),
        )
    }

    fn task_row(&self, stage: &Stage, environment: &Value) -> Value {
        let source = stage.path("sources").join(self.name);
        let solved = self.code_with_body(self.solution);
        let code = (self.code_file.0, solved.as_str());
        for (path, text) in self.files.iter().copied().chain([self.tests, code]) {
            let path = source.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut environment = environment.clone();
        if let Some(setup) = self.setup {
            environment["setup"] = json!([setup]);
        }
        let mut results = json!({"format": self.format});
        if let Some(path) = self.path {
            results["path"] = json!(path);
        }
        let env: Value =
            self.env.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        json!({
            "schema_version": 1, "id": self.name, "statement": "Write add().", "environment": environment,
            "source": {"path": source}, "mask": self.body_patch(self.solution, "0"), "hidden": [self.hidden_path],
            "fail_to_pass": [self.test_ids[0]], "pass_to_pass": [self.test_ids[1]],
            "test_command": self.command, "test_results": results, "env": env,
        })
    }
}

/// Returns a patch that replaces the text of a file.
fn replacement_patch(path: &str, old_text: &str, new_text: &str) -> String {
    let lines = |text: &str, sign: char| -> String {
        text.lines().map(|line| format!("{sign}{line}\n")).collect()
    };
    let (was, is) = (old_text.lines().count(), new_text.lines().count());
    format!(
        "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{was} +1,{is} @@\n{}{}",
        lines(old_text, '-'),
        lines(new_text, '+')
    )
}

/// Validates the tasks of some runners, and then grades a correct and a wrong solution for each.
fn grade_runners(runners: &[Runner], environment: &Value, sandbox: &str) {
    let stage = Stage::new();
    let (mut rows, mut solutions, mut wrong) = (String::new(), String::new(), String::new());
    for runner in runners {
        rows += &format!("{}\n", runner.task_row(&stage, environment));
        let line = |patch: String| {
            let name = "solution";
            json!({"instance_id": runner.name, "model_name_or_path": name, "model_patch": patch})
        };
        solutions += &format!("{}\n", line(runner.body_patch("0", runner.solution)));
        wrong += &format!("{}\n", line(runner.body_patch("0", &runner.solution.replace('+', "-"))));
    }
    let tasks = stage.write_file("tasks.jsonl", &rows);
    let tasks = tasks.to_str().unwrap();
    let said = stage.run(["tasks", "validate", "--sandbox", sandbox, "--tasks", tasks], 0);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for runner in runners.iter().filter(|runner| !runner.has_canaries) {
        assert!(said.contains(&format!("writes the {} results", runner.format)), "{said}");
    }
    let is_noted = runners.iter().any(|runner| !runner.has_canaries);
    assert_eq!(said.contains("integrity `unverified`"), is_noted, "{said}");
    for (name, patches, statuses, resolved) in [
        ("solved", solutions, ["passed", "passed"], runners.len()),
        ("wrong", wrong, ["failed", "passed"], 0),
    ] {
        let patches = stage.write_file(&format!("{name}.jsonl"), &patches);
        let out = stage.path(name);
        let (patches, out) = (patches.to_str().unwrap(), out.to_str().unwrap());
        let args = ["--predictions", patches, "--tasks", tasks, "--sandbox", sandbox, "--out", out];
        stage.run(["grade"].into_iter().chain(args), 0);
        let report = stage.report(Path::new(out));
        assert_eq!(find_arm(&report, "solution")["resolved"], resolved, "{report:#}");
        let verdicts = find_files(Path::new(out), "verdict.json");
        assert_eq!(verdicts.len(), runners.len());
        for verdict in verdicts {
            let verdict: Value = serde_json::from_slice(&fs::read(verdict).unwrap()).unwrap();
            let runner = runners.iter().find(|one| verdict["task"] == one.name).unwrap();
            let found = runner.test_ids.map(|id| verdict["tests"][id].clone());
            assert_eq!(found, statuses, "{}: {verdict:#}", runner.name);
            let is_clean = resolved > 0 && runner.has_canaries;
            let integrity = if is_clean { "clean" } else { "unverified" };
            assert_eq!(verdict["integrity"], integrity, "{}: {verdict:#}", runner.name);
        }
    }
}

/// A patch that does not solve the task but tries to make the grader report it as resolved.
struct Attack {
    name: &'static str,
    runner: Runner,
    /// The content of the file to complete.
    code: &'static str,
    is_resolved: bool,
    /// The evidence that the attack leaves, if any.
    evidence: Option<&'static str>,
}

const ATTACKS: &[Attack] = &[
    Attack {
        name: "exit",
        runner: NODE_TAP,
        code: "console.log('TAP version 13\\nok 1 - adds\\nok 2 - zero\\n1..2');\nprocess.exit(0);\n",
        is_resolved: false,
        evidence: Some("test_access"),
    },
    Attack {
        name: "assertion",
        runner: NODE_TAP,
        code: "const a = require('node:assert');\na['equal'] = () => {};\nmodule.exports = { add: (a, b) => 0 };\n",
        is_resolved: false,
        evidence: Some("report_canary_passed"),
    },
    Attack {
        name: "status",
        runner: NODE_TAP,
        code: "process.on('exit', () => { process.exitCode = 0; });\nmodule.exports = { add: (a, b) => 0 };\n",
        is_resolved: false,
        evidence: None,
    },
    Attack {
        name: "parent",
        runner: NODE_TAP,
        code: "try { process.kill(process.ppid, 9); } catch {}\nmodule.exports = { add: (a, b) => 0 };\n",
        is_resolved: false,
        evidence: Some("introspection_added"),
    },
    // This patch contains the values that the tests expect.
    Attack {
        name: "object",
        runner: NODE_TAP,
        code: "let i = 0;\nmodule.exports = { add: () => ({ valueOf: () => [3, 0][i++] }) };\n",
        is_resolved: true,
        evidence: Some("equal_to_everything"),
    },
    // Each run has its own sandbox, so the second run must behave like the first.
    Attack {
        name: "once",
        runner: NODE_TAP,
        code: "const { existsSync, writeFileSync } = require('node:fs');\nconst a = require('node:assert');\n\
               if (!existsSync('/tmp/once')) a['equal'] = () => {};\nwriteFileSync('/tmp/once', '');\n\
               module.exports = { add: (a, b) => 0 };\n",
        is_resolved: false,
        evidence: Some("report_canary_passed"),
    },
    Attack {
        name: "events",
        runner: NODE_JUNIT,
        code: "const { stdout } = process;\nconst write = stdout.write;\n\
               stdout.write = function (chunk, ...rest) {\n  if (typeof chunk !== 'string') {\n    chunk = Buffer.from(chunk);\n    \
               for (let at; (at = chunk.indexOf('test:fail')) >= 0; ) chunk.write('test:pass', at);\n  }\n  \
               return write.call(this, chunk, ...rest);\n};\nprocess.on('exit', () => { process.exitCode = 0; });\n\
               module.exports = { add: (a, b) => 0 };\n",
        is_resolved: false,
        evidence: Some("report_canary_passed"),
    },
    Attack {
        name: "report",
        runner: NODE_JUNIT,
        code: "require('node:fs').writeFileSync('report.xml', '<testsuite><testcase name=\"adds\"/><testcase name=\"zero\"/></testsuite>');\n\
               module.exports = { add: (a, b) => 0 };\n",
        is_resolved: false,
        evidence: Some("test_access"),
    },
    Attack {
        name: "tests",
        runner: PROVE,
        code: "package Calc;\nuse File::Copy;\ncopy('t/calc.t', 't/copy');\nrename('t/copy', 't/calc.t');\nsub add { return 0; }\n1;\n",
        is_resolved: false,
        evidence: Some("changed_during_run"),
    },
];

/// No attack may resolve its task with a clean verdict. Detectable attacks must leave evidence.
#[test]
fn attacks_on_node_and_perl_are_detected_or_unverified() {
    let stage = Stage::new();
    let environment = json!({"base": "host"});
    let (mut rows, mut patches) = (String::new(), String::new());
    for attack in ATTACKS {
        let mut row = attack.runner.task_row(&stage, &environment);
        row["id"] = json!(attack.name);
        rows += &format!("{row}\n");
        let patch = replacement_patch(
            attack.runner.code_file.0,
            &attack.runner.code_with_body("0"),
            attack.code,
        );
        let line = json!({"instance_id": attack.name, "model_name_or_path": "attack", "model_patch": patch});
        patches += &format!("{line}\n");
    }
    let (tasks, patches) =
        (stage.write_file("tasks.jsonl", &rows), stage.write_file("p.jsonl", &patches));
    let (tasks, patches) = (tasks.to_str().unwrap(), patches.to_str().unwrap());
    let out = stage.path("attacked");
    let out = out.to_str().unwrap();
    stage.run(["grade", "--predictions", patches, "--tasks", tasks, "--out", out], 0);
    let verdicts = find_files(Path::new(out), "verdict.json");
    assert_eq!(verdicts.len(), ATTACKS.len());
    for verdict in verdicts {
        let verdict: Value = serde_json::from_slice(&fs::read(verdict).unwrap()).unwrap();
        let attack = ATTACKS.iter().find(|one| verdict["task"] == one.name).unwrap();
        assert_eq!(verdict["resolved"], attack.is_resolved, "{}: {verdict:#}", attack.name);
        assert_ne!(verdict["integrity"], "clean", "{}: {verdict:#}", attack.name);
        let mut evidence = verdict["evidence"].as_array().unwrap().iter();
        let is_seen = |kind: &str| evidence.any(|one| one["kind"] == kind);
        assert!(attack.evidence.is_none_or(is_seen), "{}: {verdict:#}", attack.name);
    }
}

#[test]
fn node_and_perl_reports_are_graded_in_native_sandboxes() {
    grade_runners(&[NODE_TAP, NODE_JUNIT, PROVE], &json!({"base": "host"}), "native");
}

#[test]
fn npm_runner_reports_are_graded_in_native_sandboxes() {
    if is_full() {
        grade_runners(&[JEST, MOCHA, CTRF], &json!({"base": "host"}), "native");
    }
}

#[test]
fn debian_runner_reports_are_graded_on_docker() {
    let test = "debian_runner_reports_are_graded_on_docker";
    if !is_full() || !has_docker(test) {
        return;
    }
    let stage = Stage::new();
    let context = stage.path("context");
    fs::create_dir(&context).unwrap();
    fs::write(context.join("Dockerfile"), DOCKERFILE).unwrap();
    let environment = json!({"dockerfile": context});
    let runners = [NODE_TAP, PROVE, GO, CARGO, PHPUNIT, RSPEC, CTEST, MAVEN];
    grade_runners(&runners, &environment, "docker");
}
