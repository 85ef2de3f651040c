//! The `Content-Type` header (F12).

use super::header::trim;
use crate::fault::FaultKind;

const MEDIA_TYPE: &[u8] = b"application/vscode-jsonrpc";

/// The reason to refuse a body of this type; `None` if the type is supported.
pub(super) fn refusal(value: &[u8]) -> Option<FaultKind> {
    let mut parts = Parts { rest: Some(value) };
    let media_type = parts.next().unwrap_or_default();
    if !media_type.eq_ignore_ascii_case(MEDIA_TYPE) {
        return Some(FaultKind::UnsupportedContentType);
    }
    let all_utf8 = parts.filter_map(charset).all(is_utf8);
    (!all_utf8).then_some(FaultKind::BadCharset)
}

/// The value of a parameter that is the charset.
fn charset(parameter: &[u8]) -> Option<&[u8]> {
    let equals = parameter.iter().position(|&byte| byte == b'=')?;
    let name = trim(&parameter[..equals]);
    name.eq_ignore_ascii_case(b"charset").then(|| trim(&parameter[equals + 1..]))
}

fn is_utf8(value: &[u8]) -> bool {
    let bare = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let bare = bare.unwrap_or(value);
    // `utf8` is not a registered name, but some clients send it.
    bare.eq_ignore_ascii_case(b"utf-8") || bare.eq_ignore_ascii_case(b"utf8")
}

/// The parts of a value between semicolons, ignoring semicolons in quotes.
struct Parts<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let (mut quoted, mut escaped) = (false, false);
        let end = rest.iter().position(|&byte| {
            let ends = byte == b';' && !quoted;
            quoted ^= byte == b'"' && !escaped;
            escaped = byte == b'\\' && quoted && !escaped;
            ends
        });
        self.rest = end.map(|end| &rest[end + 1..]);
        Some(trim(&rest[..end.unwrap_or(rest.len())]))
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;
    use crate::fault::FaultKind::{BadCharset, UnsupportedContentType};

    #[test]
    fn f12_other_media_types_and_charsets_are_refused() {
        let rows: [(&str, _); 22] = [
            ("application/vscode-jsonrpc", None),
            ("Application/VSCode-JsonRPC", None),
            ("application/vscode-jsonrpc; charset=utf-8", None),
            ("application/vscode-jsonrpc;charset=utf8", None),
            ("application/vscode-jsonrpc ; CHARSET = \"UTF-8\" ", None),
            ("application/vscode-jsonrpc; v=1; charset=utf-8; q=2", None),
            ("application/vscode-jsonrpc; note=\"a;charset=latin1\"; charset=utf-8", None),
            ("application/vscode-jsonrpc; note=\"a\\\";charset=latin1\"", None),
            ("application/vscode-jsonrpc;", None),
            ("application/vscode-jsonrpc; charset=latin1", Some(BadCharset)),
            ("application/vscode-jsonrpc; charset=", Some(BadCharset)),
            ("application/vscode-jsonrpc; charset=\"utf-8", Some(BadCharset)),
            ("application/vscode-jsonrpc; charset=utf-8; charset=utf-16", Some(BadCharset)),
            ("application/vscode-jsonrpc; charset=utf-7; v=1", Some(BadCharset)),
            ("application/vscode-jsonrpc; note=\"ab\"; charset=latin1", Some(BadCharset)),
            ("application/vscode-jsonrpc; note=\\\"a\"; charset=latin1", Some(BadCharset)),
            ("application/json", Some(UnsupportedContentType)),
            ("application/json; charset=utf-8", Some(UnsupportedContentType)),
            ("text/plain; charset=latin1", Some(UnsupportedContentType)),
            ("application/vscode-jsonrpc-2", Some(UnsupportedContentType)),
            ("", Some(UnsupportedContentType)),
            ("; charset=utf-8", Some(UnsupportedContentType)),
        ];
        for (value, expect) in rows {
            assert_eq!(refusal(value.as_bytes()), expect, "{value}");
        }
    }
}
