//! Generates the table of formats in `docs/datasets.md`. Each cell refers to a test that proves its
//! claim.

use std::{fmt::Write as _, fs};

use crate::stage::root;

/// The text of a cell, and the test that proves it: the test's file, relative to the repository,
/// and its function.
type Proof = (&'static str, &'static str, &'static str);

struct Format {
    name: &'static str,
    loads: Proof,
    runs: &'static [Proof],
    /// Tests in which the gold patch is resolved and an empty patch is not.
    graded: &'static [Proof],
    /// Tests that compare Proctor's results with those of the format's official package.
    compared: &'static [Proof],
    cannot: &'static str,
}

const SHAPES: &str = "runtime/datasets/tests/all/shapes.rs";
const RUNNERS: &str = "tests/end_to_end/runners.rs";
const SWE_BENCH: &str = "tests/end_to_end/swe_bench.rs";
const FEATUREBENCH: &str = "tests/end_to_end/featurebench/mod.rs";
const HARBOR: &str = "tests/end_to_end/harbor.rs";
const AGREEMENT: &str = "runtime/official/tests/agreement/main.rs";
const GRADERS_TEST: &str = "official_graders_agree_on_every_log";
const OTHER_DATASETS_TEST: &str = "rows_of_other_datasets_are_graded_officially_on_docker";

const REPORTS_LOADED: Proof = (
    "yes",
    "runtime/datasets/tests/all/loading.rs",
    "test_results_allow_ids_of_other_runners_and_are_checked",
);
const NODE_AND_PERL: Proof =
    ("native", RUNNERS, "node_and_perl_reports_are_graded_in_native_sandboxes");
const NPM: Proof = ("native", RUNNERS, "npm_runner_reports_are_graded_in_native_sandboxes");
const DEBIAN: Proof = ("Docker", RUNNERS, "debian_runner_reports_are_graded_on_docker");
const UNVERIFIED: &[Proof] = &[(
    "`unverified`",
    "runtime/grade/tests/all/reports.rs",
    "only_gold_resolves_not_an_empty_or_wrong_patch",
)];
const NODE_GRADED: &[Proof] = &[
    (
        "strict (node)",
        "runtime/grade/tests/all/report_canaries.rs",
        "honest_node_solutions_are_clean_and_wrong_ones_unresolved",
    ),
    UNVERIFIED[0],
];
const CARGO_GRADED: &[Proof] = &[
    (
        "strict (cargo)",
        "runtime/grade/tests/all/report_canaries.rs",
        "honest_cargo_solutions_are_clean",
    ),
    UNVERIFIED[0],
];
const NPM_GRADED: &[Proof] =
    &[("strict", RUNNERS, "npm_runner_reports_are_graded_in_native_sandboxes")];
const SWE_BENCH_GRADED: &[Proof] =
    &[("strict", SWE_BENCH, OTHER_DATASETS_TEST), ("official", SWE_BENCH, OTHER_DATASETS_TEST)];

/// Datasets that have their own loader and are graded in the same way as SWE-bench.
const LIKE_SWE_BENCH: Format = Format {
    name: "",
    loads: ("", "", ""),
    runs: &[("Docker", SWE_BENCH, OTHER_DATASETS_TEST)],
    graded: SWE_BENCH_GRADED,
    compared: &[],
    cannot: "",
};

const FORMATS: &[Format] = &[
    Format {
        name: "own tasks, pytest",
        loads: (
            "yes",
            "runtime/datasets/tests/all/loading.rs",
            "bad_row_is_reported_and_others_load",
        ),
        runs: &[
            ("native", "tests/end_to_end/demo.rs", "demo_distinguishes_gold_noop_and_a_script"),
            ("Docker", "tests/end_to_end/demo.rs", "docker_demo_has_the_same_verdicts"),
        ],
        graded: &[(
            "strict",
            "tests/end_to_end/demo.rs",
            "demo_distinguishes_gold_noop_and_a_script",
        )],
        compared: &[],
        cannot: "",
    },
    Format {
        name: "`test_results` `junit`",
        loads: REPORTS_LOADED,
        runs: &[NODE_AND_PERL, DEBIAN],
        graded: NODE_GRADED,
        compared: &[],
        cannot: "verdicts that are `clean`, except with node",
    },
    Format {
        name: "`test_results` `tap`",
        loads: REPORTS_LOADED,
        runs: &[NODE_AND_PERL, DEBIAN],
        graded: NODE_GRADED,
        compared: &[],
        cannot: "verdicts that are `clean`, except with node",
    },
    Format {
        name: "`test_results` `go-json`, `libtest`",
        loads: REPORTS_LOADED,
        runs: &[DEBIAN],
        graded: CARGO_GRADED,
        compared: &[],
        cannot: "verdicts that are `clean`, except with cargo; tests in the file that is graded",
    },
    Format {
        name: "`test_results` `jest`, `ctrf`",
        loads: REPORTS_LOADED,
        runs: &[NPM],
        graded: NPM_GRADED,
        compared: &[],
        cannot: "",
    },
    Format {
        name: "Harbor folders",
        loads: (
            "yes",
            "runtime/datasets/tests/all/harbor.rs",
            "harbor_folder_loads_by_every_kind_of_address",
        ),
        runs: &[("Docker", HARBOR, "gold_resolves_a_folder_and_noop_does_not")],
        graded: &[(
            "rewards",
            HARBOR,
            "verifier_sees_the_complete_result_and_follows_the_task_settings",
        )],
        compared: &[
            (
                "digests",
                "runtime/harbor/tests/all/digests.rs",
                "digests_and_inputs_match_harbors_package",
            ),
            (
                "`task.toml`",
                "runtime/harbor/tests/all/configs.rs",
                "configurations_match_harbors_package",
            ),
            ("lint", "runtime/harbor/tests/all/lint.rs", "findings_match_harbors_package"),
        ],
        cannot: "native sandboxes; several services or steps; Windows, GPUs, TPUs; curves",
    },
    Format {
        name: "SWE-bench, classic and 5.x",
        loads: ("yes", SHAPES, "swe_bench_5_row_has_image_script_and_parser"),
        runs: &[
            ("native", SWE_BENCH, "row_is_graded_officially_in_native_sandboxes"),
            ("Docker", SWE_BENCH, "row_is_graded_officially_on_docker_by_its_own_script"),
        ],
        graded: &[
            ("strict", SWE_BENCH, "row_is_graded_officially_on_docker_by_its_own_script"),
            ("official", SWE_BENCH, "row_is_graded_officially_on_docker_by_its_own_script"),
        ],
        compared: &[("`swebench` 5.0.2, 4.1.0, 3.0.4", AGREEMENT, GRADERS_TEST)],
        cannot: "",
    },
    Format {
        name: "SWE-bench 5.x, other languages",
        loads: ("yes", SHAPES, "row_of_another_language_needs_a_test_command"),
        runs: &[("native", SWE_BENCH, "row_without_pytest_gets_only_the_official_verdict")],
        graded: &[("official", SWE_BENCH, "row_without_pytest_gets_only_the_official_verdict")],
        compared: &[("`swebench` 5.0.2", AGREEMENT, GRADERS_TEST)],
        cannot: "strict",
    },
    Format {
        name: "SWE-Gym",
        loads: ("yes", SHAPES, "swe_gym_is_detected_by_its_missing_commit"),
        ..LIKE_SWE_BENCH
    },
    Format {
        name: "SWE-rebench",
        loads: ("yes", SHAPES, "swe_rebench_install_config_is_an_object_or_text"),
        ..LIKE_SWE_BENCH
    },
    Format {
        name: "SWE-bench-Live",
        loads: ("yes", SHAPES, "swe_bench_live_keeps_commands_and_ignores_parser_code"),
        ..LIKE_SWE_BENCH
    },
    Format {
        name: "SWE-smith",
        loads: ("yes", SHAPES, "swe_smith_patch_is_the_bug"),
        runs: &[("Docker", SWE_BENCH, "swe_smith_row_is_graded_officially_on_docker")],
        graded: &[("official", SWE_BENCH, "swe_smith_row_is_graded_officially_on_docker")],
        compared: &[("`swesmith`", AGREEMENT, GRADERS_TEST)],
        cannot: "",
    },
    Format {
        name: "FeatureBench",
        loads: ("yes", SHAPES, "featurebench_level_1_is_masked_and_hides_its_test"),
        runs: &[
            ("native", FEATUREBENCH, "featurebench_rows_are_graded_in_native_sandboxes"),
            ("Docker", FEATUREBENCH, "featurebench_gold_resolves_and_noop_does_not_on_docker"),
        ],
        graded: &[
            ("strict", FEATUREBENCH, "featurebench_gold_resolves_and_noop_does_not_on_docker"),
            ("official", FEATUREBENCH, "featurebench_gold_resolves_and_noop_does_not_on_docker"),
        ],
        compared: &[
            ("its harness", FEATUREBENCH, "featurebench_harness_agrees_on_docker"),
            ("its parsers", AGREEMENT, GRADERS_TEST),
        ],
        cannot: "",
    },
    Format {
        name: "FEA-Bench",
        loads: ("yes", SHAPES, "fea_bench_standard_and_medium_give_equal_tasks"),
        runs: &[(
            "native",
            "tests/end_to_end/fea_bench.rs",
            "rows_with_only_ids_are_completed_from_a_clone",
        )],
        graded: &[(
            "strict",
            "tests/end_to_end/fea_bench.rs",
            "rows_with_only_ids_are_completed_from_a_clone",
        )],
        compared: &[("`swebench` 3.0.4", AGREEMENT, GRADERS_TEST)],
        cannot: "images: you build them",
    },
];

const BEGIN: &str = "<!-- formats: written by tests/end_to_end/formats.rs -->\n";
const END: &str = "<!-- end of formats -->\n";

/// Returns the text of a cell. First checks that every test it refers to exists.
fn render_cell(shown: &[Proof]) -> String {
    for (_, file, test) in shown {
        let source = fs::read_to_string(root().join(file)).unwrap_or_default();
        let is_test = ["#[test]\n", "#[tokio::test]\n"].iter().any(|mark| {
            source.contains(&format!("{mark}fn {test}("))
                || source.contains(&format!("{mark}async fn {test}("))
        });
        assert!(is_test, "{file} has no test {test}, which docs/datasets.md refers to");
    }
    let words: Vec<&str> = shown.iter().map(|(word, ..)| *word).collect();
    words.join(", ")
}

fn render_table() -> String {
    let mut out = "| format | loads | runs | graded | compared with its own package | cannot |\n\
                   | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for format in FORMATS {
        let Format { name, loads, runs, graded, compared, cannot } = format;
        let cells = [std::slice::from_ref(loads), *runs, *graded, *compared].map(render_cell);
        writeln!(out, "| {name} | {} | {cannot} |", cells.join(" | ")).unwrap();
    }
    out
}

#[test]
fn formats_table_is_current_and_names_existing_tests() {
    let file = root().join("docs/datasets.md");
    let page = fs::read_to_string(&file).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let current = format!("{head}{BEGIN}\n{}\n{END}{tail}", render_table());
    if std::env::var_os("PROCTOR_WRITE").is_some() {
        fs::write(&file, &current).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap();
    assert!(
        written == current,
        "the table of docs/datasets.md is out of date\n\
         hint: run `PROCTOR_WRITE=1 cargo test -p proctor --test end_to_end formats_table`"
    );
}
