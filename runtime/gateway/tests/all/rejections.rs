//! Tests that rejections are attributed to the endpoint or to the model.

use std::sync::atomic::Ordering;

use proctor_gateway::RequestError;
use proctor_types::{FaultCause, FaultLayer, Message};

use crate::{
    common::{
        conversation_with_responses, expect_fault, gateway, model, open_trial, request_with_tools,
        start_fake_llm, user_request,
    },
    raw_endpoint::{OK_RESPONSE, start_raw_endpoint},
};

#[tokio::test]
async fn rejection_of_every_trial_halts_the_model() {
    let rejects = "[[rule]]\nturn = 1\nanswer = { fault = [{ kind = 'status', status = 400, times = 0, \
        body = '{\"error\":{\"message\":\"unknown field x in request 17\"}}' }] }\n[default]\ncontent = 'ok'\n";
    let fake = start_fake_llm(rejects).await;
    let (gateway, spec) = (gateway(), model(&fake.base_url()));
    for number in 1..=3 {
        let trial = open_trial(&gateway, &spec);
        trial.ask(&conversation_with_responses(0)).await.expect("the first answer");
        let error = trial.ask(&conversation_with_responses(1)).await.expect_err("rejected");
        match error {
            RequestError::Rejected { status, body, caused_by_model } => {
                assert!(number < 3, "the third rejection halts the model");
                assert!(!caused_by_model);
                let fault = trial.rejection_fault(status, &body);
                assert_eq!(fault.layer, FaultLayer::Model);
                assert!(fault.what.contains("unknown field x"), "{fault}");
            }
            other => {
                assert_eq!(number, 3);
                assert!(expect_fault(other).cause != FaultCause::Other);
            }
        }
    }
    assert!(gateway.halt_reason(&spec, false).is_some());
    let asked = fake.requests().len();
    open_trial(&gateway, &spec).ask(&conversation_with_responses(0)).await.expect_err("halted");
    assert_eq!(fake.requests().len(), asked);
}

#[tokio::test]
async fn status_403_of_every_trial_halts_the_model() {
    let fake = start_fake_llm(
        "[[rule]]\nturn = 1\nanswer = { fault = [{ kind = 'status', status = 403, times = 0 }] }\n[default]\ncontent = 'ok'\n",
    )
    .await;
    let (gateway, spec) = (gateway(), model(&fake.base_url()));
    for number in 1..=3 {
        assert!(gateway.halt_reason(&spec, false).is_none(), "{number}");
        let trial = open_trial(&gateway, &spec);
        trial.ask(&conversation_with_responses(0)).await.expect("the first answer");
        assert_eq!(
            expect_fault(trial.ask(&conversation_with_responses(1)).await.expect_err("403")).layer,
            FaultLayer::Model
        );
    }
    assert!(gateway.halt_reason(&spec, false).is_some());
}

#[tokio::test]
async fn rejection_is_attributed_to_the_model_if_text_and_count_agree() {
    let overflow = "Input is too long for requested model.";
    let rejects = |body: &str| {
        format!("{{ fault = [{{ kind = 'status', status = 400, times = 0, body = '{body}' }}] }}")
    };
    let fake = start_fake_llm(&format!(
        "[[rule]]\nwhen = 'bad'\nturn = 1\nanswer = {}\n[[rule]]\nwhen = 'long'\nturn = 1\nanswer = {}\n\
         [[rule]]\nwhen = 'flagged'\nturn = 1\nanswer = {}\n[default]\ncontent = 'ok'\n",
        rejects("no"),
        rejects(overflow),
        rejects("The prompt triggered the content management policy."),
    ))
    .await;
    let (gateway, spec) = (gateway(), model(&fake.base_url()));
    let further = open_trial(&gateway, &spec);
    for answers in 0..3 {
        further.ask(&conversation_with_responses(answers)).await.expect("an answer");
    }
    let own = |word: String| {
        let trial = open_trial(&gateway, &spec);
        async move {
            let said = |answers| {
                let mut talk = conversation_with_responses(answers);
                talk.messages[0] = Message::User { content: word.clone() };
                talk
            };
            trial.ask(&said(0)).await.expect("an answer");
            match trial.ask(&said(1)).await.expect_err("rejected") {
                RequestError::Rejected { caused_by_model, .. } => caused_by_model,
                other => panic!("{other:?}"),
            }
        }
    };
    assert!(own("flagged".into()).await, "a filter");
    // Another trial received a response at this point, but that does not make the model the cause.
    assert!(!own("bad".into()).await, "a text that explains nothing");
    assert!(!own("long".into()).await, "no model's window is that small");
    assert!(own(format!("long {}", "one two three ".repeat(4_000))).await, "our count agrees");
}

