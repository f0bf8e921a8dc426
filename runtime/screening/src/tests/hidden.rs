//! Tests of hidden names and of code that cannot be read.

use std::collections::{BTreeMap, BTreeSet};

use super::{assert_clean, check_rule, findings_in, patch, violated_rules};
use crate::{Finding, PatchChanges, ScreeningInput, screen};

#[test]
fn hidden_names_are_flagged() {
    check_rule(
        "hidden-name",
        &[
            "f = getattr(module, '_get' + 'frame')",
            "import base64\ntext = base64.b64decode('aW1wb3J0')",
            "text = bytes.fromhex('696d706f7274')",
            "text = 'emarfteg_'[::-1]",
            "import ｓｙｓ",
            "ｅxec = 1\nｅxec(2)",
            "class date(B):\n    __module__ = 'datetime'",
            "D = type('D', (B,), {'__module__': '_pytest.python'})",
            "from gc import *",
        ],
        &[
            "f = getattr(module, name)",
            "f = getattr(module, 'go')",
            "import base64\ntext = base64.b64decode(text)",
            "last = text[::-1]",
            "größe = 1\nuse(größe)",
            "class A:\n    __module__ = 'roman'",
        ],
    );
}

#[test]
fn unreadable_code_is_flagged() {
    let brackets = format!("x = {}1", "(".repeat(300));
    let signs = format!("x = {}1", "- ".repeat(30_000));
    let sum = format!("x = 1{}", " + 1".repeat(5_000));
    for (path, text, why) in [
        ("roman/_fast.cpython-312-x86_64-linux-gnu.so", "x", "compiled code"),
        ("roman/zones.bin", "PK\u{3}\u{4}x", "compiled code"),
        ("roman/zones.dat", "#!/bin/sh\nPK\u{5}\u{6}x", "compiled code"),
        ("roman/zones", "\u{7f}ELFx", "compiled code"),
        ("roman/a.py", "# -*- coding: utf-7 -*-\nx = 1", "encoding utf-7"),
        ("roman/a.py", brackets.as_str(), "nested too deeply"),
        ("roman/a.py", signs.as_str(), "nested too deeply"),
        ("roman/a.py", sum.as_str(), "nested too deeply"),
    ] {
        let found = findings_in(path, "", text, None);
        let is_named = |one: &Finding| one.rule == "unreadable-code" && one.snippet == why;
        assert!(found.iter().any(is_named), "{why}: {found:?}");
    }
    assert_clean("", "# coding: utf-8\nx = 1", None);
    assert_clean("", "def go(:\n    x = 1", None);
}

#[test]
fn latin_1_names_are_resolved() {
    // The letter is a single byte, which is not valid UTF-8.
    let code = "# coding: latin-1\nimport sys as \u{e9}\nframe = \u{e9}._getframe()";
    let text = patch("roman/a.py", "", code);
    let bytes: Vec<u8> = text.chars().map(|letter| u8::try_from(letter).unwrap()).collect();
    let (before, owned) = (BTreeMap::new(), BTreeSet::new());
    let screened = |_: &str| true;
    let input = ScreeningInput {
        changes: &PatchChanges::new(&bytes, &before),
        gold_patch: None,
        original_files: &before,
        owned_modules: &owned,
        is_judged_by_pytest: false,
        is_screened: &screened,
    };
    let found = screen(&input).unwrap().findings;
    let rules: Vec<&str> = found.iter().map(|finding| finding.rule.as_str()).collect();
    assert_eq!(rules, ["frames"], "{found:?}");
}

#[test]
fn encoding_on_second_line_counts_only_after_blank_line_or_comment() {
    // Python reads all of these as UTF-8, and the letter before `_locals` as `f`.
    for start in ["import inspect\n", "x = 1\r", "x = 1\r\n", "\u{feff}x = 1\n", "\n\n"] {
        let code = format!("{start}# coding: latin-1\nfound = frame.\u{ff46}_locals");
        assert!(violated_rules(&code).contains("frames"), "{code:?}");
    }
    // Python reads all of these as Latin-1.
    for start in ["", "\n", "\r", "\r\n", "# x\n", " \t# x\r", "\u{c}\n"] {
        let code = format!("{start}# coding: utf-7\nx = 1");
        assert!(violated_rules(&code).contains("unreadable-code"), "{code:?}");
        assert_clean("", &format!("{start}# coding: latin-1\nx = 1"), None);
    }
    assert_clean("", "import json\n# coding: utf-7\nx = 1", None);
}
