//! Property tests that the gateway sends the model's turn back to its endpoint exactly as the
//! endpoint wrote it.

use fastrand::Rng;
use proctor_types::{Api, NativeTurn};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::codec::{
    Losses, native_turn, neutral::CollectedResponse, neutral::Request, neutral::Role,
    neutral::Turn, read_request, read_response, sse, stream_reader, write_request, write_response,
};
use crate::turns::NativeTurns;

const ALL_APIS: [Api; 4] = [Api::Chat, Api::Responses, Api::Messages, Api::Gemini];

/// Returns text without leading or trailing whitespace, with characters of several widths.
fn text(rng: &mut Rng) -> String {
    let middle: String = (0..rng.usize(0..12))
        .map(|_| *rng.choice(&['a', ' ', '"', '\\', '\n', 'é', '漢', '😀']).unwrap_or(&'a'))
        .collect();
    format!("{}{middle}{}", rng.alphanumeric(), rng.alphanumeric())
}

/// Returns a member that no format defines, under a random name.
fn unknown_member(rng: &mut Rng) -> (String, Value) {
    let value = match rng.u8(0..4) {
        0 => json!(text(rng)),
        1 => json!(rng.u32(..)),
        2 => json!({"a": text(rng), "b": [1, rng.u8(..)]}),
        _ => json!(rng.bool()),
    };
    (format!("x_{}", rng.u32(..)), value)
}

fn with_unknown_member(mut value: Value, rng: &mut Rng) -> Value {
    for _ in 0..rng.usize(0..3) {
        let (name, more) = unknown_member(rng);
        value[name] = more;
    }
    value
}

fn arguments(rng: &mut Rng) -> Value {
    json!({"command": text(rng), "timeout": rng.u32(..)})
}

fn id(rng: &mut Rng, number: usize) -> String {
    format!("call_{number}_{}", rng.u32(..))
}

/// Returns the items of a turn in a format.
fn turn(api: Api, rng: &mut Rng) -> Vec<Value> {
    let calls = rng.usize(0..3);
    let mut items = Vec::new();
    match api {
        Api::Chat => {
            let mut message =
                with_unknown_member(json!({"role": "assistant", "content": text(rng)}), rng);
            if rng.bool() {
                message["reasoning_content"] =
                    if rng.bool() { "".into() } else { text(rng).into() };
            }
            if rng.bool() {
                let signed = json!({"type": "reasoning.text", "index": 0, "text": text(rng), "signature": text(rng)});
                let encrypted =
                    json!({"type": "reasoning.encrypted", "index": 1, "data": text(rng)});
                message["reasoning_details"] = json!([signed, encrypted]);
            }
            if calls > 0 {
                let made = (0..calls).map(|number| {
                    let call = json!({"id": id(rng, number), "type": "function",
                        "function": {"name": "shell", "arguments": arguments(rng).to_string()}});
                    with_unknown_member(call, rng)
                });
                message["tool_calls"] = made.collect();
                if rng.bool() {
                    message["content"] = Value::Null;
                }
            }
            items.push(message);
        }
        Api::Messages => {
            if rng.bool() {
                items.push(with_unknown_member(
                    json!({"type": "thinking", "thinking": text(rng), "signature": text(rng)}),
                    rng,
                ));
                items.push(json!({"type": "redacted_thinking", "data": text(rng)}));
            }
            items.push(with_unknown_member(json!({"type": "text", "text": text(rng)}), rng));
            if rng.bool() {
                items.push(
                    json!({"type": "thinking", "thinking": text(rng), "signature": text(rng)}),
                );
            }
            for number in 0..calls {
                let call = json!({"type": "tool_use", "id": id(rng, number), "name": "shell", "input": arguments(rng)});
                items.push(with_unknown_member(call, rng));
            }
        }
        Api::Responses => {
            for number in 0..=calls {
                if rng.bool() {
                    items.push(with_unknown_member(json!({"type": "reasoning", "id": format!("rs_{number}"),
                        "summary": [{"type": "summary_text", "text": text(rng)}], "encrypted_content": text(rng)}), rng));
                }
                if number == 0 {
                    items.push(with_unknown_member(
                        json!({"type": "message", "id": "msg_1", "role": "assistant",
                        "status": "completed", "phase": "commentary",
                        "content": [{"type": "output_text", "text": text(rng)}]}),
                        rng,
                    ));
                } else {
                    items.push(with_unknown_member(json!({"type": "function_call", "id": format!("fc_{number}"),
                        "call_id": id(rng, number), "name": "shell", "arguments": arguments(rng).to_string()}), rng));
                }
            }
        }
        Api::Gemini => {
            if rng.bool() {
                items.push(json!({"text": text(rng), "thought": true}));
            }
            items.push(json!({"text": text(rng)}));
            for number in 0..calls {
                let call = json!({"functionCall": {"id": id(rng, number), "name": "shell", "args": arguments(rng)}});
                let call = with_unknown_member(call, rng);
                let signature = Map::from_iter([("thoughtSignature".to_owned(), text(rng).into())]);
                let mut call = call.as_object().cloned().expect("an object");
                call.extend(signature);
                items.push(call.into());
            }
        }
    }
    items
}

