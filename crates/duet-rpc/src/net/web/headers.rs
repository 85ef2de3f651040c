//! Headers that contain a list, or that occur once.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Returns `true` if a header with a list of words contains this word.
#[cfg(feature = "websocket")]
pub(in crate::net) fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|it| it.trim().eq_ignore_ascii_case(word))
}

/// Returns `true` if a list of media types contains this one, with any parameters but the quality 0, which excludes it.
pub(in crate::net) fn lists_type(value: &HeaderValue, media_type: &str) -> bool {
    let types = value.to_str().unwrap_or_default().split(',');
    types.map(|it| it.split(';').map(str::trim)).any(|mut parts| {
        parts.next().is_some_and(|it| it.eq_ignore_ascii_case(media_type))
            && !parts.any(is_quality_0)
    })
}

/// Returns `true` for `q=0`, `q=0.0` and the like.
fn is_quality_0(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    name.trim_end().eq_ignore_ascii_case("q")
        && value.trim_start().starts_with('0')
        && value.trim().bytes().all(|byte| matches!(byte, b'0' | b'.'))
}

/// The value of a header that occurs exactly once, if it is text.
pub(in crate::net) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::lists_type;

    #[test]
    fn t2_a_media_type_is_listed_unless_its_quality_is_0() {
        for (value, is_listed) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream", true),
            ("text/event-stream;q=0.5", true),
            ("text/event-stream; charset=utf-8; q=1", true),
            ("text/event-stream;q=0", false),
            ("text/event-stream ; Q=0.000", false),
            ("application/json;q=0, text/event-stream", true),
            ("application/json", false),
            ("", false),
        ] {
            let value = HeaderValue::from_static(value);
            assert_eq!(lists_type(&value, "text/event-stream"), is_listed, "{value:?}");
        }
    }
}
