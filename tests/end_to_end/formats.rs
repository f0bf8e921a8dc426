//! Generates the table of formats in `docs/reference/datasets.md`. Each cell refers to a test that proves its
//! claim.

use std::{fmt::Write as _, fs};

use crate::stage::repository_root;

/// The text of a cell, and the test that proves it: the test's file, relative to the repository,
/// and its function.
type Proof = (&'static str, &'static str, &'static str);

struct DatasetFormat {
    name: &'static str,
    load_test: Proof,
    run_tests: &'static [Proof],
    /// Tests in which the gold patch is resolved and an empty patch is not.
    grading_tests: &'static [Proof],
    /// Tests that compare Proctor's results with those of the format's official package.
    comparison_tests: &'static [Proof],
    limitations: &'static str,
}

const SHAPES_FILE: &str = "runtime/datasets/tests/all/shapes.rs";
const RUNNERS_FILE: &str = "tests/end_to_end/runners.rs";
const SWE_BENCH_FILE: &str = "tests/end_to_end/swe_bench.rs";
const FEATUREBENCH_FILE: &str = "tests/end_to_end/featurebench/mod.rs";
const HARBOR_FILE: &str = "tests/end_to_end/harbor.rs";
const AGREEMENT_FILE: &str = "runtime/official/tests/agreement/main.rs";
const GRADERS_TEST: &str = "official_graders_agree_on_every_log";
const OTHER_DATASETS_TEST: &str = "rows_of_other_datasets_are_graded_officially_on_docker";

const REPORTS_LOADED_PROOF: Proof = (
    "yes",
    "runtime/datasets/tests/all/loading.rs",
    "test_results_allow_ids_of_other_runners_and_are_checked",
);
const NODE_AND_PERL_PROOF: Proof =
    ("native", RUNNERS_FILE, "node_and_perl_reports_are_graded_in_native_sandboxes");
const NPM_PROOF: Proof =
    ("native", RUNNERS_FILE, "npm_runner_reports_are_graded_in_native_sandboxes");
const DEBIAN_PROOF: Proof = ("Docker", RUNNERS_FILE, "debian_runner_reports_are_graded_on_docker");
const UNVERIFIED_PROOFS: &[Proof] =
    &[("`unverified`", "runtime/grade/tests/all/reports.rs", "only_the_gold_patch_is_resolved")];
const NODE_GRADING_PROOFS: &[Proof] = &[
    (
        "strict (node)",
        "runtime/grade/tests/all/report_canaries.rs",
        "honest_node_solutions_are_clean_and_wrong_ones_unresolved",
    ),
    UNVERIFIED_PROOFS[0],
];
const CARGO_GRADING_PROOFS: &[Proof] = &[
    (
        "strict (cargo)",
        "runtime/grade/tests/all/report_canaries.rs",
        "honest_cargo_solutions_are_clean",
    ),
    UNVERIFIED_PROOFS[0],
];
const NPM_GRADING_PROOFS: &[Proof] =
    &[("strict", RUNNERS_FILE, "npm_runner_reports_are_graded_in_native_sandboxes")];
const SWE_BENCH_GRADING_PROOFS: &[Proof] = &[
    ("strict", SWE_BENCH_FILE, OTHER_DATASETS_TEST),
    ("official", SWE_BENCH_FILE, OTHER_DATASETS_TEST),
];

/// Datasets that have their own loader and are graded in the same way as SWE-bench.
const SWE_BENCH_LIKE_FORMAT: DatasetFormat = DatasetFormat {
    name: "",
    load_test: ("", "", ""),
    run_tests: &[("Docker", SWE_BENCH_FILE, OTHER_DATASETS_TEST)],
    grading_tests: SWE_BENCH_GRADING_PROOFS,
    comparison_tests: &[],
    limitations: "",
};

const FORMATS: &[DatasetFormat] = &[
    DatasetFormat {
        name: "own tasks, pytest",
        load_test: (
            "yes",
            "runtime/datasets/tests/all/loading.rs",
            "bad_row_is_reported_and_others_load",
        ),
        run_tests: &[
            ("native", "tests/end_to_end/demo.rs", "demo_distinguishes_gold_noop_and_a_script"),
            ("Docker", "tests/end_to_end/demo.rs", "docker_demo_has_the_same_verdicts"),
        ],
        grading_tests: &[(
            "strict",
            "tests/end_to_end/demo.rs",
            "demo_distinguishes_gold_noop_and_a_script",
        )],
        comparison_tests: &[],
        limitations: "",
    },
    DatasetFormat {
        name: "`test_results` `junit`",
        load_test: REPORTS_LOADED_PROOF,
        run_tests: &[NODE_AND_PERL_PROOF, DEBIAN_PROOF],
        grading_tests: NODE_GRADING_PROOFS,
        comparison_tests: &[],
        limitations: "verdicts that are `clean`, except with node",
    },
    DatasetFormat {
        name: "`test_results` `tap`",
        load_test: REPORTS_LOADED_PROOF,
        run_tests: &[NODE_AND_PERL_PROOF, DEBIAN_PROOF],
        grading_tests: NODE_GRADING_PROOFS,
        comparison_tests: &[],
        limitations: "verdicts that are `clean`, except with node",
    },
    DatasetFormat {
        name: "`test_results` `go-json`, `libtest`",
        load_test: REPORTS_LOADED_PROOF,
        run_tests: &[DEBIAN_PROOF],
        grading_tests: CARGO_GRADING_PROOFS,
        comparison_tests: &[],
        limitations: "verdicts that are `clean`, except with cargo; tests in the file that is graded",
    },
    DatasetFormat {
        name: "`test_results` `jest`, `ctrf`",
        load_test: REPORTS_LOADED_PROOF,
        run_tests: &[NPM_PROOF],
        grading_tests: NPM_GRADING_PROOFS,
        comparison_tests: &[],
        limitations: "",
    },
    DatasetFormat {
        name: "Harbor folders",
        load_test: (
            "yes",
            "runtime/datasets/tests/all/harbor.rs",
            "harbor_folder_loads_by_every_kind_of_address",
        ),
        run_tests: &[("Docker", HARBOR_FILE, "gold_resolves_a_folder_and_noop_does_not")],
        grading_tests: &[(
            "rewards",
            HARBOR_FILE,
            "verifier_sees_the_complete_result_and_follows_the_task_settings",
        )],
        comparison_tests: &[
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
        limitations: "native sandboxes; several services or steps; Windows, GPUs, TPUs; curves",
    },
    DatasetFormat {
        name: "SWE-bench, classic and 5.x",
        load_test: ("yes", SHAPES_FILE, "swe_bench_5_row_has_image_script_and_parser"),
        run_tests: &[
            ("native", SWE_BENCH_FILE, "row_is_graded_officially_in_native_sandboxes"),
            ("Docker", SWE_BENCH_FILE, "row_is_graded_officially_on_docker_by_its_own_script"),
        ],
        grading_tests: &[
            ("strict", SWE_BENCH_FILE, "row_is_graded_officially_on_docker_by_its_own_script"),
            ("official", SWE_BENCH_FILE, "row_is_graded_officially_on_docker_by_its_own_script"),
        ],
        comparison_tests: &[("`swebench` 5.0.2, 4.1.0, 3.0.4", AGREEMENT_FILE, GRADERS_TEST)],
        limitations: "",
    },
    DatasetFormat {
        name: "SWE-bench 5.x, other languages",
        load_test: ("yes", SHAPES_FILE, "row_of_another_language_needs_a_test_command"),
        run_tests: &[(
            "native",
            SWE_BENCH_FILE,
            "row_without_pytest_gets_only_the_official_verdict",
        )],
        grading_tests: &[(
            "official",
            SWE_BENCH_FILE,
            "row_without_pytest_gets_only_the_official_verdict",
        )],
        comparison_tests: &[("`swebench` 5.0.2", AGREEMENT_FILE, GRADERS_TEST)],
        limitations: "strict",
    },
    DatasetFormat {
        name: "SWE-Gym",
        load_test: ("yes", SHAPES_FILE, "swe_gym_is_detected_by_its_missing_commit"),
        ..SWE_BENCH_LIKE_FORMAT
    },
    DatasetFormat {
        name: "SWE-rebench",
        load_test: ("yes", SHAPES_FILE, "swe_rebench_install_config_is_an_object_or_text"),
        ..SWE_BENCH_LIKE_FORMAT
    },
    DatasetFormat {
        name: "SWE-bench-Live",
        load_test: ("yes", SHAPES_FILE, "swe_bench_live_keeps_commands_and_ignores_parser_code"),
        ..SWE_BENCH_LIKE_FORMAT
    },
    DatasetFormat {
        name: "SWE-smith",
        load_test: ("yes", SHAPES_FILE, "swe_smith_patch_is_the_bug"),
        run_tests: &[("Docker", SWE_BENCH_FILE, "swe_smith_row_is_graded_officially_on_docker")],
        grading_tests: &[(
            "official",
            SWE_BENCH_FILE,
            "swe_smith_row_is_graded_officially_on_docker",
        )],
        comparison_tests: &[("`swesmith`", AGREEMENT_FILE, GRADERS_TEST)],
        limitations: "",
    },
    DatasetFormat {
        name: "FeatureBench",
        load_test: ("yes", SHAPES_FILE, "featurebench_level_1_is_masked_and_hides_its_test"),
        run_tests: &[
            ("native", FEATUREBENCH_FILE, "featurebench_rows_are_graded_in_native_sandboxes"),
            ("Docker", FEATUREBENCH_FILE, "featurebench_gold_resolves_and_noop_does_not_on_docker"),
        ],
        grading_tests: &[
            ("strict", FEATUREBENCH_FILE, "featurebench_gold_resolves_and_noop_does_not_on_docker"),
            (
                "official",
                FEATUREBENCH_FILE,
                "featurebench_gold_resolves_and_noop_does_not_on_docker",
            ),
        ],
        comparison_tests: &[
            ("its harness", FEATUREBENCH_FILE, "featurebench_harness_agrees_on_docker"),
            ("its parsers", AGREEMENT_FILE, GRADERS_TEST),
        ],
        limitations: "",
    },
    DatasetFormat {
        name: "FEA-Bench",
        load_test: ("yes", SHAPES_FILE, "fea_bench_standard_and_medium_give_equal_tasks"),
        run_tests: &[(
            "native",
            "tests/end_to_end/fea_bench.rs",
            "rows_with_only_ids_are_completed_from_a_clone",
        )],
        grading_tests: &[(
            "strict",
            "tests/end_to_end/fea_bench.rs",
            "rows_with_only_ids_are_completed_from_a_clone",
        )],
        comparison_tests: &[("`swebench` 3.0.4", AGREEMENT_FILE, GRADERS_TEST)],
        limitations: "images: you build them",
    },
];

const BEGIN_MARKER: &str = "<!-- formats: written by tests/end_to_end/formats.rs -->\n";
const END_MARKER: &str = "<!-- end of formats -->\n";

/// Returns the text of a cell. First checks that every test it refers to exists.
fn render_cell(proofs: &[Proof]) -> String {
    for (_, file, test) in proofs {
        let source = fs::read_to_string(repository_root().join(file)).unwrap_or_default();
        let is_test = ["#[test]\n", "#[tokio::test]\n"].iter().any(|mark| {
            source.contains(&format!("{mark}fn {test}("))
                || source.contains(&format!("{mark}async fn {test}("))
        });
        assert!(is_test, "{file} has no test {test}, which docs/reference/datasets.md refers to");
    }
    let words: Vec<&str> = proofs.iter().map(|(word, ..)| *word).collect();
    words.join(", ")
}

fn render_table() -> String {
    let mut out = "| format | loads | runs | graded | compared with its own package | cannot |\n\
                   | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for format in FORMATS {
        let DatasetFormat {
            name,
            load_test: loads,
            run_tests: runs,
            grading_tests: graded,
            comparison_tests: compared,
            limitations: cannot,
        } = format;
        let cells = [std::slice::from_ref(loads), *runs, *graded, *compared].map(render_cell);
        writeln!(out, "| {name} | {} | {cannot} |", cells.join(" | ")).unwrap();
    }
    out
}

#[test]
fn formats_table_is_current_and_names_existing_tests() {
    let file = repository_root().join("docs/reference/datasets.md");
    let page = fs::read_to_string(&file).unwrap();
    let (head, rest) = page.split_once(BEGIN_MARKER).unwrap();
    let (_, tail) = rest.split_once(END_MARKER).unwrap();
    let current = format!("{head}{BEGIN_MARKER}\n{}\n{END_MARKER}{tail}", render_table());
    if std::env::var_os("PROCTOR_WRITE").is_some() {
        fs::write(&file, &current).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap();
    assert!(
        written == current,
        "the table of docs/reference/datasets.md is out of date\n\
         hint: run `PROCTOR_WRITE=1 cargo test -p proctor --test end_to_end formats_table`"
    );
}
