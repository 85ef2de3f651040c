//! Redaction of a trace that was recorded before.

use std::borrow::Cow;

use crate::header::Header;
use crate::record::{Body, Bytes, Kind, Record};
use crate::redact::{REDACTED, Redactions};

impl Redactions {
    /// Replaces values in a record. Returns `true` if there were any.
    pub fn apply_record(&self, record: &mut Record<'_>) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut is_changed = false;
        let changed = match &record.body {
            // The message as it came, before a fault was made in it.
            Some(Body::Msg(text)) if record.kind == Kind::Fault => self.apply_json(text),
            // The next record may have the rest of a secret.
            Some(Body::Text(text)) if is_divided(record.kind, text) => Some(String::new()),
            Some(Body::Msg(text) | Body::Text(text)) => self.apply(record.kind, text),
            // The rules are for text, so they cannot tell what is secret in other bytes.
            Some(Body::Bytes(_)) => Some(String::new()),
            None => None,
        };
        if let Some(text) = changed {
            is_changed = true;
            let is_msg = matches!(record.body, Some(Body::Msg(_)));
            let is_json = (record.kind.is_message() || is_msg) && !record.cut;
            record.body =
                Some(if is_json { Body::from_json(text) } else { Body::Text(text.into()) });
        }
        is_changed |= self.apply_fields(record);
        record.redacted |= is_changed;
        is_changed
    }

    /// Replaces values in the members of a record beside its body. Returns `true` if there were any.
    pub(crate) fn apply_fields(&self, record: &mut Record<'_>) -> bool {
        if self.is_empty() {
            return false;
        }
        // The raw bytes have all values once more.
        let mut is_changed = record.raw.take().is_some();
        let mut set = |text: &mut Cow<'_, str>, changed: Option<String>| {
            is_changed |= changed.is_some();
            if let Some(changed) = changed {
                *text = Cow::Owned(changed);
            }
        };
        if let Some(method) = &mut record.method {
            let is_hidden = self.hides_member("method");
            set(
                method,
                if is_hidden { Some(REDACTED.to_owned()) } else { self.apply_text(method) },
            );
        }
        if let Some(id) = &mut record.id {
            let is_hidden = self.hides_member("id");
            set(id, if is_hidden { Some(format!("\"{REDACTED}\"")) } else { self.apply_json(id) });
        }
        if let Some(why) = &mut record.why {
            let changed = match record.kind {
                // The rule of a fault may have a secret value, and the name of its member.
                Kind::Fault => self.apply(Kind::Noise, why),
                _ => self.apply_text(why),
            };
            set(why, changed);
        }
        for bytes in [&mut record.head, &mut record.tail].into_iter().flatten() {
            let changed = match std::str::from_utf8(&bytes.0) {
                Ok(text) => self.apply(Kind::Noise, text),
                Err(_) => Some(String::new()),
            };
            if let Some(text) = changed {
                is_changed = true;
                *bytes = Bytes(Cow::Owned(text.into_bytes()));
            }
        }
        is_changed
    }

    /// Replaces values in a header, and adds the rules to it.
    pub fn apply_header(&self, header: &mut Header) {
        let ends = [&mut header.cwd, &mut header.listen, &mut header.connect];
        for text in header.command.iter_mut().chain(ends.into_iter().flatten()) {
            if let Some(changed) = self.apply_text(text) {
                *text = changed;
            }
        }
        for rule in &mut header.faults {
            if let Some(changed) = self.apply(Kind::Noise, rule) {
                *rule = changed;
            }
        }
        let rules = self.describe().into_iter().filter(|rule| !header.redact.contains(rule));
        let rules: Vec<_> = rules.collect();
        header.redact.extend(rules);
    }
}

/// Returns `true` for a piece of a frame or of a long line that ends anywhere.
fn is_divided(kind: Kind, text: &str) -> bool {
    kind == Kind::More || kind == Kind::Broken && !text.ends_with('\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Dir;

    fn rules() -> Redactions {
        let mut rules = Redactions::default();
        rules.add("token").expect("a name");
        rules.add("/params/0").expect("a pointer");
        rules.add_value("s[0-9]+").expect("an expression");
        rules
    }

    #[test]
    fn r9_every_part_of_a_record_is_redacted() {
        // Even the beginning of it.
        let secret = "s12";
        let mut request = Record::new(1, 0, Dir::C2s, Kind::Request);
        request.id = Some("\"s123\"".into());
        request.method = Some("get/s123".into());
        request.head = Some(Bytes(b"X-Token: s123\r\n\r\n"[..].into()));
        request.body = Some(Body::from_json(
            r#"{"id":"s123","method":"get/s123","params":["s123",{"token":{"a":"s123"}}]}"#,
        ));
        let with = |kind: Kind, body: Body<'static>| {
            let mut record = Record::new(2, 0, Dir::S2c, kind);
            record.body = Some(body);
            record
        };
        let mut cut = with(Kind::Response, Body::Text(r#"{"result":"s123"#.into()));
        cut.cut = true;
        let mut broken = with(Kind::Broken, Body::Text(r#"{"token":"s123"#.into()));
        broken.why = Some("expected s123".into());
        let rows = [
            request,
            cut,
            broken,
            with(Kind::More, Body::Text("s12".into())),
            with(Kind::Broken, Body::Text("Content-Length: 9\r\n\r\ns12".into())),
            with(Kind::Stderr, Body::Text("key s123".into())),
            with(Kind::Noise, Body::Bytes(b"\xffs123"[..].into())),
        ];
        for mut row in rows {
            assert!(rules().apply_record(&mut row) && row.redacted, "{row:?}");
            let shown = format!("{row:?}");
            assert!(!shown.contains(secret) && !shown.contains("115, 49"), "{shown}");
        }
    }

    #[test]
    fn r9_hidden_id_and_method_are_not_shown_beside_the_message() {
        let mut record = Record::new(1, 0, Dir::C2s, Kind::Request);
        (record.id, record.method) = (Some("7".into()), Some("s".into()));
        record.head = Some(Bytes(b"X: \xff\r\n\r\n"[..].into()));
        let mut rules = Redactions::default();
        ["id", "/method"].into_iter().for_each(|rule| rules.add(rule).expect("a rule"));
        assert!(rules.apply_fields(&mut record));
        assert_eq!(record.id.as_deref(), Some("\"[redacted]\""));
        assert_eq!(record.method.as_deref(), Some("[redacted]"));
        assert_eq!(record.head, Some(Bytes(b""[..].into())));
    }

    #[test]
    fn r9_other_records_stay_as_they_are() {
        let mut record = Record::new(1, 0, Dir::C2s, Kind::Request);
        record.id = Some("7".into());
        record.body = Some(Body::from_json(r#"{ "id":7, "method":"a", "params":{"1":1.0}}"#));
        let before = record.clone();
        assert!(!rules().apply_record(&mut record));
        assert_eq!(record, before);
        let mut header = Header::new("s");
        header.command = vec!["server".to_owned(), "--key=s123".to_owned()];
        header.connect = Some("ws://127.0.0.1:1/?key=s123".to_owned());
        rules().apply_header(&mut header);
        rules().apply_header(&mut header);
        assert_eq!(header.connect.as_deref(), Some("ws://127.0.0.1:1/?key=[redacted]"));
        assert_eq!(header.command, ["server", "--key=[redacted]"]);
        assert_eq!(header.redact, ["token", "/params/0", "value"]);
    }
}
