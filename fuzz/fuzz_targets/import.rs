//! Invariants, for any log of another tool: importing it never panics; a trace that it gives can be read, line
//! by line, and every message in it is JSON.

#![no_main]

use duet_rpc_trace::{Entry, ImportFormat, Reader, import};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [how, log @ ..] = bytes else { return };
    let format = ImportFormat::ALL[usize::from(*how) % ImportFormat::ALL.len()];
    let mut file = Vec::new();
    if import(format, log, &mut file).is_err() {
        return;
    }
    let mut reader = Reader::new(&file[..]);
    let mut seq = 0;
    while let Some(entry) = reader.next_entry().expect("memory can be read") {
        match entry {
            Entry::Header(_) => assert_eq!(seq, 0, "one header, before the records"),
            Entry::Record(record) => {
                seq += 1;
                assert_eq!(record.seq, seq);
                if let Some(json) = record.json() {
                    serde_json::from_str::<serde_json::Value>(json).expect("a message is JSON");
                }
            }
            other => panic!("not a record: {other:?}"),
        }
    }
    assert!(seq > 0);
});
