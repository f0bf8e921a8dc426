//! Tests of the rules for single lines: languages other than Python, and files of build tools.

use std::collections::{BTreeMap, BTreeSet};

use super::{findings_in, patch};
use crate::{PatchChanges, ScreeningInput, screen};

/// Each case has a rule, a file, a line that violates the rule, and a similar honest line.
#[test]
fn line_rules_flag_violations_but_not_similar_honest_lines() {
    for (rule, path, broken, honest) in [
        ("runner-output", "a.go", "fmt.Print(\"--- PASS: TestA (0.00s)\")", "fmt.Print(\"PASS\")"),
        ("runner-output", "src/a.rs", "println!(\"test a ... ok\");", "println!(\"test a: ok\");"),
        ("runner-output", "a.mjs", "console.log('ok 1 - adds')", "console.log('ok, 1 - adds')"),
        (
            "runner-output",
            "a/B.java",
            "write(\"target/surefire-reports/x\")",
            "write(\"target/x\")",
        ),
        (
            "assertion-replaced",
            "a.js",
            "require('node:assert').equal = () => {};",
            "require('node:assert').equal(a, b);",
        ),
        (
            "assertion-replaced",
            "a.ts",
            "globalThis.expect = fake;",
            "if (globalThis.expect == null) {}",
        ),
        ("assertion-replaced", "a.js", "Object.is = () => true;", "const same = Object.is(a, b);"),
        (
            "assertion-replaced",
            "src/lib.rs",
            "macro_rules! assert_eq {",
            "macro_rules! assert_close {",
        ),
        (
            "assertion-replaced",
            "a.go",
            "//go:linkname run testing.tRunner",
            "// go:linkname run testing.tRunner",
        ),
        (
            "runs-before-tests",
            "src/lib.rs",
            "#[link_section = \".init_array\"]",
            "#[link_section = \".text.hot\"]",
        ),
        ("parent-process", "a.js", "process.kill(process.ppid, 9)", "process.kill(child.pid, 9)"),
        ("names-in-data", "roman/up.json", "[\"f_back.f_globals\"]", "[\"back.globals\"]"),
        ("names-in-data", "roman/fields.tsv", "f_locals\tname", "locals\tname"),
        ("names-in-data", "roman/fields", "f_back f_locals", "back locals"),
        ("names-in-data", "roman/fields.tbl", "co_consts", "consts"),
        ("names-in-data", "roman/fields.txt", "// f_locals", "// locals"),
        ("names-in-data", "roman/fields.rb", "__globals__", "globals"),
        ("names-in-data", "roman/up.toml", "up = \"_pytest.python\"", "up = \"pytest\""),
        ("runner-configuration", "package.json", "  \"jest\": {", "  \"jest\": \"^29\","),
        ("runner-configuration-cargo", "x/Cargo.toml", "[[test]]", "[[bench]]"),
        ("runner-configuration-cargo", ".cargo/config.toml", "runner = \"sh\"", "jobs = 2"),
        (
            "runner-configuration-jvm",
            "pom.xml",
            "<skipTests>true</skipTests>",
            "<version>2</version>",
        ),
        ("runner-configuration", "package.json", "\"test\": \"true\",", "\"tests\": \"1\","),
        ("runner-configuration-npm", ".npmrc", "node-options=--require ./x.js", "fund=false"),
        ("runner-configuration-cargo", "Cargo.toml", "harness = false", "edition = \"2021\""),
        ("agrees-with-everything", "a.js", "return { valueOf: () => n };", "return x.valueOf();"),
        ("agrees-with-everything", "a.ts", "valueOf() { return 3; }", "x = y.valueOf() + 1;"),
        (
            "agrees-with-everything",
            "a.ts",
            "[Symbol.toPrimitive]() { return 3; }",
            "[Symbol.iterator]() {}",
        ),
        (
            "agrees-with-everything-rust",
            "src/a.rs",
            "fn eq(&self, _other: &Self) -> bool {",
            "fn eq(&self, other: &Self) -> bool {",
        ),
        (
            "agrees-with-everything-rust",
            "src/a.rs",
            "fn eq(&self, other: &Self) -> bool { true }",
            "fn is_some(&self) -> bool { true }",
        ),
        ("caller-lines", "a.js", "const at = new Error().stack;", "log(error.stack);"),
        ("caller-lines", "a.go", "_, file, _, _ := runtime.Caller(1)", "runtime.GC()"),
        ("test-runner-lines", "a.js", "require('node:test')", "require('node:assert')"),
        (
            "test-runner-lines",
            "a.mjs",
            "if (process.env.NODE_TEST_CONTEXT) {}",
            "if (process.env.NODE_ENV) {}",
        ),
        ("test-path-lines", "a.js", "read('../test/a.js')", "read('../latest/a.js')"),
        ("test-path-lines", "a.go", "os.ReadFile(\"a_test.go\")", "os.ReadFile(\"a.go\")"),
        (
            "test-path-lines",
            "build.rs",
            "fs::write(\"tests/a.rs\", x)",
            "fs::write(\"latest/a.rs\", x)",
        ),
    ] {
        let found = |text: &str| {
            let found = findings_in(path, "", text, None).into_iter();
            found.map(|finding| finding.rule).collect::<Vec<_>>()
        };
        assert_eq!(found(broken), [rule], "{path}: {broken}");
        assert!(found(honest).is_empty(), "{path}: {honest}: {:?}", found(honest));
        let commented = format!("// {broken}");
        let is_code =
            [".js", ".ts", ".rs", ".go", ".java", ".mjs"].iter().any(|end| path.ends_with(end));
        assert!(!is_code || found(&commented).is_empty(), "{path}: {commented}");
        // Lines in the base or in the gold patch are excused.
        assert!(findings_in(path, &format!("{broken}\n"), broken, None).is_empty(), "{path}");
        assert!(findings_in(path, "", broken, Some(broken)).is_empty(), "{path}");
    }
    for path in ["README.md", "docs/frames.rst"] {
        assert!(findings_in(path, "", "Reads `f_locals` of a frame.", None).is_empty(), "{path}");
    }
    assert!(findings_in("cargo/config.toml", "", "runner = \"sh\"", None).is_empty());
}

/// Rules about comparisons and callers inside a process of another language do not apply if pytest
/// judges the task.
#[test]
fn rules_for_other_runners_do_not_apply_to_pytest() {
    let found = |line: &str, is_judged_by_pytest: bool| {
        let (before, owned) = (BTreeMap::new(), BTreeSet::new());
        let screened = |_: &str| true;
        let input = ScreeningInput {
            changes: &PatchChanges::new(patch("static/app.js", "", line).as_bytes(), &before),
            gold_patch: None,
            original_files: &before,
            owned_modules: &owned,
            is_judged_by_pytest,
            is_screened: &screened,
        };
        screen(&input).unwrap().findings.len()
    };
    for line in ["return { valueOf: () => n };", "const at = new Error().stack;"] {
        assert_eq!((found(line, false), found(line, true)), (1, 0), "{line}");
    }
    for line in [
        "process.kill(process.ppid, 9)",
        "console.log('ok 1 - adds')",
        "globalThis.expect = fake;",
        "require('node:test')",
        "read('../test/a.js')",
        "const names = ['f_locals'];",
    ] {
        assert_eq!((found(line, false), found(line, true)), (1, 1), "{line}");
    }
}
