//! Tests how requests are repaired that an endpoint rejects because of their form.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::sync::{Arc, atomic::Ordering};

use proctor_types::Budget;

use crate::{
    common::{RecordingSink, gateway, model, request_with_tools, user_request},
    raw_endpoint::{OK_RESPONSE, start_raw_endpoint},
};

const STREAM_ONLY_ERROR: &str = "HTTP/1.1 400 No\r\nconnection: close\r\n\r\n\
    {\"error\":{\"message\":\"This model only support stream mode, please enable the stream parameter.\"}}";

/// If an endpoint rejects the form of a request, the gateway repairs it. Later requests are
/// repaired before their first attempt.
#[tokio::test]
async fn request_repair_is_kept_for_the_run() {
    const NO_OPTIONS: &str = "HTTP/1.1 422 No\r\nconnection: close\r\n\r\n\
        {\"detail\":\"stream_options: extra fields not permitted\"}";
    const FORBIDDEN_OPTIONS: &str = "HTTP/1.1 403 No\r\nconnection: close\r\n\r\n\
        {\"error\":{\"message\":\"your plan does not allow stream_options\"}}";
    const NO_STREAM: &str = "HTTP/1.1 400 No\r\nconnection: close\r\n\r\n\
        {\"detail\":\"this model does not support streaming\"}";
    const CUT_STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    check_repaired_requests(&[NO_OPTIONS, OK_RESPONSE], "stream_options", &[true, false, false])
        .await;
    check_repaired_requests(
        &[FORBIDDEN_OPTIONS, OK_RESPONSE],
        "stream_options",
        &[true, false, false],
    )
    .await;
    check_repaired_requests(&[NO_STREAM, OK_RESPONSE], "stream", &[true, false, false]).await;
    // This endpoint cuts off all streams.
    check_repaired_requests(
        &[CUT_STREAM, CUT_STREAM, CUT_STREAM, OK_RESPONSE],
        "stream",
        &[true, true, true, false, false],
    )
    .await;
}

/// Checks the repaired requests. `expected` says for each request whether it has the field.
async fn check_repaired_requests(
    responses: &'static [&'static str],
    field: &str,
    expected: &[bool],
) {
    let (url, count) = start_raw_endpoint(responses).await;
    let gateway = gateway();
    let kept = Arc::new(RecordingSink::default());
    let spec = model(&url);
    let trial = gateway.open(&spec, &Budget::default(), kept.clone()).expect("usable");
    for _ in 0..2 {
        trial.ask(&user_request("hi")).await.expect("an answer");
    }
    assert_eq!((count.load(Ordering::Relaxed), trial.spending().steps), (expected.len(), 2));
    assert_eq!(requests_with_field(&kept, field), expected);
    assert!(gateway.halt_faults().is_empty());
}

/// Returns whether each request has a field.
fn requests_with_field(sink: &RecordingSink, field: &str) -> Vec<bool> {
    let has = |body: &[u8]| {
        let body: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        body.get(field).is_some()
    };
    sink.attempts().iter().map(|attempt| has(&attempt.request_body)).collect()
}

/// If an endpoint accepts only streams, a corrupted stream is requested again as a stream.
#[tokio::test]
async fn stream_only_endpoint_receives_another_streaming_request() {
    const CORRUPTED_STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"shell\",\"arguments\":\"{\\\"command\\\": \\\"ls\\\"\"}}]}}]}\n\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let (url, count) =
        start_raw_endpoint(&[CORRUPTED_STREAM, STREAM_ONLY_ERROR, OK_RESPONSE]).await;
    let (gateway, kept) = (gateway(), Arc::new(RecordingSink::default()));
    let trial = gateway.open(&model(&url), &Budget::default(), kept.clone()).expect("usable");
    trial.ask(&request_with_tools("hi")).await.expect("an answer");
    assert_eq!(count.load(Ordering::Relaxed), 3);
    assert_eq!(requests_with_field(&kept, "stream"), [true, false, true]);
}

/// Without a response that was not streamed, the gateway cannot tell whether the model omits the
/// indentation itself.
#[tokio::test]
async fn code_without_indentation_from_a_stream_only_endpoint_is_an_anomaly() {
    const FLAT_STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"```python\\ndef f(a):\\nfor b in a:\\nif b:\\nreturn b\\n```\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (url, count) = start_raw_endpoint(&[FLAT_STREAM, STREAM_ONLY_ERROR, FLAT_STREAM]).await;
    let kept = Arc::new(RecordingSink::default());
    let trial = gateway().open(&model(&url), &Budget::default(), kept).expect("usable");
    for _ in 0..3 {
        trial.ask(&user_request("hi")).await.expect("an answer");
    }
    assert_eq!(count.load(Ordering::Relaxed), 5);
    let fault = trial.anomaly_fault().await.expect("three anomalies");
    assert!(fault.what.contains("in 3 of 3 responses, a stream lost the indentation"), "{fault}");
}
