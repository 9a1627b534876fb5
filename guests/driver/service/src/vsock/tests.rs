use super::packet::HEAD;
use super::{PATIENCE, RECEIVE, SEND, Sockets};
use crate::fake::client::{Client, leaked};
use crate::fake::{said, timer};
use crate::memory::{FRAME_DESCRIPTORS, SOCKET_PLACES, SocketMemory, address};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Operations of packets (virtio 1.2, 5.10.6).
const REQUEST: u16 = 1;
const RESET: u16 = 3;
const DATA: u16 = 5;
const CREDIT_UPDATE: u16 = 6;
/// The flag of a descriptor that may be written.
const WRITE: u64 = 2 << 32;
/// The CIDs of the first two clients, of the host, and of nobody.
const FIRST: u64 = 3;
const SECOND: u64 = 4;
const HOST: u64 = 2;
const NOBODY: u64 = 77;

/// A header, as far as tests look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    from: u64,
    to: u64,
    ports: (u32, u32),
    bytes: u32,
    kind: u16,
    operation: u16,
}

impl Sent {
    /// A packet of a stream between ports 1000 and 2000.
    fn new(from: u64, to: u64, operation: u16, bytes: u32) -> Self {
        Self {
            from,
            to,
            ports: (1000, 2000),
            bytes,
            kind: 1,
            operation,
        }
    }

    /// The answer that there is no such connection.
    fn refused(self) -> Self {
        Self {
            from: self.to,
            to: self.from,
            ports: (self.ports.1, self.ports.0),
            bytes: 0,
            kind: 1,
            operation: RESET,
        }
    }

    fn write(self, words: &[AtomicU64]) {
        let parts = [
            self.from,
            self.to,
            u64::from(self.ports.0) | u64::from(self.ports.1) << 32,
            u64::from(self.bytes) | u64::from(self.kind) << 32 | u64::from(self.operation) << 48,
            0,
            0,
        ];
        let words = words.iter().zip(parts);
        words.for_each(|(word, part)| word.store(part, Relaxed));
    }

    fn read(words: &[AtomicU64]) -> Self {
        let word = |at: usize| words[at].load(Relaxed);
        Self {
            from: word(0),
            to: word(1),
            ports: (word(2) as u32, (word(2) >> 32) as u32),
            bytes: word(3) as u32,
            kind: (word(3) >> 32) as u16,
            operation: (word(3) >> 48) as u16,
        }
    }
}

/// A client with its memory.
struct End {
    client: Client,
    memory: &'static SocketMemory,
    sent: u16,
    offered: u16,
}

impl End {
    /// Sends a packet: its header, and as many bytes of data as there are in `pieces`.
    fn send(&mut self, packet: Sent, pieces: &[u32]) {
        let words = &self.memory.sent[usize::from(self.sent)];
        let (table, data) = words.split_at(2 * FRAME_DESCRIPTORS);
        packet.write(data);
        let lengths = core::iter::once(&(HEAD as u32)).chain(pieces);
        let (places, _) = table.as_chunks::<2>();
        for (index, ([at, rest], bytes)) in places.iter().zip(lengths).enumerate() {
            let place = match index {
                0 => address(data),
                _ => 0x9000_0000 + 0x1000 * index as u64,
            };
            at.store(place, Relaxed);
            rest.store((*bytes).into(), Relaxed);
        }
        let table = 16 * (1 + pieces.len() as u64);
        self.client.give(SEND, self.sent, table);
        self.sent = (self.sent + 1) % SOCKET_PLACES as u16;
    }

    /// Gives `count` buffers of so many bytes to receive packets in.
    fn offer(&mut self, count: usize, bytes: u32) {
        for _ in 0..count {
            let words = &self.memory.received[usize::from(self.offered)];
            words[0].store(0, Relaxed);
            words[1].store(u64::from(bytes) | WRITE, Relaxed);
            self.client.give(RECEIVE, self.offered, 16);
            self.offered = (self.offered + 1) % SOCKET_PLACES as u16;
        }
    }

