//! A session with every kind of message, and its export.

use duet_rpc_trace::{ExportFormat, Exporter, Header, Record};

pub(crate) const SESSION: &str = r#"
    0 > {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"a":[1.0,{}],"b":"x"}}
    1 ! starting
    35 < {"jsonrpc":"2.0","id":0,"result":{"capabilities":{}}}
    36 > {"jsonrpc":"2.0","method":"initialized","params":{}}
    36 > {"jsonrpc":"2.0","method":"exit"}
    40 < {"jsonrpc":"2.0","id":"a-b","method":"workspace/configuration","params":[{"section":"x"}]}
    45 > {"jsonrpc":"2.0","id":"a-b","result":[null]}
    50 > {"jsonrpc":"2.0","id":1,"method":"shutdown"}
    1055 < {"jsonrpc":"2.0","id":1,"result":null}
    1060 > {"jsonrpc":"2.0","id":2,"method":"foo"}
    1065 < {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found","data":{"m":"foo"}}}
    1070 > {"jsonrpc":"2.0","id":3,"method":"bar"}
    1075 < {"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"it (really) failed"}}
    1080 > {"jsonrpc":"2.0","id":4,"method":"never","params":{}}
    1090 < noise hello </script> "; end
    1100 > eof
    1101 . exit code=0
    1102 . end
"#;

pub(crate) fn header() -> Header {
    let mut header = Header::new("s-1");
    header.start = "2026-01-02T03:04:05.000000Z".to_owned();
    header.command = vec!["/usr/bin/my server".to_owned()];
    header
}

pub(crate) fn export(format: ExportFormat, records: &[Record<'_>]) -> String {
    let mut out = Vec::new();
    let mut exporter = Exporter::new(format, &mut out);
    exporter.header(&header()).expect("memory can be written");
    for record in records {
        exporter.record(record, true).expect("memory can be written");
    }
    exporter.finish().expect("memory can be written");
    String::from_utf8(out).expect("it is text")
}
