//! Ids and tokens inside messages: found, and replaced in place.
//!
//! | message | place |
//! |---|---|
//! | request of a client that wants progress | LSP: `workDoneToken`, `partialResultToken`; MCP: `_meta.progressToken` |
//! | progress | LSP: `$/progress`, `token`; MCP: `notifications/progress`, `progressToken` |
//! | cancellation of a request | LSP: `$/cancelRequest`, `id`; MCP: `notifications/cancelled`, `requestId` |
//! | cancellation of progress | LSP: `window/workDoneProgress/cancel`, `token` |
//!
//! Everything else of a message stays byte for byte.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// Replaces parts of a text. Each part is a slice of the text itself.
pub(super) fn replace(text: &str, parts: &[(&str, &str)]) -> Vec<u8> {
    let mut places: Vec<(usize, &str, &str)> =
        parts.iter().map(|&(part, new)| (offset(text, part), part, new)).collect();
    places.sort_unstable_by_key(|&(at, ..)| at);
    let added: usize = parts.iter().map(|(_, new)| new.len()).sum();
    let mut out = Vec::with_capacity(text.len() + added);
    let mut rest = 0;
    for (at, part, new) in places {
        out.extend_from_slice(text.get(rest..at).unwrap_or_default().as_bytes());
        out.extend_from_slice(new.as_bytes());
        rest = at + part.len();
    }
    out.extend_from_slice(text.get(rest..).unwrap_or_default().as_bytes());
    out
}

/// The position of a slice in its text.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize)
}

/// The raw value of a member of an object, if it is not null. The last one, if there are several.
pub(super) fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let members: HashMap<String, &RawValue> = serde_json::from_str(object).ok()?;
    members.get(name).map(|value| value.get()).filter(|&value| value != "null")
}

/// The raw tokens with which a request asks for progress.
pub(super) fn tokens(params: &str) -> Vec<&str> {
    // Most requests have none, and large ones should not be read again. A name may be written with escapes.
    if !params.contains("oken\"") && !params.contains('\\') {
        return Vec::new();
    }
    let lsp = ["workDoneToken", "partialResultToken"].map(|name| member(params, name));
    let mcp = member(params, "_meta").and_then(|meta| member(meta, "progressToken"));
    lsp.into_iter().chain([mcp]).flatten().filter(|token| is_token(token)).collect()
}

/// Returns `true` for a string or a number.
fn is_token(raw: &str) -> bool {
    raw.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
}

/// The raw id of the request that a notification cancels; `None` if the notification is something else.
pub(super) fn cancelled<'a>(method: &str, params: Option<&'a str>) -> Option<&'a str> {
    let name = match method {
        "$/cancelRequest" => "id",
        "notifications/cancelled" => "requestId",
        _ => return None,
    };
    // Without an id, it cancels nothing.
    Some(params.and_then(|params| member(params, name)).unwrap_or("null"))
}

/// The raw token of a progress notification.
pub(super) fn progress<'a>(method: &str, params: Option<&'a str>) -> Option<&'a str> {
    let name = match method {
        "$/progress" | "window/workDoneProgress/cancel" | "window/workDoneProgress/create" => {
            "token"
        }
        "notifications/progress" => "progressToken",
        _ => return None,
    };
    member(params?, name)
}

/// Returns `true` if a progress notification of LSP is the last one for its token.
pub(super) fn is_last_progress(params: &str) -> bool {
    let kind = member(params, "value").and_then(|value| member(value, "kind"));
    kind == Some("\"end\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b7_tokens_are_found_where_the_protocols_put_them() {
        for (params, expected) in [
            (r#"{"workDoneToken":1,"partialResultToken":"a"}"#, vec!["1", "\"a\""]),
            (r#"{"_meta":{"progressToken":"x\"y"},"name":"n"}"#, vec![r#""x\"y""#]),
            (r#"{"workDone\u0054oken": -2 }"#, vec!["-2"]),
            (r#"{"workDoneToken":null,"partialResultToken":[1]}"#, vec![]),
            (r#"{"_meta":7,"progressToken":1}"#, vec![]),
            (r#"{"nested":{"workDoneToken":1}}"#, vec![]),
            (r#"["workDoneToken"]"#, vec![]),
            ("[]", vec![]),
        ] {
            assert_eq!(tokens(params), expected, "{params}");
        }
    }

    #[test]
    fn b7_cancellations_and_progress_are_found_in_both_dialects() {
        for (method, params, expected) in [
            ("$/cancelRequest", Some(r#"{"id":"a"}"#), Some("\"a\"")),
            ("notifications/cancelled", Some(r#"{"requestId":7,"reason":"r"}"#), Some("7")),
            ("notifications/cancelled", Some(r#"{"id":7}"#), Some("null")),
            ("$/cancelRequest", None, Some("null")),
            ("cancel", Some(r#"{"id":"a"}"#), None),
        ] {
            assert_eq!(cancelled(method, params), expected, "{method}");
        }
        let lsp = r#"{"token":"t","value":{"kind":"end"}}"#;
        assert_eq!(progress("$/progress", Some(lsp)), Some("\"t\""));
        assert!(is_last_progress(lsp) && !is_last_progress(r#"{"token":1,"value":{}}"#));
        let mcp = r#"{"progressToken":3,"progress":1}"#;
        assert_eq!(progress("notifications/progress", Some(mcp)), Some("3"));
        assert_eq!(progress("textDocument/didOpen", Some(lsp)), None);
    }

    #[test]
    fn b6_parts_are_replaced_in_any_order_and_the_rest_stays() {
        let text = "{\"id\" : 1.0,\n \"params\":{\"a\":\"\u{e9}\"}, \"x\":2}";
        let (id, value) = (&text[8..11], &text[28..32]);
        assert_eq!((id, value), ("1.0", "\"\u{e9}\""));
        let expected = "{\"id\" : 77,\n \"params\":{\"a\":null}, \"x\":2}";
        for parts in [[(id, "77"), (value, "null")], [(value, "null"), (id, "77")]] {
            assert_eq!(String::from_utf8(replace(text, &parts)).as_deref(), Ok(expected));
        }
        assert_eq!(replace(text, &[]), text.as_bytes());
    }
}
