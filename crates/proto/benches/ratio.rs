use duet_rpc_proto::text::Text;
use std::hint::black_box;
use std::time::Instant;
mod support;
#[derive(serde::Deserialize)]
struct Env<'a> {
    #[serde(borrow)]
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow)]
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a serde_json::value::RawValue>,
}
fn time(n: usize, mut f: impl FnMut()) -> f64 {
    let t = Instant::now();
    for _ in 0..n {
        f()
    }
    t.elapsed().as_nanos() as f64 / n as f64
}
fn main() {
    for (name, size) in support::SIZES {
        let m = support::nested_request(size);
        let b = m.as_bytes();
        let n = (4_000_000 / b.len()).max(2);
        let mut rs = vec![];
        let mut aa = vec![];
        for _ in 0..41 {
            let a = time(n, || {
                black_box(Text::check(black_box(b), 128).unwrap());
            });
            let c = time(n, || {
                let s = simdutf8::basic::from_utf8(black_box(b)).unwrap();
                let e: Env = serde_json::from_str(s).unwrap();
                black_box((e.jsonrpc, e.id, e.method, e.params));
            });
            rs.push(a / c);
            aa.push(a);
        }
        rs.sort_by(f64::total_cmp);
        aa.sort_by(f64::total_cmp);
        println!(
            "{name} len {} ours {:.0} min {:.0} ns ratio {:.2}  {:.2} GB/s",
            b.len(),
            aa[20],
            aa[0],
            rs[20],
            b.len() as f64 / aa[20]
        );
    }
}