    /// What it received: headers, and where the data of each come from.
    fn received(&self) -> Vec<(Sent, Vec<(u64, u32)>)> {
        let answers = self.client.answers(RECEIVE).into_iter();
        let whole = answers.filter(|(_, written)| *written > 0);
        whole
            .map(|(head, written)| self.packet(head, written))
            .collect()
    }

    fn packet(&self, head: u16, written: u32) -> (Sent, Vec<(u64, u32)>) {
        let words = &self.memory.received[usize::from(head)];
        let (table, own) = words.split_at(2 * FRAME_DESCRIPTORS);
        let (table, _) = table.as_chunks::<2>();
        let mut left = written;
        let mut pieces = Vec::new();
        for [at, rest] in table {
            if left == 0 {
                break;
            }
            let bytes = rest.load(Relaxed) as u32;
            pieces.push((at.load(Relaxed), bytes));
            left = left.checked_sub(bytes).expect("pieces of what is written");
        }
        assert_eq!(pieces.remove(0).1, HEAD as u32, "the header is first");
        (Sent::read(own), pieces)
    }

    fn headers(&self) -> Vec<Sent> {
        self.received()
            .into_iter()
            .map(|(header, _)| header)
            .collect()
    }

    /// How many packets that it sent are done with.
    fn done(&self) -> usize {
        self.client.answers(SEND).len()
    }

    fn cid(&self) -> u64 {
        self.client.wanted.cid
    }
}

/// A switch with `N` clients, whose CIDs are [`FIRST`] and what follows.
fn switch<const N: usize>() -> (Sockets, [End; N]) {
    let mut sockets = Sockets::default();
    let ends = core::array::from_fn(|number| {
        let memory = leaked(SocketMemory::new());
        let rings = memory.rings.each_ref();
        let client = Client::new(number as u32, rings, SOCKET_PLACES as u16);
        sockets
            .connect(&client.wanted, memory)
            .expect("there is a place");
        End {
            client,
            memory,
            sent: 0,
            offered: 0,
        }
    });
    said();
    (sockets, ends)
}

#[test]
fn a_packet_gets_to_the_client_with_its_cid() {
    let (mut sockets, [mut first, mut second, third]) = switch();
    assert_eq!((first.cid(), second.cid()), (FIRST, SECOND));
    second.offer(4, 4096);
    let packet = Sent::new(FIRST, SECOND, DATA, 300);
    first.send(packet, &[100, 200]);
    sockets.work();
    let pieces = vec![(0x9000_1000, 100), (0x9000_2000, 200)];
    assert_eq!(second.received(), [(packet, pieces)]);
    assert_eq!(third.received(), []);
    assert_eq!(first.done(), 1);
    assert_eq!(said(), [""; 0]);
}

#[test]
fn a_packet_in_another_s_name_gets_nowhere_and_is_told_once() {
    let (mut sockets, [mut first, mut second, mut third]) = switch();
    for end in [&mut first, &mut second, &mut third] {
        end.offer(8, 4096);
    }
    for from in [SECOND, HOST, 0, 1, NOBODY, FIRST | 1 << 32, u64::MAX] {
        for operation in [REQUEST, RESET, DATA] {
            for to in [SECOND, SECOND + 1, FIRST, HOST] {
                first.send(Sent::new(from, to, operation, 0), &[]);
                sockets.work();
                assert_eq!(first.done(), 1, "it is done with");
            }
        }
    }
    // Not even the one that has sent it hears of it: it would be an answer to whoever was named.
    for end in [&first, &second, &third] {
        assert_eq!(end.received(), []);
    }
    assert_eq!(said(), ["driver: client sends with another's CID: dropped"]);
    let packet = Sent::new(FIRST, SECOND, REQUEST, 0);
    first.send(packet, &[]);
    sockets.work();
    assert_eq!(second.headers(), [packet], "in its own name it is heard");
}

