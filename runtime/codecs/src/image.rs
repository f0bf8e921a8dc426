//! Reads and writes images in each format.

use serde_json::{Value, json};

/// Where an image's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// In the request, encoded as base64.
    Data { media_type: String, data: String },
    /// At a URL that the provider fetches.
    Url(String),
}

impl Image {
    /// Reads a URL from Chat Completions or Responses, which may be a `data:` URL.
    pub(super) fn from_url(url: &str) -> Option<Self> {
        let Some(rest) = url.strip_prefix("data:") else {
            let web = url.starts_with("https://") || url.starts_with("http://");
            return web.then(|| Self::Url(url.to_owned()));
        };
        let (head, data) = rest.split_once(',')?;
        let media_type = head.strip_suffix(";base64")?;
        // Drop the media type's parameters, because nothing uses them.
        let media_type = media_type.split(';').next().unwrap_or_default();
        media_type
            .starts_with("image/")
            .then(|| Self::Data { media_type: media_type.to_owned(), data: data.to_owned() })
    }

    /// Reads the `source` of a Messages block.
    pub(super) fn from_source(source: &Value) -> Option<Self> {
        match source["type"].as_str()? {
            "base64" => Self::from_data(&source["media_type"], &source["data"]),
            "url" => Some(Self::Url(source["url"].as_str()?.to_owned())),
            _ => None,
        }
    }

    /// Reads inline data. Gemini uses it for any file, so only images are accepted.
    pub(super) fn from_data(media_type: &Value, data: &Value) -> Option<Self> {
        let media_type = media_type.as_str().filter(|kind| kind.starts_with("image/"))?;
        Some(Self::Data { media_type: media_type.to_owned(), data: data.as_str()?.to_owned() })
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::Data { media_type, data } => format!("data:{media_type};base64,{data}"),
            Self::Url(url) => url.clone(),
        }
    }

    pub(super) fn source(&self) -> Value {
        match self {
            Self::Data { media_type, data } => {
                json!({"type": "base64", "media_type": media_type, "data": data})
            }
            Self::Url(url) => json!({"type": "url", "url": url}),
        }
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::Api::{self, Chat, Gemini, Messages, Responses};

    use super::*;
    use crate::Losses;

    const DATA: &str = "data:image/png;base64,AAAA";

    /// Returns a conversation with one image in a user message and another in a tool result.
    fn conversation(api: Api) -> Value {
        match api {
            Chat => json!({"messages": [
                {"role": "user", "content": [{"type": "text", "text": "What?"},
                    {"type": "image_url", "image_url": {"url": DATA}}]},
                {"role": "assistant", "tool_calls": [{"id": "a", "type": "function",
                    "function": {"name": "look", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "seen"},
                    {"type": "image_url", "image_url": {"url": DATA}}]}]}),
            Responses => json!({"input": [
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "What?"},
                    {"type": "input_image", "image_url": DATA}]},
                {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": [
                    {"type": "input_text", "text": "seen"},
                    {"type": "input_image", "image_url": DATA}]}]}),
            Messages => {
                let image = json!({"type": "image", "source":
                    {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
                json!({"max_tokens": 9, "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "What?"}, image]},
                    {"role": "assistant", "content": [
                        {"type": "tool_use", "id": "a", "name": "look", "input": {}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a",
                        "content": [{"type": "text", "text": "seen"}, image]}]}]})
            }
            Gemini => {
                let image = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
                json!({"contents": [
                    {"role": "user", "parts": [{"text": "What?"}, image]},
                    {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
                    {"role": "user", "parts": [{"functionResponse":
                        {"name": "look", "response": {"output": "seen"}}}, image]}]})
            }
        }
    }

    #[test]
    fn images_in_tool_results_are_translated_between_all_formats() {
        for from in [Chat, Responses, Messages, Gemini] {
            for to in [Chat, Responses, Messages, Gemini] {
                let body = conversation(from);
                let read = |api: Api, body: &Value| {
                    crate::read_request(api, body.as_object().unwrap(), &mut Losses::default())
                        .unwrap()
                };
                let request = read(from, &body);
                let written =
                    crate::write_request(to, &request, &mut Losses::default()).unwrap().into();
                let again = read(to, &written);
                let parts = again.turns.iter().flat_map(|turn| &turn.parts);
                let told: Vec<String> = parts
                    .filter_map(|part| match part {
                        crate::Part::Text(text) => Some(text.clone()),
                        crate::Part::Image(image) => Some(image.url()),
                        crate::Part::Result { content, .. } => Some(content.clone()),
                        _ => None,
                    })
                    .collect();
                assert_eq!(told, ["What?", DATA, "seen", DATA], "{from} to {to}: {written}");
            }
        }
    }

    #[test]
    fn from_url_rejects_other_content() {
        let web = Image::from_url("https://a/b.png");
        assert_eq!(web, Some(Image::Url("https://a/b.png".into())));
        assert!(Image::from_url("data:application/pdf;base64,AAAA").is_none());
        assert!(Image::from_url("file:///etc/passwd").is_none());
        let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "AA"});
        assert!(Image::from_source(&pdf).is_none());
    }

    #[test]
    fn gemini_rejects_image_urls() {
        let body = json!({"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}]});
        let body = body.as_object().unwrap();
        let request = crate::read_request(Chat, body, &mut Losses::default()).unwrap();
        let refused = crate::write_request(Gemini, &request, &mut Losses::default()).unwrap_err();
        assert!(refused.contains("image URLs"), "{refused}");
    }
}
