//! Rules over single lines: other languages than Python, and files of build tools.

use super::found_in;

#[test]
fn lines_of_other_languages() {
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
        (
            "build-script-writes-tests",
            "build.rs",
            "fs::write(\"tests/a.rs\", x)",
            "fs::write(\"latest/a.rs\", x)",
        ),
    ] {
        let found = |text: &str| {
            let found = found_in(path, "", text, None).into_iter();
            found.map(|finding| finding.rule).collect::<Vec<_>>()
        };
        assert_eq!(found(broken), [rule], "{path}: {broken}");
        assert!(found(honest).is_empty(), "{path}: {honest}: {:?}", found(honest));
        let commented = format!("// {broken}");
        let is_code =
            [".js", ".ts", ".rs", ".go", ".java", ".mjs"].iter().any(|end| path.ends_with(end));
        assert!(!is_code || found(&commented).is_empty(), "{path}: {commented}");
        // What the base or the gold has is excused.
        assert!(found_in(path, &format!("{broken}\n"), broken, None).is_empty(), "{path}");
        assert!(found_in(path, "", broken, Some(broken)).is_empty(), "{path}");
    }
    assert!(found_in("cargo/config.toml", "", "runner = \"sh\"", None).is_empty());
}
