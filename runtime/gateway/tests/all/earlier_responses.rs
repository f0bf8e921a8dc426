//! Tests how earlier responses in a run or trial reveal that the endpoint is at fault: when it
//! reports an overflow that cannot be true, truncates a prompt, or returns text that no model
//! wrote. `resumed_conversations.rs` tests the same checks after a resume.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::sync::{Arc, atomic::Ordering};

use proctor_gateway::RequestError;
use proctor_types::{Budget, Message, ModelRequest};

use crate::{
    common::{Bench, RecordingSink, expect_fault, gateway, model, user_request},
    raw_endpoint::start_raw_endpoint,
};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";

/// Returns a conversation that begins with a long text and has `answers` responses. A long text
/// follows each response.
fn conversation(answers: usize) -> ModelRequest {
    let text = "one two three ".repeat(2_000);
    let mut talk = user_request(&text);
    for turn in 0..answers {
        talk.messages.push(Message::Assistant {
            content: format!("answer {turn}"),
            tool_calls: Vec::new(),
            extra: serde_json::Map::new(),
            native: None,
        });
        talk.messages.push(Message::User { content: text.clone() });
    }
    talk
}

/// Returns a bench whose endpoint counts `counted` tokens for the first prompt, and then rejects
/// `times` requests because they exceed a window of 8,192 tokens. If `times` is 0, it rejects all
/// later requests.
async fn overflow_bench(counted: u64, times: u32) -> Bench {
    let body = "{\"error\":{\"message\":\"the maximum context length is 8192 tokens. However, your \
        request has 8578 input tokens\"}}";
    let script = format!(
        "[[rule]]\nturn = 1\nanswer = {{ content = 'ok', fault = [{{ kind = 'status', status = 400, \
         times = {times}, body = '{body}' }}] }}\n\
         [default]\ncontent = 'ok'\nusage = {{ input = {counted}, output = 5 }}\n"
    );
    let bench = Bench::new(&script, Budget::default()).await;
    bench.trial.ask(&conversation(0)).await.expect("an answer");
    bench
}

#[tokio::test]
async fn overflow_below_an_answered_prompt_is_retried() {
    let bench = overflow_bench(9704, 2).await;
    bench.trial.ask(&conversation(1)).await.expect("an answer of the other server");
    assert_eq!((bench.attempts().len(), bench.trial.spending().steps), (4, 2));
}

#[tokio::test]
async fn overflow_below_an_answered_prompt_is_not_attributed_to_the_model() {
    for (counted, is_model, attempts) in [(9704, false, 3), (8000, true, 1)] {
        let bench = overflow_bench(counted, 0).await;
        let error = bench.trial.ask(&conversation(1)).await.expect_err("rejected");
        let RequestError::Rejected { status, body, caused_by_model } = error else {
            panic!("{error:?}")
        };
        assert_eq!((caused_by_model, bench.attempts().len()), (is_model, attempts + 1));
        let hint = bench.trial.rejection_fault(status, &body).hint.expect("a hint");
        assert_eq!(hint.contains("smaller context window"), !is_model, "{hint}");
    }
}

