//! Tests that the time in its queue that an endpoint states counts as lost.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::{sync::Arc, time::Duration};

use proctor_types::{Budget, Event};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::common::{RecordingSink, gateway, model, user_request};

/// How long the endpoint waits before it responds.
const DELAY: Duration = Duration::from_millis(400);

/// Starts an endpoint that responds after [`DELAY`], with this header and this usage.
async fn start_slow_endpoint(header: &'static str, usage: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let message = json!({"role": "assistant", "content": "Done."});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let body = json!({"choices": [choice], "usage": usage});
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            tokio::time::sleep(DELAY).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let _ = stream.write_all(format!("{head}\r\n{header}\r\n{body}").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

#[tokio::test]
async fn stated_queue_time_is_lost() {
    let counted = |more: Value| {
        let mut usage = json!({"prompt_tokens": 9, "completion_tokens": 3});
        usage["queue_time"] = more;
        usage
    };
    let delay = DELAY.as_secs_f64();
    for (header, stated, least, most) in [
        ("", json!(0.25), 0.25, 0.25),
        ("x-queue-time: 250\r\n", Value::Null, 0.25, 0.25),
        // The endpoint cannot have queued the request for longer than it took to respond.
        ("", json!(60), delay - 0.02, 20.0),
        ("", Value::Null, 0.0, 0.0),
        ("", json!(0.00007), 0.0, 0.0),
    ] {
        let url = start_slow_endpoint(header, counted(stated.clone())).await;
        let sink = Arc::new(RecordingSink::default());
        let trial = gateway().open(&model(&url), &Budget::default(), sink.clone()).expect("usable");
        trial.ask(&user_request("hi")).await.expect("an answer");
        let events = sink.events();
        let lost = events.iter().find_map(|(_, event)| match event {
            Event::ModelAttempted { lost_seconds, .. } => Some(*lost_seconds),
            _ => None,
        });
        let lost = lost.expect("an attempt");
        assert!((least..=most).contains(&lost), "{header}{stated}: {lost}");
    }
}
