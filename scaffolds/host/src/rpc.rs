//! Messages of JSON-RPC 2.0.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// The error code if the trial is over.
pub(crate) const TRIAL_OVER: i64 = -32000;
/// The error code if the sandbox rejected the request.
pub(crate) const SANDBOX_REJECTED: i64 = -32001;

/// A message from the other side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RpcMessage {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// A response to a request from Proctor: a result or an error.
    Response {
        id: Value,
        result: Result<Value, Value>,
    },
}

/// The error object in a response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

impl RpcMessage {
    /// Parses a line. If it is invalid, the error is the response to send.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, Value> {
        let wrong = |id: &Value, code, what: &str| reply_error(id, &RpcError::new(code, what));
        let text = std::str::from_utf8(line)
            .map_err(|_| wrong(&Value::Null, PARSE_ERROR, "the line is not UTF-8"))?;
        let value: Value = serde_json::from_str(text).map_err(|error| {
            wrong(&Value::Null, PARSE_ERROR, &format!("the line is not JSON: {error}"))
        })?;
        let Value::Object(mut fields) = value else {
            return Err(wrong(
                &Value::Null,
                INVALID_REQUEST,
                "a message must be a single JSON object (no batches)",
            ));
        };
        let id = fields.remove("id");
        let known = match &id {
            None | Some(Value::Number(_) | Value::String(_)) => id.clone().unwrap_or_default(),
            Some(_) => {
                return Err(wrong(
                    &Value::Null,
                    INVALID_REQUEST,
                    "`id` must be a number or a string",
                ));
            }
        };
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(wrong(&known, INVALID_REQUEST, "`jsonrpc` must be \"2.0\""));
        }
        let params = fields.remove("params").unwrap_or_else(|| Map::new().into());
        match (fields.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => Ok(Self::Request { id, method, params }),
            (Some(Value::String(method)), None) => Ok(Self::Notification { method, params }),
            (Some(_), _) => Err(wrong(&known, INVALID_REQUEST, "`method` must be a string")),
            (None, Some(id)) => match (fields.remove("result"), fields.remove("error")) {
                (Some(result), None) => Ok(Self::Response { id, result: Ok(result) }),
                (None, Some(error)) => Ok(Self::Response { id, result: Err(error) }),
                _ => Err(wrong(
                    &known,
                    INVALID_REQUEST,
                    "a message must have a `method`, a `result` or an `error`",
                )),
            },
            (None, None) => {
                Err(wrong(&known, INVALID_REQUEST, "a message must have a `method` or an `id`"))
            }
        }
    }
}

/// Parses the parameters of a request. An error names the field.
pub(crate) fn parse_params<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_path_to_error::deserialize(params).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("`{path}`: ") };
        RpcError::new(INVALID_PARAMS, format!("params: {place}{}", error.inner()))
    })
}

pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(crate) fn reply(id: &Value, result: Result<Value, RpcError>) -> Value {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(error) => reply_error(id, &error),
    }
}

fn reply_error(id: &Value, error: &RpcError) -> Value {
    let mut told = json!({ "code": error.code, "message": error.message });
    if let Some(data) = &error.data {
        told["data"] = data.clone();
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": told })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rpc_distinguishes_three_kinds_of_messages() {
        let read = |text: &str| RpcMessage::parse(text.as_bytes()).unwrap();
        let RpcMessage::Request { id, method, .. } =
            read(r#"{"jsonrpc":"2.0","id":"a","method":"finish"}"#)
        else {
            panic!("no request")
        };
        assert_eq!((id, method.as_str()), (json!("a"), "finish"));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","method":"log","params":{"text":"x"}}"#),
            RpcMessage::Notification { .. }
        ));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            RpcMessage::Response { result: Ok(_), .. }
        ));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","id":1,"error":{}}"#),
            RpcMessage::Response { result: Err(_), .. }
        ));
    }

    #[test]
    fn rpc_answers_invalid_messages_with_an_error() {
        for (line, code, id) in [
            (&b"hello"[..], PARSE_ERROR, json!(null)),
            (b"\xff\xfe", PARSE_ERROR, json!(null)),
            (b"[]", INVALID_REQUEST, json!(null)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"x\"}", INVALID_REQUEST, json!(null)),
            (b"{\"id\":7,\"method\":\"x\"}", INVALID_REQUEST, json!(7)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":3}", INVALID_REQUEST, json!(7)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":7}", INVALID_REQUEST, json!(7)),
            (b"{\"jsonrpc\":\"2.0\"}", INVALID_REQUEST, json!(null)),
        ] {
            let told = RpcMessage::parse(line).unwrap_err();
            assert_eq!((&told["error"]["code"], &told["id"]), (&json!(code), &id), "{told}");
        }
    }
}
