//! Tests of the queue.

use super::queue::*;
use super::record::Dir;

fn bytes(events: Vec<(u64, Event)>) -> Vec<(Dir, usize, u64)> {
    let bytes = events.into_iter().filter_map(|(_, event)| match event {
        Event::Bytes { dir, bytes, lost } => Some((dir, bytes.len(), lost)),
        Event::Eof { dir, lost, .. } => Some((dir, 0, lost)),
        _ => None,
    });
    bytes.collect()
}

#[test]
fn w3_bytes_that_do_not_fit_are_dropped_and_counted() {
    let ([mut c2s, mut s2c, _err], events, mut inlet) = queue(2 * BUFFER + 4 * ENTRY + 30);
    for size in [BUFFER, BUFFER, 10, 20, BUFFER] {
        let (at, mut buffer) = (c2s.announce(), c2s.buffer());
        buffer.resize(size, 0);
        c2s.pass(at, &mut buffer);
        assert!(buffer.is_empty());
    }
    s2c.end(None);
    events.event(Event::End);
    let full = BUFFER;
    let lost = (Dir::C2s, 20, 0);
    let taken = inlet.take();
    assert_eq!(
        bytes(taken),
        [(Dir::C2s, full, 0), (Dir::C2s, full, 0), (Dir::C2s, 10, 0), lost, (Dir::S2c, 0, 0)]
    );
    // The last buffer did not fit; its loss comes with the next event.
    inlet.recycle(Dir::C2s, vec![0; BUFFER]);
    let (at, mut buffer) = (c2s.announce(), vec![0; 10]);
    c2s.pass(at, &mut buffer);
    events.event(Event::End);
    assert_eq!(bytes(inlet.take()), [(Dir::C2s, 10, full as u64)]);
}

#[test]
fn answers_wait_for_a_request_that_is_announced() {
    let ([mut c2s, mut s2c, _err], events, mut inlet) = queue(1 << 20);
    let request = c2s.announce();
    while c2s.now() == request {}
    let answer = s2c.announce();
    s2c.pass(answer, &mut b"answer".to_vec());
    assert_eq!(bytes(inlet.take()), []);
    c2s.pass(request, &mut b"ask".to_vec());
    events.event(Event::End);
    assert_eq!(bytes(inlet.take()), [(Dir::C2s, 3, 0), (Dir::S2c, 6, 0)]);
}

#[test]
fn w3_senders_go_on_without_a_recorder() {
    let ([mut c2s, _s2c, _err], events, inlet) = queue(1 << 20);
    drop(inlet);
    let at = c2s.announce();
    c2s.pass(at, &mut b"ask".to_vec());
    events.event(Event::Signal(1));
    c2s.end(None);
}
