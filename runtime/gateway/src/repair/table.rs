//! Chooses repairs according to the text of an endpoint's error.

use proctor_types::{Api, Fault, FaultLayer, ShippedTable};
use regex::Captures;
use serde::Deserialize;

use super::{Action, Repair};
use crate::{patterns::Patterns, rejections::ApiError};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RepairRow {
    name: String,
    action: String,
    #[serde(default)]
    argument: Option<String>,
    #[serde(default)]
    apis: Vec<Api>,
    #[serde(default)]
    statuses: Vec<u16>,
    /// How often the error must occur before the repair applies. Used for errors with vague
    /// messages.
    #[serde(default)]
    after: u32,
    words: Patterns,
}

/// The table that maps errors to repairs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RepairTable {
    repair: Vec<RepairRow>,
}

impl RepairTable {
    /// Returns the built-in table. A test checks that it is valid.
    ///
    /// # Errors
    /// Fails if the table cannot be read.
    pub(crate) fn shipped() -> Result<&'static Self, Fault> {
        static SHIPPED: ShippedTable<RepairTable> = ShippedTable::new(
            "tables/repairs.toml",
            include_str!("../../../../configs/tables/repairs.toml"),
        );
        SHIPPED.get().map_err(|what| Fault::new(FaultLayer::Model, what))
    }

    /// Returns the repairs for an error that has occurred `occurrences` times, starting with the
    /// most likely one. `status` is the HTTP status.
    pub(crate) fn repairs_for(
        &self,
        api: Api,
        status: u16,
        body: &str,
        occurrences: u32,
    ) -> impl Iterator<Item = Repair> {
        let error = ApiError::parse(body);
        let rows = self.repair.iter().filter(move |row| {
            (row.apis.is_empty() || row.apis.contains(&api))
                && (row.statuses.is_empty() || row.statuses.contains(&status))
                && occurrences >= row.after
        });
        rows.filter_map(move |row| {
            let found = row.words.captures(&error.message)?;
            let action = row.action(&found)?;
            Some(Repair { name: row.name.clone(), action })
        })
    }
}