/// Returns the turn as a non-streamed response.
fn response(api: Api, items: &[Value]) -> Value {
    match api {
        Api::Chat => {
            json!({"model": "m", "choices": [{"message": items[0], "finish_reason": "stop"}]})
        }
        Api::Messages => json!({"model": "m", "content": items, "stop_reason": "end_turn"}),
        Api::Responses => json!({"model": "m", "status": "completed", "output": items}),
        Api::Gemini => json!({"modelVersion": "m", "candidates": [
            {"content": {"role": "model", "parts": items}, "finishReason": "STOP"}]}),
    }
}

/// Splits a string into non-empty pieces. An empty string gives one empty piece.
fn split_randomly(rng: &mut Rng, text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut out = Vec::new();
    let mut rest = chars.as_slice();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rng.usize(1..=rest.len()));
        out.push(piece.iter().collect());
        rest = more;
    }
    if out.is_empty() { vec![String::new()] } else { out }
}

/// Returns the turn as the data of a stream's events.
fn stream_events(api: Api, items: &[Value], rng: &mut Rng) -> Vec<Value> {
    let mut events = Vec::new();
    match api {
        Api::Chat => {
            let mut delta = |delta: Value| {
                events.push(json!({"model": "m", "choices": [{"index": 0, "delta": delta}]}))
            };
            for (name, value) in items[0].as_object().expect("a message") {
                match (name.as_str(), value) {
                    ("role" | "type", value) => delta(json!({name: value})),
                    ("reasoning_details", Value::Array(details)) => {
                        for detail in details {
                            let field = if detail["text"].is_string() { "text" } else { "data" };
                            for piece in
                                split_randomly(rng, detail[field].as_str().unwrap_or_default())
                            {
                                delta(
                                    json!({name: [{"type": detail["type"], "index": detail["index"], field: piece}]}),
                                );
                            }
                            if let Some(signature) = detail.get("signature") {
                                delta(
                                    json!({name: [{"type": detail["type"], "index": detail["index"], "signature": signature}]}),
                                );
                            }
                        }
                    }
                    ("tool_calls", Value::Array(calls)) => {
                        for (index, call) in calls.iter().enumerate() {
                            let mut first = call.clone();
                            first["index"] = index.into();
                            first["function"]["arguments"] = "".into();
                            delta(json!({name: [first]}));
                            for piece in split_randomly(
                                rng,
                                call["function"]["arguments"].as_str().unwrap_or_default(),
                            ) {
                                delta(
                                    json!({name: [{"index": index, "function": {"arguments": piece}}]}),
                                );
                            }
                        }
                    }
                    (_, Value::String(text)) => {
                        split_randomly(rng, text)
                            .into_iter()
                            .for_each(|piece| delta(json!({name: piece})));
                    }
                    (_, value) => delta(json!({name: value})),
                }
            }
            events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
        }
        Api::Messages => {
            events.push(json!({"type": "message_start", "message": {"model": "m", "usage": {}}}));
            for (index, block) in items.iter().enumerate() {
                let mut start = block.clone();
                let (field, kind) = match block["type"].as_str() {
                    Some("text") => (Some("text"), "text_delta"),
                    Some("thinking") => (Some("thinking"), "thinking_delta"),
                    _ => (None, ""),
                };
                let mut deltas = Vec::new();
                if let Some(field) = field {
                    start[field] = "".into();
                    for piece in split_randomly(rng, block[field].as_str().unwrap_or_default()) {
                        deltas.push(json!({"type": kind, field: piece}));
                    }
                }
                if let Some(signature) = block.get("signature") {
                    start["signature"] = "".into();
                    deltas.push(json!({"type": "signature_delta", "signature": signature}));
                }
                if block["type"] == "tool_use" {
                    start["input"] = json!({});
                    for piece in split_randomly(rng, &block["input"].to_string()) {
                        deltas.push(json!({"type": "input_json_delta", "partial_json": piece}));
                    }
                }
                events.push(
                    json!({"type": "content_block_start", "index": index, "content_block": start}),
                );
                events.extend(deltas.into_iter().map(
                    |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
                ));
                events.push(json!({"type": "content_block_stop", "index": index}));
            }
            events.push(
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}),
            );
            events.push(json!({"type": "message_stop"}));
        }
        Api::Responses => {
            events.push(json!({"type": "response.created", "response": {"model": "m"}}));
            for (index, item) in items.iter().enumerate() {
                events.push(json!({"type": "response.output_item.added", "output_index": index, "item": {"type": item["type"],
                    "call_id": item["call_id"], "name": item["name"]}}));
                let text = item["content"][0]["text"]
                    .as_str()
                    .map(|text| ("response.output_text.delta", text));
                let arguments = item["arguments"]
                    .as_str()
                    .map(|text| ("response.function_call_arguments.delta", text));
                if let Some((kind, text)) = text.or(arguments) {
                    for piece in split_randomly(rng, text) {
                        events.push(json!({"type": kind, "output_index": index, "delta": piece}));
                    }
                }
                events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
            }
            events.push(json!({"type": "response.completed", "response": {"status": "completed", "output": items}}));
        }
        Api::Gemini => {
            let mut part = |part: Value| {
                events.push(json!({"modelVersion": "m", "candidates": [{"content": {"role": "model", "parts": [part]}}]}));
            };
            for item in items {
                match item["text"].as_str() {
                    Some(text) => {
                        for piece in split_randomly(rng, text) {
                            let mut one = item.clone();
                            one["text"] = piece.into();
                            part(one);
                        }
                    }
                    None => part(item.clone()),
                }
            }
            events.push(json!({"candidates": [{"finishReason": "STOP"}]}));
        }
    }
    events
}

