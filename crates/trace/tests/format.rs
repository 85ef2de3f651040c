//! The file format: records survive writing and reading, and readers accept what other versions write.

use duet_rpc_trace::{Body, Bytes, Dir, End, Entry, Header, Kind, Reader, Record, Wire, Writer};

fn entries(file: &[u8], limit: usize) -> Vec<String> {
    let mut reader = Reader::new(file).with_limit(limit);
    let mut found = Vec::new();
    while let Some(entry) = reader.next_entry().expect("memory can be read") {
        found.push(match entry {
            Entry::Header(header) => format!("header {}", header.session),
            Entry::Record(record) => format!("{} {}", record.seq, record.kind.name()),
            Entry::Bad(line) => line.to_string(),
            _ => panic!("an unknown entry"),
        });
    }
    found
}

#[test]
fn records_are_the_same_after_writing_and_reading() {
    let new = |kind| Record::new(7, 1_000, Dir::S2c, kind);
    let mut rows = vec![new(Kind::Eof), new(Kind::Loss), new(Kind::Exit), new(Kind::End)];
    rows[1].lost = Some(9);
    (rows[2].code, rows[2].left) = (Some(-1), Some(2));
    rows[3].end = Some(End::new(true));
    for json in ["null", "{}", "[1 , 2]", "\"\u{2028}</script>\"", " {}", "{}\n", "[\n]", "\t0", ""]
    {
        for wire in [None, Some(Wire::Lsp), Some(Wire::Ndjson), Some(Wire::Length)] {
            let mut record = new(Kind::Response);
            (record.wire, record.first) = (wire, Some(3));
            (record.id, record.of, record.took) = (Some("null".into()), Some(1), Some(5));
            record.method = Some("a\"b\u{1}".into());
            record.body = Some(Body::from_json(json));
            record.size = Some(json.len() as u64);
            rows.push(record);
        }
    }
    for bytes in [&b"\xff\x00"[..], b"Content-Length: +2\r\n\r\n", b""] {
        let mut record = new(Kind::Broken);
        record.body = Some(Body::from_bytes(bytes));
        record.head = Some(Bytes(bytes.into()));
        record.tail = Some(Bytes(bytes.into()));
        (record.why, record.cut, record.redacted) = (Some("why".into()), true, true);
        rows.push(record);
    }
    for row in rows {
        let mut writer = Writer::new(Vec::new());
        let written = writer.record(&row).expect("memory can be written");
        let file = writer.into_inner();
        assert_eq!(written, file.len() as u64);
        assert_eq!(file.iter().filter(|&&byte| byte == b'\n').count(), 1, "{row:?}");
        let mut reader = Reader::new(&file[..]);
        let read = reader.next_entry().expect("memory can be read");
        assert_eq!(read, Some(Entry::Record(row)));
    }
}

#[test]
fn readers_skip_lines_that_are_not_records() {
    let header = r#"{"duet":1,"session":"s","colour":"red"}"#;
    let record = r#"{"seq":1,"at":2,"dir":"c2s","kind":"request","new":{"a":[1]}}"#;
    let future = r#"{"seq":2,"at":2,"dir":"up","kind":"dream","wire":"air","text":""}"#;
    for (file, limit, expected) in [
        (format!("{header}\n{record}\n"), 100, vec!["header s", "1 request"]),
        (format!("{header}\r\n\n  \n{record}\r\n"), 100, vec!["header s", "1 request"]),
        (format!("{header}\n{future}\n"), 100, vec!["header s", "2 unknown"]),
        (format!("{header}\n{record}"), 100, vec!["header s"]),
        (String::new(), 100, vec![]),
        (
            format!("{{}}\n{record}\n"),
            100,
            vec!["line 1 is not a record: missing field `seq` (column 2)", "1 request"],
        ),
        (
            format!("{header}\n{record}\n"),
            50,
            vec!["header s", "line 2 is not a record: it is longer than 50 bytes"],
        ),
    ] {
        assert_eq!(entries(file.as_bytes(), limit), expected, "{file}");
    }
}

/// A file that grows between the calls.
struct Growing<'a>(std::collections::VecDeque<&'a [u8]>);

impl std::io::Read for Growing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let part = self.0.pop_front().unwrap_or_default();
        buffer[..part.len()].copy_from_slice(part);
        Ok(part.len())
    }
}

#[test]
fn torn_line_is_read_when_the_file_has_grown() {
    let mut writer = Writer::new(Vec::new());
    writer.header(&Header::new("s")).expect("memory can be written");
    writer.record(&Record::new(1, 2, Dir::Tap, Kind::Eof)).expect("memory can be written");
    let file = writer.into_inner();
    for cut in 1..file.len() {
        // An empty part is the end of the file, for now.
        let parts = [&file[..cut], b"", &file[cut..], b""];
        let mut reader = Reader::new(Growing(parts.into()));
        let (mut found, mut ends) = (0, 0);
        while ends < 2 {
            match reader.next_entry().expect("memory can be read") {
                Some(Entry::Header(_) | Entry::Record(_)) => found += 1,
                Some(other) => panic!("{cut}: {other:?}"),
                None => ends += 1,
            }
        }
        assert_eq!((found, reader.torn(), reader.span().1), (2, 0, file.len() as u64), "{cut}");
    }
}