#[tokio::test]
async fn overflow_that_states_no_window_is_retried() {
    let body = "{\"error\":{\"message\":\"Context size has been exceeded.\"}}";
    for (times, attempts) in [(1, 2), (0, 3)] {
        let script = format!(
            "[[rule]]\nturn = 1\nanswer = {{ content = 'ok', fault = [{{ kind = 'status', status = 400, \
             times = {times}, body = '{body}' }}] }}\n[default]\ncontent = 'ok'\n"
        );
        let bench = Bench::new(&script, Budget::default()).await;
        bench.trial.ask(&conversation(0)).await.expect("an answer");
        match bench.trial.ask(&conversation(1)).await {
            Ok(_) => assert_eq!(times, 1),
            Err(RequestError::Rejected { caused_by_model, .. }) => {
                assert!(caused_by_model && times == 0, "the window is really full");
            }
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(bench.attempts().len(), attempts + 1);
    }
}

#[tokio::test]
async fn prompt_count_that_falls_is_a_fault() {
    for (second, is_truncated) in [(3300, true), (9000, false)] {
        let script = format!(
            "[[rule]]\nturn = 1\nanswer = {{ content = 'ok', usage = {{ input = {second}, output = 5 }} }}\n\
             [default]\ncontent = 'ok'\nusage = {{ input = 4000, output = 5 }}\n"
        );
        let bench = Bench::new(&script, Budget::default()).await;
        bench.trial.ask(&conversation(0)).await.expect("an answer");
        let second = bench.trial.ask(&conversation(1)).await;
        if is_truncated {
            let fault = expect_fault(second.expect_err("a truncated prompt"));
            assert!(fault.what.contains("truncated the prompt"), "{fault}");
            assert!(fault.hint.as_deref().is_some_and(|hint| hint.contains("num_ctx")), "{fault}");
        } else {
            second.expect("an answer");
        }
    }
}

#[tokio::test]
async fn text_without_tokens_is_a_fault_if_the_endpoint_counts_tokens() {
    let response = |model: &str, usage: &str| -> &'static str {
        let body = format!(
            "{HEAD}{{\"model\":\"{model}\",\"choices\":[{{\"index\":0,\"finish_reason\":\"stop\",\
             \"message\":{{\"role\":\"assistant\",\"content\":\"Come back at noon.\"}}}}],\"usage\":{usage}}}"
        );
        Box::leak(body.into_boxed_str())
    };
    let counted = response("m", "{\"prompt_tokens\":9,\"completion_tokens\":5}");
    let zero = response("m", "{\"prompt_tokens\":0,\"completion_tokens\":0}");
    let none = response("m", "null");
    let placeholder = response("<synthetic>", "null");
    for (texts, answers) in [
        ([counted, zero], 1),
        ([placeholder, placeholder], 0),
        // These servers are not at fault: one omits the usage of one response, and one never counts
        // tokens.
        ([counted, none], 2),
        ([zero, zero], 2),
    ] {
        let (url, count) = start_raw_endpoint(Box::leak(Box::new(texts))).await;
        let kept = Arc::new(RecordingSink::default());
        let trial = gateway().open(&model(&url), &Budget::default(), kept).expect("usable");
        for number in 0..2 {
            let answer = trial.ask(&user_request("hi")).await;
            if number < answers {
                answer.expect("an answer");
                continue;
            }
            let fault = expect_fault(answer.expect_err("a text of the proxy"));
            assert!(fault.what.contains("Come back at noon."), "{fault}");
            assert!(count.load(Ordering::Relaxed) > number + 1, "it is requested again");
            break;
        }
        assert_eq!(trial.spending().steps, answers as u64);
    }
}

#[tokio::test]
async fn response_that_another_trial_received_is_requested_again() {
    let response = |id: &str| -> &'static str {
        let body = format!(
            "{HEAD}{{\"id\":\"{id}\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"finish_reason\":\"stop\",\
             \"message\":{{\"role\":\"assistant\",\"content\":\"Come back at noon.\"}}}}],\
             \"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":5}}}}"
        );
        Box::leak(body.into_boxed_str())
    };
    let (cached, fresh) = (response("chatcmpl-8c41f0d2a97b"), response("chatcmpl-77b0c9e1d4f2"));
    let counted = response("chatcmpl-000001");
    for (texts, trials, requests, is_fault) in [
        ([cached, cached, fresh], ["a", "b"], 3, false),
        ([cached, cached, cached], ["a", "b"], 5, true),
        // The model itself wrote the same text twice.
        ([cached, fresh, fresh], ["a", "b"], 2, false),
        // A later try of the same trial may receive the response again.
        ([cached, cached, fresh], ["a", "a"], 2, false),
        // These ids come from a counter, which restarts in each conversation.
        ([counted, counted, counted], ["a", "b"], 2, false),
    ] {
        let (url, count) = start_raw_endpoint(Box::leak(Box::new(texts))).await;
        let gateway = gateway();
        let open = |name: &str| {
            let kept = Arc::new(RecordingSink::default());
            gateway.open(&model(&url), &Budget::default(), kept).expect("usable").for_trial(name)
        };
        let [first, second] = trials;
        open(first).ask(&user_request("hi")).await.expect("an answer");
        match open(second).ask(&user_request("hi")).await {
            Err(error) if is_fault => {
                let fault = expect_fault(error);
                assert!(fault.what.contains("another trial"), "{fault}");
                let hint = fault.hint.unwrap_or_default();
                assert!(hint.contains("cache"), "{hint}");
            }
            Ok(_) if !is_fault => {}
            other => panic!("{trials:?}: {other:?}"),
        }
        assert_eq!(count.load(Ordering::Relaxed), requests, "{trials:?}");
    }
}