#[test]
fn a_packet_for_nobody_is_answered_with_a_reset() {
    let (mut sockets, [mut first, second]) = switch();
    first.offer(16, 4096);
    for to in [HOST, 0, 1, NOBODY, SECOND | 1 << 32, u64::MAX] {
        let packet = Sent::new(FIRST, to, REQUEST, 0);
        first.send(packet, &[]);
        sockets.work();
        assert_eq!(first.headers(), [packet.refused()], "{to:#x}");
        // A reset is not answered: two switches would go on for ever.
        first.send(Sent::new(FIRST, to, RESET, 0), &[]);
        sockets.work();
        assert_eq!(first.headers(), [], "{to:#x}");
    }
    assert_eq!(second.received(), []);
}

#[test]
fn a_client_can_send_to_itself() {
    let (mut sockets, [mut first]) = switch();
    first.offer(2, 4096);
    let packet = Sent::new(FIRST, FIRST, DATA, 10);
    first.send(packet, &[10]);
    sockets.work();
    assert_eq!(first.headers(), [packet]);
}

#[test]
fn a_packet_that_breaks_a_rule_is_dropped() {
    let (mut sockets, [mut first, mut second]) = switch();
    second.offer(8, 4096);
    first.offer(8, 4096);
    let packet = Sent::new(FIRST, SECOND, DATA, 300);
    // Of less data than it says, of none, of a type that is no stream, of more than there is in an address space.
    first.send(packet, &[299]);
    first.send(packet, &[]);
    first.send(Sent { kind: 2, ..packet }, &[300]);
    first.send(packet, &[u32::MAX, u32::MAX]);
    sockets.work();
    assert_eq!(first.done(), 4);
    assert_eq!(second.received(), []);
    // A header that is cut in two is none that can be looked at as one.
    let words = &first.memory.sent[usize::from(first.sent)];
    first.send(packet, &[300]);
    words[1].store(43, Relaxed);
    sockets.work();
    assert_eq!((first.done(), second.received()), (1, vec![]));
    // A table that is larger than its slot, or empty, and a slot that is none.
    for table in [16 * FRAME_DESCRIPTORS as u64 + 16, u32::MAX.into(), 0] {
        first.client.give(SEND, 0, table);
    }
    sockets.work();
    assert_eq!((first.done(), second.received()), (3, vec![]));
}

#[test]
fn a_sender_that_ignores_its_credit_fills_only_buffers_that_are_there() {
    let (mut sockets, [mut first, mut second, mut third]) = switch();
    // The receiver has said that it has room for nothing; what is sent nevertheless is its to refuse, in its own buffers.
    second.offer(2, 4096);
    let flood = Sent::new(FIRST, SECOND, DATA, 4000);
    for _ in 0..100 {
        first.send(flood, &[4000]);
    }
    sockets.work();
    assert_eq!(second.headers(), [flood, flood]);
    assert_eq!(first.done(), 2);
    // Others do not wait for it.
    second.offer(0, 0);
    third.offer(1, 4096);
    let packet = Sent::new(SECOND, third.cid(), CREDIT_UPDATE, 0);
    second.send(packet, &[]);
    sockets.work();
    assert_eq!(third.headers(), [packet]);
    assert_eq!(first.done(), 0);
}

#[test]
fn a_large_packet_is_divided_among_buffers() {
    let (mut sockets, [mut first, mut second]) = switch();
    second.offer(2, HEAD as u32 + 100);
    let packet = Sent::new(FIRST, SECOND, DATA, 250);
    first.send(packet, &[150, 100]);
    assert!(!sockets.work(), "it waits for one more buffer");
    let part = |bytes| Sent { bytes, ..packet };
    let (a, b) = (0x9000_1000, 0x9000_2000);
    assert_eq!(
        second.received(),
        [
            (part(100), vec![(a, 100)]),
            (part(100), vec![(a + 100, 50), (b, 50)])
        ]
    );
    assert_eq!(first.done(), 0);
    second.offer(1, 4096);
    sockets.work();
    assert_eq!(second.received(), [(part(50), vec![(b + 50, 50)])]);
    assert_eq!(first.done(), 1);
    // The next one begins with its own first byte.
    second.offer(1, 4096);
    first.send(packet, &[250]);
    sockets.work();
    assert_eq!(second.received(), [(packet, vec![(a, 250)])]);
}

