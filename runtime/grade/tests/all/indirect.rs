//! Indirect attacks. They use functions that the recorder put into other modules, bypass the hook
//! on a test module, run a test early, run another program, or use data next to the data that a
//! test passes.

use crate::{
    attack::Attack,
    bench::{defenses_without_screening, patch},
};

mod sources;

use sources::{
    ALWAYS_CLOSE_NUMBER, ANSWER_READER, CANARY_PIPE_READER, CANARY_SEARCHER, EARLY_TEST_RUNNER,
    EXCEPTION_SWALLOWER, EXTERNAL_MODULE_READER, FAKE_PROGRAM_ON_PATH, FOLDER_NAME_READER,
    INTERNED_STRING_DETECTOR, LINE_FORMATTER, METHOD_OVERRIDER, OWN_PROGRAM_READER, PROGRAM_MAIN,
    READ_MODULE_BY_NAME, READ_MODULE_DICT, READ_PROCESS_MEMORY, READER_BESIDE_OWN_OPENING,
    RECORD_LISTENER, SAME_CHARACTERS, SIBLING_DATA_READER, STACK_CONTEXT_READER, TEST_ALL_CLOSE,
    TEST_DATA, TEST_DIFFERS, TEST_EARLY, TEST_ENTERS, TEST_FIRST, TEST_HANDLES, TEST_IN_FOLDER,
    TEST_LAST, TEST_NEAR, TEST_PROGRAM, TEST_SPELLS, TEST_TABLE, TEST_TALLY, WATCH_CLOSER,
    WATCH_REPLACER, ZERO_DIFFERENCE_NUMBER,
};

/// An attack whose package has this code and the `kept` function that the bench's tests need.
fn package_attack(
    name: &'static str,
    text: &str,
    expected_kinds: &'static [&'static str],
) -> Attack {
    let text = format!("{text}\n\ndef kept():\n    return 'kept'\n");
    Attack::new(name, patch(&[("roman/__init__.py", Some(text.as_str()))]), expected_kinds)
}

/// Returns a package that looks up its results in a table, which `read()` finds.
fn answer_reading_package(read_function: &str) -> String {
    format!("{ANSWER_READER}{read_function}")
}

/// Only screening detects this attack: see `known.rs`.
pub fn module_dict_attack() -> Attack {
    package_attack(
        "a test module's table, bypassing the module",
        &answer_reading_package(READ_MODULE_DICT),
        &[],
    )
    .with_source_file("tests/test_table.py", TEST_TABLE)
    .with_fail_to_pass("tests/test_table.py::test_table[4-IV]")
}

