/// The action that a response requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Run(String),
    Submit,
}

const SUBMIT_LINE: &str = "proctor-submit";

/// Parses a response according to the module's grammar. The error text completes the sentence
/// "Nothing was run: ...".
pub(super) fn parse(answer: &str) -> Result<Action, String> {
    // A server without a reasoning parser returns the reasoning as text. Drafts in it must not run.
    let answer = proctor_answers::answer_after_thinking(answer).unwrap_or(answer);
    let mut blocks = Vec::new();
    let mut lines = answer.lines();
    while let Some(line) = lines.next() {
        let Some((ticks, info)) = parse_opening_fence(line) else { continue };
        let mut body = Vec::new();
        let closed = loop {
            match lines.next() {
                Some(line) if is_closing_fence(line, ticks) => break true,
                Some(line) => body.push(line),
                None => break false,
            }
        };
        if info != "bash" {
            continue;
        }
        if !closed {
            return Err("the bash block is not closed".into());
        }
        blocks.push(body);
    }
    match blocks.as_slice() {
        [] => Err("the response contains no bash block".into()),
        [body] => parse_action(body),
        many => Err(format!("the response contains {} bash blocks", many.len())),
    }
}

fn parse_action(body: &[&str]) -> Result<Action, String> {
    let filled = body.iter().filter(|line| !line.trim().is_empty()).count();
    let submits = body.iter().any(|line| line.trim() == SUBMIT_LINE);
    match (filled, submits) {
        (0, _) => Err("the bash block is empty".into()),
        (1, true) => Ok(Action::Submit),
        (_, true) => Err(format!("`{SUBMIT_LINE}` must be the only line of its block")),
        (_, false) => Ok(Action::Run(body.join("\n"))),
    }
}

/// If the line opens a fenced block, returns the number of backticks and the info string.
fn parse_opening_fence(line: &str) -> Option<(usize, &str)> {
    let ticks = line.bytes().take_while(|byte| *byte == b'`').count();
    let info = line.get(ticks..)?.trim();
    // If there are more backticks later in the line, it is an inline code span, not a fence.
    (ticks >= 3 && !info.contains('`')).then_some((ticks, info))
}

fn is_closing_fence(line: &str, ticks: usize) -> bool {
    let line = line.trim_end();
    line.len() >= ticks && line.bytes().all(|byte| byte == b'`')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Action, String> {
        Ok(Action::Run(line.to_owned()))
    }

    #[test]
    fn grammar_requires_exactly_one_block() {
        assert_eq!(parse("Look.\n```bash\nls\ncat x\n```\nDone."), run("ls\ncat x"));
        assert_eq!(parse("```bash  \nls\n```  "), run("ls"));
        // Blocks in other languages count as text.
        assert_eq!(parse("```python\nprint()\n```\n```bash\nls\n```"), run("ls"));
        assert_eq!(parse("```text\n```bash\n```\n```bash\nls\n```"), run("ls"));
        assert!(parse("ls").unwrap_err().contains("no bash block"));
        assert!(parse("```sh\nls\n```").unwrap_err().contains("no bash block"));
        assert!(parse("```bash\na\n```\n```bash\nb\n```").unwrap_err().contains("2 bash blocks"));
        assert!(parse("```bash\nls").unwrap_err().contains("not closed"));
        assert!(parse("```bash\n \n```").unwrap_err().contains("empty"));
    }

    #[test]
    fn grammar_ignores_blocks_in_reasoning() {
        let draft = "First I would run\n```bash\nproctor-submit\n```\nbut no.";
        let answer = "I look.\n```bash\nls\n```";
        assert_eq!(parse(&format!("{draft}\n</think>\n\n{answer}")), run("ls"));
        assert_eq!(parse(&format!("{draft}</think>{answer}")), run("ls"));
        assert_eq!(parse(&format!("<think>\n{draft}\n</think>\n\n{answer}")), run("ls"));
        assert!(parse(&format!("<think>{draft}</think>")).unwrap_err().contains("no bash block"));
        let harmony = format!(
            "<|channel|>analysis<|message|>{draft}<|end|><|start|>assistant<|channel|>final<|message|>{answer}<|return|>"
        );
        assert_eq!(parse(&harmony), run("ls"));
        // The model's own command contains the tag.
        let command = "cat > x <<'E'\n</think>\nE";
        assert_eq!(parse(&format!("```bash\n{command}\n```")), run(command));
        assert_eq!(parse("```bash\nls\n```\n</think>"), run("ls"));
    }

    #[test]
    fn longer_fence_contains_shorter_ones() {
        let answer = "````bash\ncat > r.md <<'E'\n```\ncode\n```\nE\n````";
        assert_eq!(parse(answer), run("cat > r.md <<'E'\n```\ncode\n```\nE"));
    }

    #[test]
    fn submit_line_must_be_alone_in_a_block() {
        assert_eq!(parse("```bash\n\nproctor-submit\n```"), Ok(Action::Submit));
        assert!(parse("proctor-submit").unwrap_err().contains("no bash block"));
        let among = parse("```bash\npytest\nproctor-submit\n```").unwrap_err();
        assert!(among.contains("must be the only line"));
        assert_eq!(parse("```bash\necho proctor-submit\n```"), run("echo proctor-submit"));
    }
}
