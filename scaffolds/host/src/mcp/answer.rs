//! Responds to MCP messages. Implements the four methods that a server with only tools needs.
//!
//! The crate `rmcp` could do this too. But it depends on four more crates, enables features of
//! chrono, rand and schemars in the whole workspace, and its newest version adds a second version
//! of sha2. That is too much for a server without streams, sessions or its own messages.

use proctor_types::ToolSpec;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::rpc::{self, METHOD_NOT_FOUND, RpcError, RpcMessage, TRIAL_OVER};

/// The supported protocol versions, newest first. They differ only in features that this server
/// does not use.
const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

/// The state of the server. All connections from one program share it.
#[derive(Clone)]
pub(super) struct ToolServer {
    tools: Value,
    call_sender: mpsc::Sender<Call>,
}

/// A tool call that the program requested.
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Value,
    /// Where to send the text for the model. If it is dropped, the trial is over.
    pub(super) response_sender: oneshot::Sender<String>,
}

#[derive(Deserialize)]
struct CallParams {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl ToolServer {
    /// Creates the server. Calls are sent to `call_sender`; the receiver runs them one after
    /// another.
    pub(super) fn new(specs: &[ToolSpec], call_sender: mpsc::Sender<Call>) -> Self {
        let tool = |spec: &ToolSpec| {
            json!({
                "name": spec.name,
                "description": spec.description,
                "inputSchema": spec.parameters,
            })
        };
        Self { tools: specs.iter().map(tool).collect(), call_sender }
    }

    /// Returns the response to a message; `None` if the message is a notification.
    pub(super) async fn handle_message(&self, body: &[u8]) -> Option<Value> {
        match RpcMessage::parse(body) {
            Ok(RpcMessage::Request { id, method, params }) => {
                Some(rpc::reply(&id, self.handle_request(&method, params).await))
            }
            Ok(RpcMessage::Notification { .. } | RpcMessage::Response { .. }) => None,
            Err(wrong) => Some(wrong),
        }
    }

    async fn handle_request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        match method {
            "initialize" => {
                let asked = params["protocolVersion"].as_str();
                let version = VERSIONS.iter().find(|version| asked == Some(**version));
                Ok(json!({
                    "protocolVersion": version.unwrap_or(&VERSIONS[0]),
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "proctor", "version": env!("CARGO_PKG_VERSION") },
                }))
            }
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({ "tools": self.tools })),
            "tools/call" => self.call(rpc::parse_params(params)?).await,
            _ => {
                let shown: String = method.chars().take(80).collect();
                Err(RpcError::new(METHOD_NOT_FOUND, format!("unknown method `{shown}`")))
            }
        }
    }

    async fn call(&self, CallParams { name, arguments }: CallParams) -> Result<Value, RpcError> {
        let (shown, told) = oneshot::channel();
        let call = Call { name, arguments: Value::Object(arguments), response_sender: shown };
        let over = || RpcError::new(TRIAL_OVER, "the trial is over");
        self.call_sender.send(call).await.map_err(|_| over())?;
        let text = told.await.map_err(|_| over())?;
        Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": false }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(tools: &ToolServer, message: Value) -> Value {
        tools.handle_message(message.to_string().as_bytes()).await.unwrap()
    }

    #[tokio::test]
    async fn tool_calls_are_forwarded_until_the_trial_is_over() {
        let (calls, mut asked) = mpsc::channel(1);
        let spec = ToolSpec {
            name: "shell".into(),
            description: "Runs.".into(),
            parameters: json!({"type": "object"}),
        };
        let tools = ToolServer::new(&[spec], calls);
        let ask = |id: u32, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let listed = answer(&tools, ask(1, "tools/list", json!({}))).await;
        assert_eq!(listed["result"]["tools"][0]["inputSchema"], json!({"type": "object"}));
        let call = ask(2, "tools/call", json!({"name": "shell", "arguments": {"command": "ls"}}));
        let run = async {
            let call = asked.recv().await.unwrap();
            assert_eq!((call.name.as_str(), &call.arguments["command"]), ("shell", &json!("ls")));
            call.response_sender.send("a b".into()).unwrap();
        };
        let (answered, ()) = tokio::join!(answer(&tools, call.clone()), run);
        assert_eq!(answered["result"]["content"][0]["text"], "a b", "{answered}");
        drop(asked);
        assert_eq!(answer(&tools, call).await["error"]["code"], TRIAL_OVER);
    }

    #[tokio::test]
    async fn server_negotiates_versions_and_ignores_notifications() {
        let tools = ToolServer::new(&[], mpsc::channel(1).0);
        for (asked, said) in [("2025-06-18", "2025-06-18"), ("1999-01-01", VERSIONS[0])] {
            let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
                               "params": {"protocolVersion": asked}});
            assert_eq!(answer(&tools, hello).await["result"]["protocolVersion"], said);
        }
        let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert!(tools.handle_message(notice.to_string().as_bytes()).await.is_none());
        let unknown = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/list"});
        assert_eq!(answer(&tools, unknown).await["error"]["code"], METHOD_NOT_FOUND);
    }
}