#[test]
fn who_gives_no_buffers_makes_senders_wait_a_second() {
    let (mut sockets, [mut first, mut second]) = switch();
    first.offer(8, 4096);
    let packet = Sent::new(FIRST, SECOND, DATA, 10);
    first.send(packet, &[10]);
    first.send(packet, &[10]);
    assert!(!sockets.work());
    timer::spin(PATIENCE * timer::frequency() - 1);
    sockets.work();
    assert_eq!((first.done(), first.received()), (0, vec![]));
    timer::spin(1);
    sockets.work();
    // Nobody waits a second time for one that is known to be stuck.
    assert_eq!(first.headers(), [packet.refused(), packet.refused()]);
    assert_eq!(first.done(), 2);
    // Buffers without room for a byte are none, and are given back.
    second.offer(2, HEAD as u32);
    second.offer(1, 3);
    first.send(packet, &[10]);
    sockets.work();
    assert_eq!(second.client.answers(RECEIVE), [(0, 0), (1, 0), (2, 0)]);
    // As soon as it has buffers, it receives.
    second.offer(2, 4096);
    sockets.work();
    first.send(packet, &[10]);
    sockets.work();
    assert!(second.headers().contains(&packet));
    // And then has its second again.
    first.headers();
    second.client.answers(RECEIVE);
    for _ in 0..4 {
        first.send(packet, &[10]);
    }
    sockets.work();
    assert_eq!(first.headers(), []);
}

#[test]
fn a_client_without_a_driver_is_not_there() {
    let (mut sockets, [mut first, mut second]) = switch();
    first.offer(8, 4096);
    second.offer(8, 4096);
    second.client.reset(false);
    sockets.interrupted(second.client.wanted.interrupt);
    sockets.work();
    // What it had given is given back, and nobody writes there.
    let heads = second.client.answers(RECEIVE);
    assert_eq!(heads, (0..8).map(|head| (head, 0)).collect::<Vec<_>>());
    let packet = Sent::new(FIRST, SECOND, DATA, 10);
    first.send(packet, &[10]);
    sockets.work();
    assert_eq!(first.headers(), [packet.refused()]);
    // It is ready again, and knows nothing of the connection: its own answer says so.
    second.client.reset(true);
    sockets.interrupted(second.client.wanted.interrupt);
    second.offer(8, 4096);
    first.send(packet, &[10]);
    sockets.work();
    assert_eq!(second.headers(), [packet]);
    second.send(packet.refused(), &[]);
    sockets.work();
    assert_eq!(first.headers(), [packet.refused()]);
}

#[test]
fn a_client_s_reset_ends_what_is_under_way() {
    let (mut sockets, [mut first, mut second]) = switch();
    first.offer(8, 4096);
    second.offer(1, HEAD as u32 + 100);
    let packet = Sent::new(FIRST, SECOND, DATA, 250);
    first.send(packet, &[250]);
    sockets.work();
    assert_eq!(second.headers().len(), 1, "the rest waits");
    // The sender forgets its packet: the rest of it goes nowhere, and the next one is passed on from its start.
    first.client.reset(false);
    sockets.interrupted(first.client.wanted.interrupt);
    assert_eq!(first.done(), 1);
    first.client.reset(true);
    sockets.interrupted(first.client.wanted.interrupt);
    second.offer(4, 4096);
    sockets.work();
    assert_eq!(second.received(), []);
    let next = Sent::new(FIRST, SECOND, DATA, 20);
    first.send(next, &[20]);
    sockets.work();
    assert_eq!(second.received(), [(next, vec![(0x9000_1000, 20)])]);
}
