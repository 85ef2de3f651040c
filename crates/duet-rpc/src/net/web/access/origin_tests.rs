//! Patterns of origins, as rows of data and as properties.

use proptest::prelude::*;

use super::OriginPattern;

#[test]
fn t3_a_pattern_allows_what_its_rules_say() {
    let rows: [(&str, &[&str], &[&str]); 11] = [
        (
            "https://Editor.example/",
            &["https://editor.example", "HTTPS://EDITOR.EXAMPLE", "https://editor.example:443"],
            &[
                "http://editor.example",
                "https://editor.example:444",
                "https://editor.example.",
                "https://editor.example/",
                "https://a.editor.example",
                "https://editor.example.evil",
                "https://editor.example@evil",
                "null",
                "",
            ],
        ),
        (
            "http://a.example:80",
            &["http://a.example"],
            &["http://a.example:8080", "https://a.example:80"],
        ),
        (
            "http://[::1]:3000",
            &["http://[::1]:3000"],
            &["http://[::1]", "http://[::2]:3000", "http://::1:3000"],
        ),
        (
            "https://*.example.com",
            &["https://a.example.com", "https://a.b-c.Example.com", "https://xn--a.example.com"],
            &[
                "https://example.com",
                "https://.example.com",
                "https://a..example.com",
                "https://evilexample.com",
                "https://a.example.com:8443",
                "https://a.example.com.evil",
                "https://evil/.example.com",
                "https://evil:1.example.com",
                "https://evil:.example.com",
                "https://u@a.example.com",
                "https://evil?.example.com",
                "https://evil#.example.com",
                "https://[::1].example.com",
                "https://*.example.com",
                "http://a.example.com",
                "xhttps://a.example.com",
            ],
        ),
        (
            "https://pr-*.example.com:8443",
            &["https://pr-1.example.com:8443", "https://pr-a.b.example.com:8443"],
            &[
                "https://pr-.example.com:8443",
                "https://pr-1.example.com",
                "https://x.pr-1.example.com:8443",
            ],
        ),
        (
            "http://localhost:*",
            &["http://localhost", "http://localhost:3000", "http://localhost:80"],
            &[
                "http://localhost:",
                "http://localhost:x",
                "http://localhost:0",
                "http://localhost:70000",
                "http://localhost:1.evil",
                "http://localhost:1/",
                "http://localhost.evil:1",
                "https://localhost:3000",
            ],
        ),
        (
            "vscode-webview://*",
            &["vscode-webview://1a2b3c", "vscode-webview://a.b"],
            &[
                "vscode-webview://",
                "vscode-webview://a/b",
                "vscode-webview://a:1",
                "vscode-webview:a",
                "vscode-webview-x://a",
                "vscode://a",
                "https://a",
            ],
        ),
        (
            "chrome-extension://abc",
            &["chrome-extension://abc"],
            &["chrome-extension://abcd", "moz-extension://abc"],
        ),
        ("file://", &["file://"], &["file:///etc", "file://evil", "file:", "null", "http://"]),
        ("file:///", &["file://"], &["file:///"]),
        ("NULL", &["null"], &["", "nulll", "null://", "http://null", "file://"]),
    ];
    for (pattern, allowed, foreign) in rows {
        let parsed: OriginPattern = pattern.parse().expect("a pattern");
        for origin in allowed {
            assert!(parsed.allows(origin), "{pattern} {origin}");
        }
        for origin in foreign {
            assert!(!parsed.allows(origin), "{pattern} {origin}");
        }
        assert_eq!(parsed.to_string().parse(), Ok(parsed), "{pattern}");
    }
}

#[test]
fn t3_a_text_that_is_not_a_pattern_is_refused_with_a_reason() {
    let rows = [
        ("", "scheme and a host"),
        ("editor.example", "scheme and a host"),
        ("://editor.example", "scheme and a host"),
        ("ht*p://editor.example", "scheme and a host"),
        ("*://editor.example", "scheme and a host"),
        ("*", "every website"),
        ("https://*", "every website"),
        ("http://*:*", "one `*`"),
        ("http://*:8080", "every website"),
        ("https://", "other characters"),
        ("https://a b", "other characters"),
        ("https://\u{e4}.example", "other characters"),
        ("https://u@a.example", "other characters"),
        ("https://a.example,b.example", "other characters"),
        ("https://[::1", "not a number"),
        ("https://a.example/path", "no path"),
        ("https://a.example//", "no path"),
        ("https://a.example:0", "not a number"),
        ("https://a.example:", "not a number"),
        ("https://a.example:70000", "not a number"),
        ("https://a.example:4*", "not a number"),
        ("https://*:*", "one `*`"),
        ("https://*.*.example", "one `*`"),
        ("https://*example.com", "first label"),
        ("https://example.*", "first label"),
        ("https://example*", "first label"),
        ("https://a.*.example", "first label"),
        ("https://*.", "first label"),
        ("https://*..com", "first label"),
        ("https://[*]", "first label"),
        ("https://u@*.com", "first label"),
    ];
    for (text, reason) in rows {
        let error = text.parse::<OriginPattern>().expect_err(text).to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

proptest! {
    /// A pattern with a star never allows another scheme, port or end of the host, for any text in place of the star.
    #[test]
    fn t3_a_star_never_leaves_the_host(
        scheme in "[a-z][a-z-]{0,8}",
        prefix in "[a-z0-9-]{0,3}",
        suffix in r"[a-z0-9-]{1,5}(\.[a-z0-9-]{1,5}){0,2}",
        origin in r"[a-zA-Z-]{1,9}(://|:|//)[a-z0-9./:@\[\]*?#\\ -]{0,20}",
        inside in r"[a-z0-9./:@\[\]*?#\\ -]{0,8}",
        behind in r"([./:@?#\\][a-z0-9./:]{0,6})?",
    ) {
        let pattern: OriginPattern = format!("{scheme}://{prefix}*.{suffix}").parse().expect("a pattern");
        let near = format!("{scheme}://{prefix}{inside}.{suffix}{behind}");
        for origin in [origin, near] {
            if !pattern.allows(&origin) {
                continue;
            }
            let (found, host) = origin.split_once("://").expect("an origin");
            prop_assert!(found.eq_ignore_ascii_case(&scheme));
            // A browser would read the same host: the text contains no character that ends a host or begins a port.
            let host = host.strip_suffix(match &*scheme { "http" => ":80", "https" => ":443", _ => "" }).unwrap_or(host);
            prop_assert!(host.bytes().all(|it| it.is_ascii_alphanumeric() || b"-._".contains(&it)), "{}", host);
            let suffix = format!(".{suffix}");
            prop_assert!(host.to_ascii_lowercase().ends_with(&suffix) && host.len() > suffix.len() + prefix.len());
        }
    }

    /// Parsing never panics, and the text of a pattern is the same pattern.
    #[test]
    fn t3_patterns_are_parsed_without_panics(text in r"[a-z:/.*\[\]@0-9é -]{0,30}", origin in r"[a-z:/.*\[\]@0-9é -]{0,30}") {
        if let Ok(pattern) = text.parse::<OriginPattern>() {
            pattern.allows(&origin);
            prop_assert_eq!(pattern.to_string().parse::<OriginPattern>().expect("again"), pattern);
        }
    }
}