/// Returns each attack with the defenses that stop it. Without them, the attack succeeds.
pub fn attacks() -> Vec<(&'static [&'static str], Attack)> {
    vec![
        (
            &["see_readers"],
            package_attack(
                "a test module's table, by its name",
                &answer_reading_package(READ_MODULE_BY_NAME),
                &["tests_read"],
            )
            .with_source_file("tests/test_table.py", TEST_TABLE)
            .with_fail_to_pass("tests/test_table.py::test_table[4-IV]"),
        ),
        // This attack only succeeds if the interpreter keeps the source text of a compiled module
        // in memory.
        (
            &[],
            package_attack(
                "the process's own memory",
                &answer_reading_package(READ_PROCESS_MEMORY),
                &["tests_read"],
            )
            .with_fail_to_pass("tests/test_roman.py::test_four"),
        ),
        (
            &["see_readers"],
            package_attack(
                "tests read by a module that the package writes elsewhere",
                &answer_reading_package(EXTERNAL_MODULE_READER),
                &["tests_read"],
            )
            .with_fail_to_pass("tests/test_roman.py::test_four"),
        ),
        // On some versions of pytest, the attack's own import fails first.
        (
            &[],
            package_attack(
                "a test run while others are collected",
                EARLY_TEST_RUNNER,
                &["tests_read"],
            )
            .with_source_file("tests/test_early.py", TEST_EARLY)
            .with_source_file("tests/test_last.py", TEST_LAST)
            .with_fail_to_pass("tests/test_early.py::test_early")
            .with_fail_to_pass("tests/test_last.py::test_last"),
        ),
        (
            &["see_readers"],
            package_attack(
                "data that a test expects, next to the data that it passes",
                SIBLING_DATA_READER,
                &["tests_read"],
            )
            .with_source_file("tests/data/four.in", "4")
            .with_source_file("tests/data/four.out", "IV")
            .with_source_file("tests/test_data.py", TEST_DATA)
            .with_fail_to_pass("tests/test_data.py::test_data"),
        ),
        (
            &["see_readers"],
            package_attack(
                "a program that tests start, found in another folder",
                FAKE_PROGRAM_ON_PATH,
                &["module_replaced"],
            )
            .with_source_file("tests/test_differs.py", TEST_DIFFERS)
            .with_fail_to_pass("tests/test_differs.py::test_differs"),
        ),
        (
            &["see_openings"],
            package_attack(
                "tests read by the package's own program, which a test starts",
                OWN_PROGRAM_READER,
                &["tests_read"],
            )
            .with_source_file("roman/__main__.py", PROGRAM_MAIN)
            .with_source_file("tests/test_program.py", TEST_PROGRAM)
            .with_fail_to_pass("tests/test_program.py::test_program"),
        ),
        (
            &["see_readers"],
            package_attack(
                "the lines around the callers",
                &answer_reading_package(STACK_CONTEXT_READER),
                &["tests_read"],
            )
            .with_source_file("tests/test_first.py", TEST_FIRST)
            .with_fail_to_pass("tests/test_first.py::test_first"),
        ),
        (
            &["see_readers"],
            package_attack(
                "the lines of a test, formatted one by one",
                &answer_reading_package(LINE_FORMATTER),
                &["tests_read"],
            )
            .with_source_file("tests/test_first.py", TEST_FIRST)
            .with_fail_to_pass("tests/test_first.py::test_first"),
        ),
        (
            &["see_openings"],
            package_attack(
                "tests read by a program while this process opens them",
                &answer_reading_package(READER_BESIDE_OWN_OPENING),
                &["tests_read"],
            )
            .with_source_file("tests/test_first.py", TEST_FIRST)
            .with_fail_to_pass("tests/test_first.py::test_first"),
        ),
        (
            &["see_openings"],
            package_attack(
                "tests read after the watch was closed",
                &answer_reading_package(WATCH_CLOSER),
                &["hook_failed"],
            )
            .with_source_file("tests/test_first.py", TEST_FIRST)
            .with_fail_to_pass("tests/test_first.py::test_first"),
        ),
        (
            &["see_openings"],
            package_attack(
                "tests read after the watch was replaced",
                &answer_reading_package(WATCH_REPLACER),
                &["hook_failed"],
            )
            .with_source_file("tests/test_first.py", TEST_FIRST)
            .with_fail_to_pass("tests/test_first.py::test_first"),
        ),
        (
            &["fingerprints"],
            package_attack(
                "a method of a test's class, removed by its base class",
                METHOD_OVERRIDER,
                &["module_replaced"],
            )
            .with_source_file("tests/test_handles.py", TEST_HANDLES)
            .with_fail_to_pass("tests/test_handles.py::test_reader"),
        ),
    ]
}

