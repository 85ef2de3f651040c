//! The params to send, of exactly the requested size.

use crate::load::Shape;

/// An object of `size` bytes of JSON.
pub fn params(shape: Shape, size: usize) -> String {
    let mut params = String::from("{");
    if shape == Shape::Nested {
        add_records(&mut params, size);
    }
    params.push_str("\"text\":\"");
    let end = "\"}";
    let rest = size.saturating_sub(params.len() + end.len());
    params.extend(TEXT.chars().cycle().take(rest));
    params.push_str(end);
    params
}

/// Contains no character with two JSON forms, so that most servers echo it byte for byte.
const TEXT: &str = "The quick brown fox jumps over the lazy dog; ";

/// Adds as many records as fit.
fn add_records(params: &mut String, size: usize) {
    params.push_str("\"items\":[");
    // Text after the last record.
    let end = "],\"text\":\"\"}".len();
    for number in 1.. {
        let record = match size < 500 {
            true => format!("[{number},{{}}]"),
            false => record(number),
        };
        if params.len() + 1 + record.len() + end > size {
            break;
        }
        if number > 1 {
            params.push(',');
        }
        params.push_str(&record);
    }
    params.push_str("],");
}

fn record(number: u32) -> String {
    // From 1 on, because JavaScript loses the minus before a zero.
    let (line, column) = (number * 7 % 1000, number % 80 + 1);
    format!(
        r#"{{"code":{number},"kind":"warning","range":{{"end":{{"column":{},"line":{line}}},"start":{{"column":{column},"line":{line}}}}},"related":[{{"path":"src/part_{number}.rs","score":{}.25}},[],[true,null,-{column}]]}}"#,
        column + 12,
        number % 10,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_json_of_exactly_that_size() {
        for shape in [Shape::Text, Shape::Nested] {
            for size in [64, 100, 1_000, 4_096, 64_000, 1_000_000] {
                let params = params(shape, size);
                assert_eq!(params.len(), size, "{shape:?}");
                let value: serde_json::Value = serde_json::from_str(&params).unwrap();
                assert!(value.is_object());
            }
        }
    }
}
