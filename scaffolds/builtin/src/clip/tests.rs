use super::*;

fn clip_to_parts(raw: &RawOutput, cap: usize) -> (String, Omission, String) {
    match clip_blocking(raw, cap) {
        ClippedText::Truncated { head, omission: cut, tail } => (head, cut, tail),
        ClippedText::Complete(text) => panic!("{} bytes were not cut", text.len()),
    }
}

#[test]
fn clip_leaves_text_that_fits_unchanged() {
    let text = "word ".repeat(90);
    assert_eq!(
        clip_blocking(&RawOutput::from_complete(text.as_str()), 100),
        ClippedText::Complete(text)
    );
    assert_eq!(clip_blocking(&RawOutput::default(), 1), ClippedText::Complete(String::new()));
}

#[test]
fn clip_keeps_head_and_tail_at_whole_lines_and_counts_the_rest() {
    let text: String = (0..5000).map(|n| format!("line number {n}\n")).collect();
    let (head, cut, tail) = clip_to_parts(&RawOutput::from_complete(text.as_str()), 400);
    assert!(head.starts_with("line number 0\n") && head.ends_with('\n'));
    assert!(tail.starts_with("line number ") && tail.ends_with("line number 4999\n"));
    let kept = count_tokens(&head) + count_tokens(&tail);
    assert!(kept <= 400 && kept > 350, "{kept}");
    assert_eq!(cut.lines as usize + count_lines(&head) + count_lines(&tail), 5000);
    assert_eq!(cut.bytes as usize + head.len() + tail.len(), text.len());
    assert!(!cut.about);
    assert_eq!(cut.tokens as usize, count_tokens(&text) - kept);
}

#[test]
fn clip_splits_a_line_longer_than_the_cap() {
    let text = "abcdefg ".repeat(50_000);
    let (head, cut, tail) = clip_to_parts(&RawOutput::from_complete(text.as_str()), 100);
    assert!(count_tokens(&head) <= 50 && count_tokens(&tail) <= 51);
    assert!(cut.about, "400 kB are estimated");
    let truth = count_tokens(&text) as f64;
    assert!((cut.tokens as f64 - truth).abs() < truth * 0.05, "{} of {truth}", cut.tokens);
}

#[test]
fn clip_never_splits_characters_and_marks_invalid_utf8() {
    let text = "漢字かな🎉".repeat(2000);
    for cap in [1, 2, 3, 7, 100] {
        let (head, _, tail) = clip_to_parts(&RawOutput::from_complete(text.as_str()), cap);
        assert!(text.starts_with(&head) && text.ends_with(&tail));
    }
    assert_eq!(
        clip_blocking(&RawOutput::from_complete(&b"a\xffb\0c"[..]), 10),
        ClippedText::Complete("a\u{FFFD}b\u{FFFD}c".into())
    );
}

#[test]
fn clip_is_fast_on_long_runs_of_one_character() {
    let start = std::time::Instant::now();
    let raw = RawOutput::from_complete("x".repeat(1 << 20));
    let (_, cut, _) = clip_to_parts(&raw, 8000);
    assert!(cut.bytes > 0);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn capture_with_missing_bytes_shows_both_ends() {
    let captured = |total, tail: &[u8]| CapturedOutput {
        head: b"0123456789".to_vec(),
        total_bytes: total,
        tail: tail.to_vec(),
        ..CapturedOutput::default()
    };
    // The tail overlaps the head, touches it, or leaves a gap.
    assert_eq!(
        RawOutput::from(captured(12, b"456789ab")),
        RawOutput::from_complete("0123456789ab")
    );
    assert_eq!(RawOutput::from(captured(12, b"ab")), RawOutput::from_complete("0123456789ab"));
    assert_eq!(RawOutput::from(captured(10, b"")), RawOutput::from_complete("0123456789"));
    let gap = RawOutput::from(captured(1000, b"yz"));
    assert_eq!((gap.missing_bytes, gap.tail.as_slice()), (988, &b"yz"[..]));
    let (head, cut, tail) = clip_to_parts(&gap, 100);
    assert_eq!((head.as_str(), tail.as_str()), ("0123456789", "yz"));
    assert!(cut.about && cut.bytes == 988);
    assert_eq!(gap.into_bytes(), b"0123456789\n[988 bytes omitted]\nyz");
}
