//! Small traces, written line by line.

use super::folder::Folder;

/// Writes a trace of these messages (see [`trace_text`]) that ends regularly.
pub(crate) fn write_trace(folder: &Folder, name: &str, lines: &[&str]) -> String {
    let end = "{\"seq\":99,\"at\":99,\"dir\":\"tap\",\"kind\":\"end\"}\n";
    folder.write(name, trace_text(lines) + end)
}

/// The text of a trace: `>` from the client, `<` from the server, one millisecond apart.
pub(crate) fn trace_text(lines: &[&str]) -> String {
    let mut text = "{\"duet\":1}\n".to_owned();
    for (number, line) in lines.iter().enumerate() {
        let (dir, json) = line.split_at(1);
        let dir = if dir == ">" { "c2s" } else { "s2c" };
        let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
        let kind = match (value.get("method"), value.get("id"), value.get("error")) {
            (Some(_), Some(_), _) => "request",
            (Some(_), None, _) => "notification",
            (None, _, Some(_)) => "error",
            _ => "response",
        };
        let (seq, at) = (number + 1, number * 1_000);
        text += &format!(
            "{{\"seq\":{seq},\"at\":{at},\"dir\":\"{dir}\",\"kind\":\"{kind}\",\"wire\":\"ndjson\",\"msg\":{json}}}\n"
        );
    }
    text
}