#[tokio::test]
async fn model_without_tools_is_reported_with_a_hint() {
    // Ollama's message, and other servers' messages with other statuses.
    for (status, words) in [
        (400, "registry.ollama.ai/library/x:latest does not support tools"),
        (404, "No endpoints found that support tool use"),
        (422, "function calling is not available for this model"),
    ] {
        let body = format!("{{\"error\":{{\"message\":\"{words}\"}}}}");
        let fake = start_fake_llm(&format!(
            "[[rule]]\nlast = 'with'\nanswer = {{ fault = [{{ kind = 'status', status = {status}, \
             times = 0, body = '{body}' }}] }}\n[default]\ncontent = 'ok'\n"
        ))
        .await;
        let (gateway, spec) = (gateway(), model(&fake.base_url()));
        let refused = open_trial(&gateway, &spec)
            .ask(&request_with_tools("with"))
            .await
            .expect_err("no tools");
        let fault = expect_fault(refused);
        assert!(fault.cause != FaultCause::Other && fault.what.contains(words), "{fault}");
        assert!(fault.hint.as_deref().is_some_and(|hint| hint.contains("scaffold = \"bash\"")));
        // Only the first request is sent, and only requests with tools are halted.
        open_trial(&gateway, &spec).ask(&request_with_tools("with")).await.expect_err("halted");
        assert_eq!(fake.requests().len(), 1, "{words}");
        assert!(
            gateway.halt_reason(&spec, true).is_some()
                && gateway.halt_reason(&spec, false).is_none()
        );
        open_trial(&gateway, &spec)
            .ask(&user_request("plain"))
            .await
            .expect("an answer without tools");
    }
}

/// An endpoint's servers may get a new model one after another, so some of them may not know it
/// yet.
#[tokio::test]
async fn model_that_has_responded_is_not_treated_as_unknown() {
    const UNKNOWN_MODEL_ERROR: &str = "HTTP/1.1 404 No\r\nconnection: close\r\n\r\n\
        {\"error\":{\"message\":\"The model `m` does not exist.\",\"code\":\"model_not_found\"}}";
    let (url, count) =
        start_raw_endpoint(&[OK_RESPONSE, UNKNOWN_MODEL_ERROR, UNKNOWN_MODEL_ERROR, OK_RESPONSE])
            .await;
    let (gateway, spec) = (gateway(), model(&url));
    let trial = open_trial(&gateway, &spec);
    for _ in 0..2 {
        trial.ask(&user_request("hi")).await.expect("an answer");
    }
    assert_eq!((count.load(Ordering::Relaxed), gateway.halt_faults().len()), (4, 0));
    // Before the first response, the name must be wrong.
    let (url, count) = start_raw_endpoint(&[UNKNOWN_MODEL_ERROR]).await;
    let spec = model(&url);
    expect_fault(
        open_trial(&gateway, &spec).ask(&user_request("hi")).await.expect_err("no such model"),
    );
    assert_eq!((count.load(Ordering::Relaxed), gateway.halt_faults().len()), (1, 1));
}
