//! Generates as many rows as the real datasets have, of the same size, so that loading takes as long.
//! The same index always gives the same bytes.

use serde_json::{Value, json};

/// Number of rows in SWE-bench's test split.
pub const SWE_BENCH_ROW_COUNT: usize = 2294;
/// Number of rows in FeatureBench's full split.
pub const FEATUREBENCH_ROW_COUNT: usize = 200;

/// A small random number generator. No crate is used, because its output might change between
/// versions.
struct Generator(u64);

impl Generator {
    fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }

    fn words(&mut self, count: usize) -> String {
        const WORDS: [&str; 16] = [
            "the",
            "parser",
            "returns",
            "an",
            "\"unexpected\"",
            "value\n",
            "when",
            "étude",
            "`None`",
            "is",
            "given\tas",
            "model_class",
            "argument",
            "\\n",
            "self.assertEqual(a, b)\n",
            "of",
        ];
        let mut out = String::with_capacity(count * 7);
        for _ in 0..count {
            out.push_str(WORDS[self.below(WORDS.len())]);
            out.push(' ');
        }
        out
    }

    fn patch(&mut self, path: &str, lines: usize) -> String {
        let mut out = format!(
            "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{lines} +1,{lines} @@\n"
        );
        for _ in 0..lines {
            let mark = [" ", "+", "-"][self.below(3)];
            let indent = " ".repeat(4 * self.below(4));
            let text = self.words(5).replace('\n', " ");
            out.push_str(&format!("{mark}{indent}{text}\n"));
        }
        out
    }

    fn ids(&mut self, count: usize) -> Vec<String> {
        (0..count)
            .map(|at| {
                format!("tests/unit/test_part_{}.py::TestThing::test_case_{at}[a-{at} b]", at % 7)
            })
            .collect()
    }
}

/// A row in SWE-bench's classic form, with lists as JSON text. About 16 KB.
pub fn generate_swe_bench_row(index: usize) -> Value {
    let mut generator = Generator(index as u64 * 2 + 1);
    let (statement, hints) = (100 + generator.below(300), generator.below(400));
    let (patch, test_patch, p2p) =
        (10 + generator.below(60), 20 + generator.below(100), generator.below(220));
    json!({
        "repo": "astropy/astropy", "instance_id": format!("astropy__astropy-{index}"),
        "base_commit": "d16bfe05a744909de4b27f5875fe0d4ed41ce607",
        "patch": generator.patch("astropy/modeling/separable.py", patch),
        "test_patch": generator.patch("tests/unit/test_part_0.py", test_patch),
        "problem_statement": generator.words(statement), "hints_text": generator.words(hints),
        "created_at": "2022-03-03T15:14:54Z", "version": "4.3",
        "FAIL_TO_PASS": json!(["tests/unit/test_part_0.py::test_new"]).to_string(),
        "PASS_TO_PASS": json!(generator.ids(p2p)).to_string(),
        "environment_setup_commit": "298ccb478e6bf092953bca67a3d29dc6c35f6752"
    })
}

/// A row in FeatureBench's form, with a long statement, corruption patches and settings as JSON
/// text. About 110 KB.
pub fn generate_featurebench_row(index: usize) -> Value {
    let mut generator = Generator(index as u64 * 2 + 7);
    let statement = 3000 + generator.below(4000);
    let (patch, test_patch) = (500 + generator.below(1500), 200 + generator.below(800));
    let settings = json!({
        "repository": "mwaskom/seaborn", "test_cmd": "pytest -rA --color=no", "timeout_run": 600,
        "timeout_one": 10, "pre_install": generator.words(200), "black_links": ["https://github.com/mwaskom/seaborn"]
    });
    json!({
        "instance_id": format!("mwaskom__seaborn.7001ebe7.test_part_0.{index:08x}.lv1"),
        "patch": generator.patch("seaborn/core.py", patch),
        "test_patch": generator.patch("tests/unit/test_part_0.py", test_patch),
        "FAIL_TO_PASS": ["tests/unit/test_part_0.py"],
        "PASS_TO_PASS": (1..6).map(|at| format!("tests/unit/test_part_{at}.py")).collect::<Vec<_>>(),
        "image_name": "libercoders/featurebench-specs_seaborn-instance_52738fbb",
        "repo": "mwaskom/seaborn", "base_commit": "7001ebe72423238e99c0434a2ef0a0ebc9cb55c1",
        "problem_statement": generator.words(statement), "repo_settings": settings.to_string()
    })
}
