//! Tests how streams end. A complete response is accepted no matter how its stream ends, and an
//! incomplete one is requested again.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use proctor_gateway::{Gateway, PriceTable, RequestError, RetryPolicy};
use proctor_types::{Api, Budget, ModelSpec};
use serde_json::{Value, json};

use crate::{
    common::{RecordingSink, model, user_request},
    raw_endpoint::start_connections,
};

/// What the endpoint does with a connection after its chunks.
#[derive(Clone, Copy)]
enum AfterChunks {
    Holds,
    /// Closes the connection in the middle of the body.
    Breaks,
    /// Ends the body.
    Ends,
}

/// Starts an endpoint that streams the n-th list of chunks for the n-th request (the last one for
/// all later requests).
async fn start_streaming_endpoint(
    lists: Vec<Vec<Value>>,
    after_chunks: AfterChunks,
) -> (String, Arc<AtomicUsize>) {
    let stream = |chunks: Vec<Value>| {
        let mut text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                        connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_owned();
        for chunk in chunks {
            // `null` stands for the end marker of the chat format.
            let data = if chunk.is_null() { "[DONE]".to_owned() } else { chunk.to_string() };
            let event = format!("data: {data}\n\n");
            text.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
        }
        if matches!(after_chunks, AfterChunks::Ends) {
            text.push_str("0\r\n\r\n");
        }
        (text, matches!(after_chunks, AfterChunks::Holds))
    };
    start_connections(lists.into_iter().map(stream).collect()).await
}

fn text_chunk(text: &str) -> Value {
    json!({"choices": [{"delta": {"content": text}, "finish_reason": ""}]})
}

