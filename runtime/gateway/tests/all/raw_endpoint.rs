//! Endpoints that send raw bytes.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

pub const OK_RESPONSE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
    {\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\"finish_reason\":\"stop\"}],\
    \"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}";

pub const BUSY_RESPONSE: &str = "HTTP/1.1 503 Busy\r\nconnection: close\r\n\r\n{\"error\":{\"message\":\"overloaded,\\n sorry\"}}";

pub const WEB_PAGE_RESPONSE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n\
    <!doctype html><html><head><title>Open WebUI</title></head><body></body></html>";

/// Starts an endpoint that sends raw bytes: the n-th connection receives the n-th text, and later
/// ones receive the last. An empty text means no response.
pub async fn start_raw_endpoint(texts: &'static [&'static str]) -> (String, Arc<AtomicUsize>) {
    let connections = texts.iter().map(|text| ((*text).to_owned(), text.is_empty()));
    start_connections(connections.collect()).await
}

/// Starts an endpoint whose n-th connection receives the n-th text, and later ones the last. Each
/// text comes with whether the endpoint then keeps the connection open.
pub async fn start_connections(connections: Vec<(String, bool)>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 65_536];
            let _ = stream.read(&mut head).await;
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let (text, is_held) = &connections[number.min(connections.len() - 1)];
            let _ = stream.write_all(text.as_bytes()).await;
            if *is_held {
                held.push(stream);
            } else {
                let _ = stream.shutdown().await;
            }
        }
    });
    (url, count)
}

/// Starts an endpoint that keeps its connections open with these bytes and never responds.
pub async fn start_trickling_endpoint(head: &'static str, byte: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut vec![0; 65_536]).await;
                let _ = stream.write_all(head.as_bytes()).await;
                while stream.write_all(byte.as_bytes()).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
    });
    url
}
