//! Tests that a finding is excused if the base or the gold patch has it, too.

use super::{assert_clean, findings_in, violated_rules};

#[test]
fn findings_in_base_or_gold_are_excused() {
    let code = "import sys\nframe = sys._getframe(1)";
    assert_eq!(findings_in("roman/a.py", "", code, None).len(), 1);
    assert_clean("", code, Some(code));
    let old = "import sys\nold = sys._getframe(1)\n";
    assert_clean(old, "new = sys._getframe(1)", None);
    // A violation of another rule is not excused.
    let other = findings_in("roman/a.py", old, "import gc\nall = gc.get_objects()", Some(code));
    assert_eq!(other.len(), 1, "{other:?}");
    assert_eq!((other[0].evidence.as_str(), other[0].line), ("introspection_added", 4));
    assert_eq!(other[0].snippet, "all = gc.get_objects()");
}

#[test]
fn equivalent_expression_in_base_excuses_finding() {
    for (old, new) in [
        ("import inspect, sys\nold = inspect.currentframe()\n", "new = sys._getframe()"),
        ("import inspect, sys\nold = sys._getframe()\n", "new = inspect.currentframe()"),
        ("import signal\nsignal.alarm(3)\n", "signal.setitimer(signal.ITIMER_REAL, 3.0)"),
        (
            "import sys\nold = sys.modules.items()\n",
            "for new in sys.modules.copy().items():\n    pass",
        ),
        (
            "import sys\nfor number, old in enumerate(sys.meta_path):\n    pass\n",
            "for new in sys.meta_path:\n    new.find_spec('roman')",
        ),
    ] {
        assert_clean(old, new, None);
        assert_clean("", new, Some(&format!("{old}{new}")));
        let module = old.lines().next().unwrap();
        assert!(!violated_rules(&format!("{module}\n{new}")).is_empty(), "{new}");
    }
    for (old, new, rule) in [
        (
            "import inspect, sys\nold = inspect.currentframe()\n",
            "new = sys._current_frames()",
            "frames",
        ),
        ("import inspect, sys\nold = inspect.currentframe()\n", "new = old.f_back", "frames"),
        ("import signal, sys\nsignal.alarm(3)\n", "sys.settrace(f)", "hooks"),
        ("import gc, sys\nold = sys.modules.items()\n", "new = gc.get_objects()", "heap"),
        ("import sys\nold = 'json' in sys.modules\n", "new = sys.modules.values()", "heap"),
    ] {
        let found = findings_in("roman/a.py", old, new, None);
        assert!(found.iter().any(|finding| finding.rule == rule), "{old}{new}: {found:?}");
    }
}