impl RepairRow {
    fn action(&self, captures: &Captures<'_>) -> Option<Action> {
        let text = |name: &str| captures.name(name).map(|one| one.as_str().to_owned());
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        let argument = || self.argument.clone().unwrap_or_default();
        Some(match self.action.as_str() {
            "max_completion_tokens" => {
                Action::RenameLimit { old_field: "max_tokens", new_field: "max_completion_tokens" }
            }
            "max_tokens" => {
                Action::RenameLimit { old_field: "max_completion_tokens", new_field: "max_tokens" }
            }
            "fit_window" => {
                let room = || number("window")?.checked_sub(number("input")?);
                let limit = match &self.argument {
                    Some(limit) => limit.parse().ok(),
                    None => room(),
                };
                Action::LowerOutputLimit {
                    max_tokens: limit.filter(|left| *left > 0)?,
                    is_one_time: true,
                }
            }
            "output_limit" => {
                let past = || number("past")?.checked_sub(1);
                Action::LowerOutputLimit {
                    max_tokens: number("most").or_else(past)?,
                    is_one_time: false,
                }
            }
            "drop_field" => Action::DropField(argument()),
            "no_stream" => Action::DisableStreaming,
            "stream" => Action::EnableStreaming,
            "drop_cache_control" => Action::DropCacheControl,
            "drop_strict" => Action::DropStrict,
            "restore_turns" => Action::RestoreTurns,
            "empty_reasoning_content" => Action::AddReasoningContent,
            "unsigned_calls" => Action::SignUnsignedCalls,
            "drop_turn_field" => Action::DropTurnField(text("field")?),
            "plain_turns" => Action::KeepSupportedFields,
            "placeholder_turn" => Action::AddPlaceholderText,
            "merge_roles" => Action::MergeRoles,
            "turn_after_tool" => Action::InsertTurnAfterTool,
            "single_calls" => Action::SplitCalls,
            "system_first" => Action::MoveSystemFirst,
            "system_into_user" => Action::MergeSystemIntoUser,
            "own_item_ids" => Action::DropForeignItemIds,
            "no_item_ids" => Action::DropItemIds,
            "no_encrypted_reasoning" => Action::DropEncryptedReasoning,
            "newest_reasoning" => Action::KeepNewestReasoning,
            "no_lone_reasoning" => Action::DropLoneReasoning,
            "reasoning_each_call" => Action::RepeatReasoning,
            "no_thinking" => Action::DropThinking,
            "no_signatures" => Action::ReplaceSignatures,
            "unique_ids" => Action::MakeIdsUnique,
            "text_or_reasoning" => Action::DropReasoningBesideText,
            "tool_names" => Action::NameToolResults,
            "object_results" => Action::WrapJsonResults,
            "short_ids" => Action::ShortenIds,
            "plain_names" => Action::SanitizeNames,
            "json_arguments" => Action::WrapArguments,
            "no_type_lists" => Action::CollapseTypeLists,
            "no_empty_schemas" => Action::DropEmptySchemas,
            "drop_schema_keyword" => Action::DropSchemaKeyword(text("keyword")?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::Api;
    use serde_json::json;

    use super::{Action, RepairTable};

    fn first_action(api: Api, message: &str) -> Option<Action> {
        let body = json!({"error": {"message": message}}).to_string();
        action_for(api, 400, &body, 1)
    }

    fn action_for(api: Api, status: u16, body: &str, occurrences: u32) -> Option<Action> {
        let table = RepairTable::shipped().expect("a valid table");
        table.repairs_for(api, status, body, occurrences).next().map(|repair| repair.action)
    }

    #[test]
    fn every_row_names_an_action() {
        let table = RepairTable::shipped().expect("a valid table");
        let anything =
            regex::Regex::new("(?<window>9)(?<input>1)(?<most>1)(?<field>a)(?<keyword>b)")
                .expect("a regex");
        for row in &table.repair {
            let found = anything.captures("911ab").expect("a match");
            assert!(row.action(&found).is_some(), "{}", row.name);
        }
    }

    #[test]
    fn repairs_are_found_for_vendor_messages() {
        for (api, message, action) in [
            (
                Api::Chat,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                Action::RenameLimit { old_field: "max_tokens", new_field: "max_completion_tokens" },
            ),
            (
                Api::Chat,
                "This model's maximum context length is 8192 tokens. However, you requested 12000 tokens (4000 in the messages, 8000 in the completion).",
                Action::LowerOutputLimit { max_tokens: 4192, is_one_time: true },
            ),
            (
                Api::Messages,
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
                Action::LowerOutputLimit { max_tokens: 10000, is_one_time: true },
            ),
            (
                Api::Messages,
                "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-haiku",
                Action::LowerOutputLimit { max_tokens: 8192, is_one_time: false },
            ),
            (
                Api::Chat,
                "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
                Action::LowerOutputLimit { max_tokens: 8192, is_one_time: false },
            ),
            (
                Api::Messages,
                "The maximum tokens you requested exceeds the model limit of 8192. Try again with a maximum tokens value that is lower than 8192.",
                Action::LowerOutputLimit { max_tokens: 8192, is_one_time: false },
            ),
            (
                Api::Chat,
                "The maximum tokens you requested exceeds the model limit of 4096",
                Action::LowerOutputLimit { max_tokens: 4096, is_one_time: false },
            ),
            (
                Api::Chat,
                "Your organization must be verified to stream this model.",
                Action::DisableStreaming,
            ),
            (
                Api::Responses,
                "Encrypted content is not supported with this model.",
                Action::DropField("include".into()),
            ),
            (
                Api::Chat,
                "property 'messages.1.reasoning' is unsupported",
                Action::DropTurnField("reasoning".into()),
            ),
            (
                Api::Chat,
                "Assistant message must have either content or tool_calls, but not none.",
                Action::AddPlaceholderText,
            ),
            (
                Api::Chat,
                "Conversation roles must alternate user/assistant/user/assistant/...",
                Action::MergeRoles,
            ),
            (
                Api::Chat,
                "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
                Action::ShortenIds,
            ),
            (
                Api::Chat,
                "* GenerateContentRequest.contents[3].parts[0].function_response.name: Name cannot be empty.\n",
                Action::NameToolResults,
            ),
            (
                Api::Chat,
                "Invalid value at 'contents[4].parts[0].function_response.response' (type.googleapis.com/google.protobuf.Struct), 2",
                Action::WrapJsonResults,
            ),
            (
                Api::Chat,
                "Tool message must have a 'name' field. The 'name' field is required to match the tool call.",
                Action::NameToolResults,
            ),
            (
                Api::Chat,
                "Invalid 'messages[2].tool_calls[0].function.name': string does not match pattern. Expected '^[a-zA-Z0-9_-]+$'.",
                Action::SanitizeNames,
            ),
            (
                Api::Chat,
                "Expecting ',' delimiter: line 1 column 14 (char 13)",
                Action::WrapArguments,
            ),
            (
                Api::Chat,
                "Invalid JSON payload received. Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters': Cannot find field.",
                Action::DropSchemaKeyword("additionalproperties".into()),
            ),
            (
                Api::Chat,
                "Proto field is not repeating, cannot start list.",
                Action::CollapseTypeLists,
            ),
            (
                Api::Responses,
                "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
                Action::DropItemIds,
            ),
            (
                Api::Responses,
                "Duplicate item found with id rs_1. Remove duplicate items from your input and try again.",
                Action::DropItemIds,
            ),
            (
                Api::Responses,
                "Conflicting authenticated continuation identities",
                Action::KeepNewestReasoning,
            ),
            (
                Api::Responses,
                "Item 'rs_2' of type 'reasoning' was provided without its required following item.",
                Action::DropLoneReasoning,
            ),
            (
                Api::Responses,
                "Item 'fc_2' of type 'function_call' was provided without its required 'reasoning' item: 'rs_2'.",
                Action::RestoreTurns,
            ),
            (
                Api::Responses,
                "Invalid 'input[3].name': string does not match pattern. Expected a string that matches '^[a-zA-Z0-9_-]+$'.",
                Action::SanitizeNames,
            ),
            (
                Api::Responses,
                "Invalid 'input[2].id': string too long. Expected a string with maximum length 64, but got 90.",
                Action::DropForeignItemIds,
            ),
            (
                Api::Responses,
                "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64, but got 90.",
                Action::ShortenIds,
            ),
            (
                Api::Responses,
                "The `reasoning_text` in the thinking mode must be passed back to the API.",
                Action::RepeatReasoning,
            ),
            (
                Api::Messages,
                "messages.1.content.0: Invalid `signature` in `thinking` block",
                Action::DropThinking,
            ),
            (
                Api::Messages,
                "You invoked an unsupported model or your request did not allow prompt caching. See the documentation.",
                Action::DropCacheControl,
            ),
            (Api::Responses, "Unknown parameter: 'store'.", Action::DropField("store".into())),
            (
                Api::Responses,
                "Unknown parameter: 'input[3].status'.",
                Action::DropTurnField("status".into()),
            ),
            (
                Api::Messages,
                "messages.1.content.1.tool_use.caller: Extra inputs are not permitted",
                Action::DropTurnField("caller".into()),
            ),
            (
                Api::Chat,
                "Extra inputs are not permitted, field: 'messages[7].tool_calls[0].approxNumTokens', value: 0",
                Action::DropTurnField("approxnumtokens".into()),
            ),
            (
                Api::Chat,
                "[{'type': 'extra_forbidden', 'loc': ('body', 'messages', 1, 'matched_stop'), 'msg': 'Extra inputs'}]",
                Action::DropTurnField("matched_stop".into()),
            ),
            (
                Api::Gemini,
                "Invalid JSON payload received. Unknown name \"id\" at 'contents[1].parts[0].function_call': Cannot find field.",
                Action::DropTurnField("id".into()),
            ),
            (Api::Gemini, "Corrupted thought signature.", Action::ReplaceSignatures),
            (
                Api::Chat,
                "* GenerateContentRequest.tools[0].function_declarations[3].parameters.properties: should be non-empty for OBJECT type",
                Action::DropEmptySchemas,
            ),
            (
                Api::Chat,
                "This model only support stream mode, please enable the stream parameter to access the model.",
                Action::EnableStreaming,
            ),
            (Api::Chat, "Streaming is not supported for this model.", Action::DisableStreaming),
            (Api::Chat, "This model only supports single tool-calls at once!", Action::SplitCalls),
            (Api::Chat, "System message must be at the beginning.", Action::MoveSystemFirst),
            (
                Api::Chat,
                "messages.2.content: Input should be a valid string [type=string_type, input_value=None]",
                Action::AddPlaceholderText,
            ),
        ] {
            assert_eq!(first_action(api, message).as_ref(), Some(&action), "{message}");
        }
        for message in [
            "Invalid value: temperature",
            "model not found",
            "upstream error",
            "no such model in the store",
            "message type must be a string",
            "the maximum tokens you requested per minute exceed your quota",
        ] {
            for api in [Api::Chat, Api::Responses] {
                assert_eq!(first_action(api, message), None, "{message}");
            }
        }
    }

    #[test]
    fn overflow_without_numbers_lowers_the_output_limit_step_by_step() {
        let table = RepairTable::shipped().expect("a valid table");
        let limits = |message: &str| -> Vec<u64> {
            let body = json!({"error": {"message": message}}).to_string();
            let repairs = table.repairs_for(Api::Chat, 400, &body, 1);
            let limit = |action: Action| match action {
                Action::LowerOutputLimit { max_tokens, is_one_time: true } => max_tokens,
                other => panic!("{other:?}"),
            };
            repairs.map(|repair| limit(repair.action)).collect()
        };
        let message = "Please reduce the length of the messages or completion.";
        assert_eq!(limits(message), [16384, 8192, 4096, 2048]);
        let too_long = "This model's maximum context length is 8192 tokens. However, you requested 9500 tokens \
            (9000 in the messages, 500 in the completion).";
        assert!(limits(&format!("{too_long} {message}")).is_empty(), "the messages are too long");
        assert!(limits("Please reduce the length of the messages.").is_empty());
    }

    #[test]
    fn vague_errors_are_repaired_only_after_they_recur() {
        let upstream = json!({"error": {"message": "Upstream request failed"}}).to_string();
        let google = json!([{"error": {"message": "Request contains an invalid argument."}}]);
        let google = google.to_string();
        for (api, status, body, wanted) in [
            (Api::Chat, 400, "", Action::KeepSupportedFields),
            (Api::Responses, 502, &*upstream, Action::DropItemIds),
            (Api::Chat, 400, &*google, Action::NameToolResults),
        ] {
            assert_eq!(action_for(api, status, body, 2), None, "{body}");
            assert_eq!(action_for(api, status, body, 3), Some(wanted), "{body}");
        }
        assert_eq!(action_for(Api::Chat, 503, "", 3), None, "an outage needs no repair");
    }
}
