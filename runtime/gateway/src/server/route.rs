//! Routes requests by path.

use http::Method;
use proctor_types::Api;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// Requests a response from the model.
    Generate {
        api: Api,
        /// The model and mode, if the path contains them. Other APIs have them in the body.
        target: Option<GeminiTarget>,
    },
    CountTokens(Api),
    /// All models, or one.
    Models {
        api: Api,
        model_name: Option<String>,
    },
    WrongMethod(Api),
    Unknown(Api),
}

/// The model and action in a Gemini path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GeminiTarget {
    pub model: String,
    pub is_streaming: bool,
}

/// Returns the route of a request. `is_anthropic_client` says whether the client uses the Anthropic
/// API. Some of that API's paths are the same as OpenAI's.
pub(super) fn route(method: &Method, path: &str, is_anthropic_client: bool) -> Route {
    let trimmed = path.trim_matches('/');
    if let Some(rest) = parse_gemini_path(trimmed) {
        return rest.map_or(Route::Unknown(Api::Gemini), |(model, action)| {
            let generate = |stream| Route::Generate {
                api: Api::Gemini,
                target: Some(GeminiTarget { model: model.to_owned(), is_streaming: stream }),
            };
            let one = (!model.is_empty()).then(|| model.to_owned());
            match (action, method) {
                (Some("generateContent"), &Method::POST) => generate(false),
                (Some("streamGenerateContent"), &Method::POST) => generate(true),
                (Some("countTokens"), &Method::POST) => Route::CountTokens(Api::Gemini),
                (Some("generateContent" | "streamGenerateContent" | "countTokens"), _) => {
                    Route::WrongMethod(Api::Gemini)
                }
                (Some(_), _) => Route::Unknown(Api::Gemini),
                (None, &Method::GET) => Route::Models { api: Api::Gemini, model_name: one },
                (None, _) => Route::WrongMethod(Api::Gemini),
            }
        });
    }
    let bare = trimmed.strip_prefix("v1/").unwrap_or(trimmed);
    let openai = if is_anthropic_client { Api::Messages } else { Api::Chat };
    let post = |api: Api, found: Route| {
        if *method == Method::POST { found } else { Route::WrongMethod(api) }
    };
    let generate = |api: Api| post(api, Route::Generate { api, target: None });
    match bare {
        "chat/completions" => generate(Api::Chat),
        "responses" => generate(Api::Responses),
        "messages" => generate(Api::Messages),
        "messages/count_tokens" => post(Api::Messages, Route::CountTokens(Api::Messages)),
        "models" if *method == Method::GET => Route::Models { api: openai, model_name: None },
        "models" => Route::WrongMethod(openai),
        _ => match bare.strip_prefix("models/") {
            // A model's own name may contain slashes.
            Some(one) if *method == Method::GET => {
                Route::Models { api: openai, model_name: Some(one.to_owned()) }
            }
            _ => Route::Unknown(openai),
        },
    }
}

/// Returns the model and the action of a Gemini path, `None` for another API's path, or
/// `Some(None)` for a Gemini path that is malformed.
fn parse_gemini_path(path: &str) -> Option<Option<(&str, Option<&str>)>> {
    let rest = path.strip_prefix("v1beta").or_else(|| {
        // Paths of the Gemini API's stable version look like those of other APIs, except for the
        // colon before the action.
        path.strip_prefix("v1").filter(|rest| rest.contains(':'))
    })?;
    let Some(rest) = rest.strip_prefix("/models") else { return Some(None) };
    let rest = rest.trim_start_matches('/');
    Some(Some(match rest.rsplit_once(':') {
        Some((model, action)) => (model, Some(action)),
        None => (rest, None),
    }))
}

#[cfg(test)]
mod tests {
    use http::Method;
    use proctor_types::Api::{Chat, Gemini, Messages, Responses};

    use super::{GeminiTarget, Route, route};

    #[test]
    fn route_accepts_paths_of_every_client_with_and_without_a_prefix() {
        let generate = |api| Route::Generate { api, target: None };
        let named = |stream| Route::Generate {
            api: Gemini,
            target: Some(GeminiTarget { model: "m-1".into(), is_streaming: stream }),
        };
        for (path, wanted) in [
            ("/v1/chat/completions", generate(Chat)),
            ("/chat/completions", generate(Chat)),
            ("/v1/responses", generate(Responses)),
            ("/responses", generate(Responses)),
            ("/v1/messages", generate(Messages)),
            ("/messages", generate(Messages)),
            ("/v1/messages/count_tokens", Route::CountTokens(Messages)),
            ("/v1beta/models/m-1:generateContent", named(false)),
            ("/v1/models/m-1:streamGenerateContent", named(true)),
            ("/v1beta/models/m-1:countTokens", Route::CountTokens(Gemini)),
            ("/v1beta/models/m-1:predict", Route::Unknown(Gemini)),
            ("/v1beta/files", Route::Unknown(Gemini)),
            ("/api/hello", Route::Unknown(Chat)),
            ("/v1/models", Route::WrongMethod(Chat)),
        ] {
            assert_eq!(route(&Method::POST, path, false), wanted, "{path}");
        }
        // Codex tries to open a WebSocket with a GET request first.
        assert_eq!(route(&Method::GET, "/v1/responses", false), Route::WrongMethod(Responses));
        for (path, messages, api, one) in [
            ("/v1/models", false, Chat, None),
            ("/models", true, Messages, None),
            ("/v1/models/vendor/m", false, Chat, Some("vendor/m")),
            ("/v1beta/models", false, Gemini, None),
            ("/v1beta/models/m", false, Gemini, Some("m")),
        ] {
            let wanted = Route::Models { api, model_name: one.map(Into::into) };
            assert_eq!(route(&Method::GET, path, messages), wanted, "{path}");
        }
    }
}
