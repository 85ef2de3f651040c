//! The messages that the benchmarks are fed with.

/// Sizes that the tables show.
pub const SIZES: [(&str, usize); 4] =
    [("64 B", 64), ("1 KB", 1024), ("64 KB", 64 * 1024), ("1 MB", 1024 * 1024)];

/// A request of about `size` bytes whose params are a list of diagnostics, as a language
/// server has them: nested objects, numbers of several kinds, words, short and longer strings.
pub fn nested_request(size: usize) -> String {
    let mut entries = String::new();
    let mut n = 0;
    loop {
        let entry = format!(
            r#"{{"range":{{"start":{{"line":{n},"character":4}},"end":{{"line":{n},"character":{}}}}},"severity":{},"code":"E{:04}","source":"check","message":"mismatched types: expected `u32`, found `&str`","tags":[1],"fresh":{},"data":{{"score":{}.25,"note":null,"uri":"file:///src/module_{n}.rs"}}}}"#,
            n % 80 + 9,
            n % 4 + 1,
            n * 37 % 10_000,
            n % 3 == 0,
            n * 7,
        );
        if entries.len() + entry.len() + 80 > size {
            break;
        }
        if n > 0 {
            entries.push(',');
        }
        entries.push_str(&entry);
        n += 1;
    }
    let head = r#"{"jsonrpc":"2.0","id":12345,"method":"text/check","params":["#;
    // What is missing to the size goes into one string, so that the sizes are what they say.
    let padding = "x".repeat(size.saturating_sub(head.len() + entries.len() + 5));
    let comma = if entries.is_empty() { "" } else { "," };
    if size <= 64 {
        return r#"{"jsonrpc":"2.0","id":12345,"method":"text/check","params":[10]}"#.to_owned();
    }
    format!(r#"{head}{entries}{comma}"{padding}"]}}"#)
}