fn end_chunk(reason: &str) -> Value {
    json!({"choices": [{"delta": {}, "finish_reason": reason}],
           "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
}

fn fast_gateway() -> Gateway {
    let mut policy = RetryPolicy::shipped().expect("valid");
    (policy.idle_seconds, policy.first_seconds) = (0.4, 0.01);
    Gateway::with_policy(PriceTable::default(), policy)
        .expect("a gateway")
        .with_key_lookup(|_| Some("sk-test-0123456789".into()))
}

#[tokio::test]
async fn complete_response_is_kept_however_its_stream_ends() {
    for after in [AfterChunks::Holds, AfterChunks::Breaks] {
        let (url, count) =
            start_streaming_endpoint(vec![vec![text_chunk("all"), end_chunk("stop")]], after).await;
        let trial = fast_gateway()
            .open(&model(&url), &Budget::default(), Arc::new(RecordingSink::default()))
            .expect("usable");
        let answer = trial.ask(&user_request("hi")).await.expect("the answer");
        assert_eq!((answer.content.as_str(), answer.usage.input), ("all", 7));
        assert_eq!(count.load(Ordering::Relaxed), 1, "requested and paid for once");
    }
}

#[tokio::test]
async fn incomplete_response_is_requested_again() {
    let broken = json!({"choices": [{"delta": {}, "error": {"code": 502, "message": "upstream"}}]});
    for last in
        [end_chunk("error"), end_chunk("abort"), end_chunk("insufficient_system_resource"), broken]
    {
        let lists =
            vec![vec![text_chunk("ha"), last.clone()], vec![text_chunk("all"), end_chunk("stop")]];
        let (url, count) = start_streaming_endpoint(lists, AfterChunks::Holds).await;
        let kept = Arc::new(RecordingSink::default());
        let trial =
            fast_gateway().open(&model(&url), &Budget::default(), kept.clone()).expect("usable");
        let answer = trial.ask(&user_request("hi")).await.expect("the second answer");
        assert_eq!(answer.content, "all", "{last}");
        assert_eq!((count.load(Ordering::Relaxed), trial.meter().steps()), (2, 1), "{last}");
        let why = kept.attempts()[0].error.clone().unwrap_or_default();
        assert!(why.contains("response"), "{why}");
    }
}

/// Returns a sink, and the content and the number of requests after each of two requests to an
/// endpoint that streams these lists of chunks.
async fn ask_twice(lists: Vec<Vec<Value>>) -> (Arc<RecordingSink>, Vec<(String, usize)>) {
    let (url, count) = start_streaming_endpoint(lists, AfterChunks::Ends).await;
    let kept = Arc::new(RecordingSink::default());
    let trial =
        fast_gateway().open(&model(&url), &Budget::default(), kept.clone()).expect("usable");
    let mut seen = Vec::new();
    for step in 1..=2 {
        let content = trial.ask(&user_request("hi")).await.expect("an answer").content;
        seen.push((content, count.load(Ordering::Relaxed)));
        assert_eq!(trial.meter().steps(), step);
    }
    (kept, seen)
}

#[tokio::test]
async fn stream_that_lost_a_fence_is_requested_again_without_streaming() {
    let response = |text: &str| vec![text_chunk(text), end_chunk("stop")];
    let whole = "```bash\nls\n```";
    for torn in ["ls\n```", "```bash\nls"] {
        let (kept, seen) = ask_twice(vec![response(torn), response(whole)]).await;
        assert_eq!(seen, [(whole.to_owned(), 2), (whole.to_owned(), 3)]);
        let streamed = kept.attempts().into_iter().map(|attempt| {
            let body: Value = serde_json::from_slice(&attempt.request_body).expect("JSON");
            body["stream"] == true
        });
        assert_eq!(streamed.collect::<Vec<_>>(), [true, false, false]);
        // A fence is also missing from the second response, so the model itself omitted it.
        let (_, seen) = ask_twice(vec![response(torn)]).await;
        assert_eq!(seen, [(torn.to_owned(), 2), (torn.to_owned(), 3)]);
    }
}

#[tokio::test]
async fn response_without_a_stop_reason_is_unfinished_if_earlier_responses_had_one() {
    let whole = vec![text_chunk("all"), end_chunk("stop")];
    let cut = vec![text_chunk("al"), Value::Null];
    let (_, seen) = ask_twice(vec![whole.clone(), cut.clone(), whole]).await;
    assert_eq!(seen, [("all".to_owned(), 1), ("all".to_owned(), 3)]);
    // This endpoint never gives a reason.
    let (_, seen) = ask_twice(vec![cut]).await;
    assert_eq!(seen, [("al".to_owned(), 1), ("al".to_owned(), 2)]);
}

#[tokio::test]
async fn stream_that_was_sent_twice_is_requested_again_without_streaming() {
    let pieces = ["I", " look", " at", " it"].map(|piece| [text_chunk(piece), text_chunk(piece)]);
    let doubled = [pieces.concat(), vec![end_chunk("stop")]].concat();
    let whole = vec![text_chunk("I look at it"), end_chunk("stop")];
    let (_, seen) = ask_twice(vec![doubled, whole]).await;
    assert_eq!(seen, [("I look at it".to_owned(), 2), ("I look at it".to_owned(), 3)]);
}

#[tokio::test]
async fn response_without_output_is_requested_again() {
    let hollow = |tokens: u64| {
        vec![
            json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}],
                   "usage": {"prompt_tokens": 7, "completion_tokens": tokens}}),
            Value::Null,
        ]
    };
    let whole = vec![text_chunk("all"), end_chunk("stop")];
    let (_, seen) = ask_twice(vec![hollow(20), hollow(20), whole]).await;
    assert_eq!(seen, [("all".to_owned(), 3), ("all".to_owned(), 4)]);
    // No attempt has output, streamed or not, so the model ended its turn, and later turns count at
    // once.
    let (_, seen) = ask_twice(vec![hollow(20)]).await;
    assert_eq!(seen, [(String::new(), 7), (String::new(), 8)]);
    // The only token marks the end of the turn.
    let (_, seen) = ask_twice(vec![hollow(1)]).await;
    assert_eq!(seen, [(String::new(), 1), (String::new(), 2)]);
}

#[tokio::test]
async fn stream_without_output_is_requested_again_without_streaming() {
    let hollow = vec![
        json!({"choices": [{"delta": {"role": "assistant", "content": null}}]}),
        json!({"choices": [{"delta": {"content": null}, "finish_reason": "stop"}],
               "usage": {"prompt_tokens": 7, "completion_tokens": 20}}),
        Value::Null,
    ];
    let whole = vec![text_chunk("all"), end_chunk("stop")];
    let lists = vec![hollow.clone(), whole.clone(), hollow, whole];
    let (url, _) = start_streaming_endpoint(lists, AfterChunks::Ends).await;
    let kept = Arc::new(RecordingSink::default());
    let trial =
        fast_gateway().open(&model(&url), &Budget::default(), kept.clone()).expect("usable");
    for _ in 0..3 {
        let answer = trial.ask(&user_request("hi")).await.expect("an answer");
        assert_eq!(answer.content, "all");
    }
    let streamed = kept.attempts().into_iter().map(|attempt| {
        let body: Value = serde_json::from_slice(&attempt.request_body).expect("JSON");
        body["stream"] == true
    });
    // The model may end one turn without output, but two such streams show that streaming fails.
    assert_eq!(streamed.collect::<Vec<_>>(), [true, false, true, false, false]);
}