/// Reads an endpoint's stream as the gateway does.
fn read_stream(api: Api, events: &[Value]) -> CollectedResponse {
    let (mut reader, mut whole) = (stream_reader(api), CollectedResponse::default());
    for event in events {
        let event = sse::parse_event(format!("data: {event}\n\n").into());
        let deltas = reader.read(&event).expect("a valid event");
        deltas.into_iter().for_each(|delta| whole.push(delta));
    }
    whole.native_turn = Some(NativeTurn { api, items: reader.take_turn() });
    whole
}

/// Returns the model's turn as it appears in a request that continues the conversation.
fn sent_turn(api: Api, turn: Turn) -> Value {
    let user = Turn::new(Role::User, vec![crate::codec::Part::Text("on".into())]);
    let request = Request { turns: vec![turn, user], ..Request::default() };
    let body = write_request(api, &request, &mut Losses::default()).expect("a body");
    extract_turn(api, &body)
}

fn extract_turn(api: Api, body: &Map<String, Value>) -> Value {
    match api {
        Api::Chat => json!([body["messages"][0]]),
        Api::Messages => body["messages"][0]["content"].clone(),
        Api::Responses => {
            let items = body["input"].as_array().cloned().unwrap_or_default();
            items[..items.len() - 1].to_vec().into()
        }
        Api::Gemini => body["contents"][0]["parts"].clone(),
    }
}

/// Returns the request in which a client sends back the response that it received.
fn follow_up_request(api: Api, response: &Value) -> Value {
    match api {
        Api::Chat => {
            json!({"messages": [response["choices"][0]["message"], {"role": "user", "content": "on"}]})
        }
        Api::Messages => {
            json!({"max_tokens": 9, "messages": [{"role": "assistant", "content": response["content"]},
            {"role": "user", "content": "on"}]})
        }
        Api::Responses => {
            let mut items = response["output"].as_array().cloned().unwrap_or_default();
            items.push(json!({"type": "message", "role": "user", "content": "on"}));
            json!({ "input": items })
        }
        Api::Gemini => {
            json!({"contents": [response["candidates"][0]["content"], {"role": "user", "parts": [{"text": "on"}]}]})
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn turn_survives_a_round_trip_in_every_format(seed in any::<u64>()) {
        for api in ALL_APIS {
            let mut rng = Rng::with_seed(seed);
            let items = turn(api, &mut rng);
            let body = response(api, &items);
            let mut whole = CollectedResponse::from_deltas(read_response(api, &body, 1).expect("an answer"));
            let ids: Vec<_> = whole.calls().map(|call| call.id.clone()).collect();
            whole.native_turn = Some(NativeTurn { api, items: native_turn(api, &body, &ids) });
            let streamed = read_stream(api, &stream_events(api, &items, &mut rng));
            for (how, whole) in [("whole", whole), ("streamed", streamed)] {
                // Send the turn back as an in-process scaffold does.
                let message = whole.to_model_response().to_message();
                let again = match api {
                    Api::Chat => json!([crate::codec::message::to_chat(&message)]),
                    _ => sent_turn(api, crate::codec::message::to_turn(&message)),
                };
                prop_assert_eq!(again, json!(items.clone()), "{} {}", api, how);
            }
        }
    }

    #[test]
    fn turn_survives_a_round_trip_through_a_client_of_another_format(seed in any::<u64>()) {
        for (upstream, client) in ALL_APIS.into_iter().flat_map(|one| ALL_APIS.map(|other| (one, other))) {
            if upstream == client {
                continue;
            }
            let mut rng = Rng::with_seed(seed);
            let items = turn(upstream, &mut rng);
            let whole = read_stream(upstream, &stream_events(upstream, &items, &mut rng));
            let mut turns = NativeTurns::default();
            turns.store(&whole);
            let given = write_response(client, &Map::new(), &whole, &whole.usage.unwrap_or_default());
            let asked = follow_up_request(client, &given);
            let mut losses = Losses::default();
            let asked = asked.as_object().expect("an object");
            let mut request = read_request(client, asked, &mut losses).expect("a request");
            turns.restore(&mut request);
            let body = write_request(upstream, &request, &mut losses).expect("a body");
            let back = extract_turn(upstream, &body);
            let equal = back == json!(items.clone());
            prop_assert!(equal || !losses.clone().into_vec().is_empty(), "{} through {}: {} is {}", upstream, client, json!(items), back);
            prop_assert!(equal, "{} through {}: {} is {}", upstream, client, json!(items), back);
        }
    }
}