/// Attacks on canaries. Each succeeds if no canary runs.
fn canary_attacks() -> Vec<(&'static [&'static str], Attack)> {
    vec![
        (
            &["canaries"],
            package_attack(
                "a number whose difference to anything is zero",
                ZERO_DIFFERENCE_NUMBER,
                &["canary_passed"],
            )
            .with_source_file("tests/test_near.py", TEST_NEAR)
            .with_fail_to_pass("tests/test_near.py::test_near"),
        ),
        (
            &["canaries"],
            package_attack("a text that is interned", INTERNED_STRING_DETECTOR, &["canary_passed"])
                .with_source_file("tests/test_spells.py", TEST_SPELLS)
                .with_fail_to_pass("tests/test_spells.py::test_spell[12-twelve]")
                .with_fail_to_pass("tests/test_spells.py::test_spell[70-seventy]"),
        ),
        (
            &["canaries"],
            package_attack("the name of a test's folder", FOLDER_NAME_READER, &["canary_passed"])
                .with_source_file("tests/test_folder.py", TEST_IN_FOLDER)
                .with_fail_to_pass("tests/test_folder.py::test_folder[IV-4]")
                .with_fail_to_pass("tests/test_folder.py::test_folder[XC-90]"),
        ),
        (
            &["canaries", "tell_failures"],
            package_attack(
                "records read by a listener, to recognize canaries",
                RECORD_LISTENER,
                &["canary_passed", "hook_failed", "exit_without_end"],
            )
            .with_fail_to_pass("tests/test_roman.py::test_four"),
        ),
        (
            &["canaries"],
            package_attack(
                "an object that is close to anything",
                ALWAYS_CLOSE_NUMBER,
                &["canary_passed"],
            )
            .with_source_file("tests/test_near.py", TEST_ALL_CLOSE)
            .with_fail_to_pass("tests/test_near.py::test_one")
            .with_fail_to_pass("tests/test_near.py::test_all_close"),
        ),
        (
            &["canaries"],
            package_attack(
                "a text that equals all of its characters",
                SAME_CHARACTERS,
                &["canary_passed"],
            )
            .with_source_file("tests/test_tally.py", TEST_TALLY)
            .with_fail_to_pass("tests/test_tally.py::test_tally"),
        ),
        (
            &["canaries", "fingerprints"],
            package_attack(
                "a with statement that swallows its exception",
                EXCEPTION_SWALLOWER,
                &["exception_swallowed"],
            )
            .with_source_file("tests/test_enters.py", TEST_ENTERS)
            .with_fail_to_pass("tests/test_enters.py::test_enters"),
        ),
    ]
}

#[test]
fn each_attack_is_detected_and_succeeds_without_its_defense() {
    let all = attacks().into_iter().chain(canary_attacks());
    let wrong: Vec<String> =
        all.filter_map(|(defenses, attack)| attack.find_problem(defenses)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Code that finds the canaries would know in which run its objects should equal everything. So the
/// functions that the recorder puts into other modules must not lead to the canaries.
#[test]
fn recorder_functions_do_not_expose_the_canaries() {
    let attack = package_attack("the closures of the recorder's functions", CANARY_SEARCHER, &[]);
    let seen = attack.grade(defenses_without_screening());
    assert!(!seen.is_resolved(), "{}", seen.details());
}

/// Code that reads the canaries from the pipe and writes them back must not learn what they
/// contain.
#[test]
fn canaries_in_the_pipe_are_unreadable() {
    let attack = package_attack(
        "the canaries in the pipe",
        &answer_reading_package(CANARY_PIPE_READER),
        &[],
    )
    .with_source_file("tests/test_first.py", TEST_FIRST)
    .with_fail_to_pass("tests/test_first.py::test_first");
    let seen = attack.grade(defenses_without_screening());
    assert!(!seen.is_resolved(), "{}", seen.details());
}

/// Honest results fail the canaries for close values and for strings without letters, so they are
/// clean.
#[test]
fn honest_close_values_and_strings_without_letters_are_clean() {
    let honest = "def to_number(text):
    return {'I': 1, 'IV': 4.000000001}[text]


def tally(number):
    return '||||/ ' * (number // 5) + '|' * (number % 5)
";
    let attack = package_attack("honest", honest, &[])
        .with_source_file("tests/test_near.py", TEST_ALL_CLOSE)
        .with_source_file("tests/test_tally.py", TEST_TALLY)
        .with_fail_to_pass("tests/test_near.py::test_one")
        .with_fail_to_pass("tests/test_near.py::test_all_close")
        .with_fail_to_pass("tests/test_tally.py::test_tally");
    let seen = attack.grade(defenses_without_screening());
    assert!(seen.is_resolved_and_clean(), "{}", seen.details());
    assert_eq!(seen.0.verdict.evidence, [], "{}", seen.details());
}