#[tokio::test]
async fn output_that_is_lost_without_streaming_is_a_fault() {
    // A model may think for any number of tokens before it ends its turn without output.
    for (reasoning, is_fault) in [(0, true), (150, false)] {
        let hollow = vec![
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}],
                   "usage": {"prompt_tokens": 7, "completion_tokens": 150,
                             "completion_tokens_details": {"reasoning_tokens": reasoning}}}),
            Value::Null,
        ];
        let (url, count) = start_streaming_endpoint(vec![hollow], AfterChunks::Ends).await;
        let trial = fast_gateway()
            .open(&model(&url), &Budget::default(), Arc::new(RecordingSink::default()))
            .expect("usable");
        match trial.ask(&user_request("hi")).await {
            Err(RequestError::Fault(fault)) if is_fault => {
                assert!(fault.what.contains("150 output tokens"), "{fault}");
            }
            Ok(answer) if !is_fault => assert_eq!(answer.content, ""),
            other => panic!("{reasoning}: {other:?}"),
        }
        assert_eq!(count.load(Ordering::Relaxed), 7);
    }
}

#[tokio::test]
async fn response_with_an_unknown_stop_reason_is_requested_again() {
    let whole = vec![text_chunk("all"), end_chunk("stop")];
    let cut = vec![text_chunk("al"), end_chunk("other")];
    let (_, seen) = ask_twice(vec![cut.clone(), cut.clone(), whole]).await;
    assert_eq!(seen, [("all".to_owned(), 3), ("all".to_owned(), 4)]);
    let (url, count) = start_streaming_endpoint(vec![cut], AfterChunks::Ends).await;
    let open = |spec: ModelSpec| {
        let kept = Arc::new(RecordingSink::default());
        fast_gateway().open(&spec, &Budget::default(), kept).expect("usable")
    };
    let error = open(model(&url)).ask(&user_request("hi")).await.expect_err("no whole response");
    let RequestError::Fault(fault) = error else { panic!("{error:?}") };
    assert!(fault.what.contains("unknown reason \"other\""), "{fault}");
    assert!(fault.hint.as_deref().is_some_and(|hint| hint.contains("tool_check")), "{fault}");
    assert_eq!(count.load(Ordering::Relaxed), 6);
    let mut spec = model(&url);
    spec.tool_check = Some(false);
    let answer = open(spec).ask(&user_request("hi")).await.expect("the check is off");
    assert_eq!(answer.content, "al");
}

#[tokio::test]
async fn gemini_turns_without_parts_are_a_fault() {
    let hollow = json!({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 7, "thoughtsTokenCount": 13}});
    let (url, count) = start_streaming_endpoint(vec![vec![hollow]], AfterChunks::Ends).await;
    let mut spec = model(&url);
    spec.api = Api::Gemini;
    let trial = fast_gateway()
        .open(&spec, &Budget::default(), Arc::new(RecordingSink::default()))
        .expect("usable");
    let error = trial.ask(&user_request("hi")).await.expect_err("no output");
    let RequestError::Fault(fault) = error else { panic!("{error:?}") };
    assert!(fault.what.contains("13 output tokens"), "{fault}");
    assert_eq!((count.load(Ordering::Relaxed), trial.meter().steps()), (6, 0));
}

#[tokio::test]
async fn gemini_block_is_a_refusal_only_if_it_names_a_category() {
    for (reason, is_fault) in [("OTHER", true), ("PROHIBITED_CONTENT", false)] {
        let blocked = json!({"promptFeedback": {"blockReason": reason},
            "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7}});
        let (url, count) = start_streaming_endpoint(vec![vec![blocked]], AfterChunks::Ends).await;
        let mut spec = model(&url);
        spec.api = Api::Gemini;
        let trial = fast_gateway()
            .open(&spec, &Budget::default(), Arc::new(RecordingSink::default()))
            .expect("usable");
        match trial.ask(&user_request("hi")).await {
            Err(RequestError::Fault(fault)) if is_fault => {
                assert!(fault.what.contains("blockReason OTHER"), "{fault}");
                assert_eq!((count.load(Ordering::Relaxed), trial.meter().steps()), (6, 0));
            }
            Ok(answer) if !is_fault => {
                assert!(answer.refused);
                let why = answer.extra["refusal"].as_str().expect("a reason");
                assert!(why.contains(reason), "{why}");
                assert_eq!(trial.meter().steps(), 1);
            }
            other => panic!("{reason}: {other:?}"),
        }
    }
}
