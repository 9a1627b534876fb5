//! Queues beside a driver that keeps the rules, beside rust-vmm's queue, and beside drivers that keep none.

use super::*;
use crate::virtio::{Buffer, LONGEST};
use hanok_hal::AccessError;
use hanok_hal::fake::FakeGuestMemory;
use hanok_types::GuestPage;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;
use std::{format, vec};
use virtio_queue::{Queue as Other, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const RAM: u64 = 0x4000_0000;
const LENGTH: usize = 0x1_0000;
const SIZE: u16 = 8;
const PLACES: Places = Places {
    descriptors: RAM,
    driver: RAM + 0x1000,
    device: RAM + 0x2000,
};
const BOTH: u64 = feature::INDIRECT | feature::EVENT_INDEX;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const TABLE: u16 = 4;

fn ram() -> FakeGuestMemory {
    FakeGuestMemory::new(Ipa::new(RAM), LENGTH)
}

fn put(memory: &FakeGuestMemory, at: u64, bytes: &[u8]) {
    memory.write(Ipa::new(at), bytes).unwrap();
}

fn get(memory: &FakeGuestMemory, at: u64) -> u16 {
    read(memory, at).unwrap()
}

/// A descriptor as a driver writes it.
fn descriptor(at: u64, bytes: u32, flags: u16, next: u16) -> [u8; 16] {
    let high = u64::from(bytes) | u64::from(flags) << 32 | u64::from(next) << 48;
    let words = [at.to_le_bytes(), high.to_le_bytes()];
    words.concat().try_into().unwrap()
}

fn place(memory: &FakeGuestMemory, table: u64, index: u16, written: [u8; 16]) {
    put(memory, table + 16 * u64::from(index), &written);
}

/// Makes `heads` available, as the chains from number `from` on.
fn offer(memory: &FakeGuestMemory, from: u16, heads: &[u16]) {
    for (number, head) in (from..).zip(heads) {
        let at = PLACES.driver + 4 + 2 * u64::from(number % SIZE);
        put(memory, at, &head.to_le_bytes());
    }
    let index = from.wrapping_add(heads.len() as u16);
    put(memory, PLACES.driver + 2, &index.to_le_bytes());
}

fn queue(features: u64) -> Queue {
    Queue::new(SIZE, PLACES, features).unwrap()
}

fn walk(chain: &mut Chain, memory: &FakeGuestMemory) -> Result<Vec<Buffer>, Fault> {
    let mut all = Vec::new();
    while let Some(buffer) = chain.next(memory)? {
        all.push(buffer);
    }
    Ok(all)
}

fn first(memory: &FakeGuestMemory, features: u64) -> Result<Vec<Buffer>, Fault> {
    offer(memory, 0, &[0]);
    let queue = queue(features);
    let mut chain = queue.chain(queue.peek(memory)?.unwrap());
    walk(&mut chain, memory)
}

const fn buffer(at: u64, bytes: u32, write: bool) -> Buffer {
    Buffer {
        at: Ipa::new(at),
        bytes,
        write,
    }
}

#[test]
fn a_request_is_taken_and_given_back() {
    let memory = ram();
    let mut queue = queue(0);
    assert_eq!(queue.peek(&memory), Ok(None));
    place(&memory, RAM, 3, descriptor(0x4000_8000, 16, NEXT, 5));
    place(
        &memory,
        RAM,
        5,
        descriptor(0x4000_9000, 512, NEXT | WRITE, 0),
    );
    place(&memory, RAM, 0, descriptor(0x4000_a000, 1, WRITE, 7));
    offer(&memory, 0, &[3]);
    let head = queue.peek(&memory).unwrap().unwrap();
    let mut chain = queue.chain(head);
    assert_eq!(head, Head(3));
    let all = walk(&mut chain, &memory).unwrap();
    let wanted = [
        buffer(0x4000_8000, 16, false),
        buffer(0x4000_9000, 512, true),
        buffer(0x4000_a000, 1, true),
    ];
    assert_eq!(all, wanted);
    assert_eq!(chain.bytes(), 529);
    queue.advance();
    assert_eq!(queue.peek(&memory), Ok(None));
    assert_eq!(queue.has_to_tell(&memory), Ok(false));
    queue.finish(&memory, head, 513).unwrap();
    let mut used = [0; 12];
    memory.read(Ipa::new(PLACES.device), &mut used).unwrap();
    assert_eq!(used, [0, 0, 1, 0, 3, 0, 0, 0, 1, 2, 0, 0]);
    assert_eq!(queue.has_to_tell(&memory), Ok(true));
    assert_eq!(queue.has_to_tell(&memory), Ok(false));
    put(&memory, PLACES.driver, &[1, 0]);
    queue.finish(&memory, head, 0).unwrap();
    assert_eq!(
        queue.has_to_tell(&memory),
        Ok(false),
        "the driver wants it so"
    );
}

#[test]
fn a_table_of_descriptors_is_walked_once() {
    let memory = ram();
    place(&memory, RAM, 0, descriptor(0x4000_8000, 1, NEXT, 1));
    place(&memory, RAM, 1, descriptor(0x4000_4000, 32, TABLE, 0));
    place(&memory, 0x4000_4000, 0, descriptor(0x4000_9000, 2, NEXT, 1));
    place(
        &memory,
        0x4000_4000,
        1,
        descriptor(0x4000_a000, 3, WRITE, 0),
    );
    let wanted = [
        buffer(0x4000_8000, 1, false),
        buffer(0x4000_9000, 2, false),
        buffer(0x4000_a000, 3, true),
    ];
    assert_eq!(first(&memory, BOTH), Ok(wanted.to_vec()));
    let indirect = Err(Breach::Indirect.into());
    assert_eq!(first(&memory, 0), indirect);
    for (length, flags) in [(0, TABLE), (24, TABLE), (32, TABLE | NEXT)] {
        place(&memory, RAM, 1, descriptor(0x4000_4000, length, flags, 2));
        assert_eq!(first(&memory, BOTH), indirect, "{length} {flags}");
    }
    place(&memory, RAM, 1, descriptor(0x4000_4000, 32, TABLE, 0));
    place(
        &memory,
        0x4000_4000,
        1,
        descriptor(0x4000_4000, 32, TABLE, 0),
    );
    assert_eq!(first(&memory, BOTH), indirect, "in another one");
    place(&memory, 0x4000_4000, 1, descriptor(0x4000_a000, 3, NEXT, 2));
    assert_eq!(first(&memory, BOTH), Err(Breach::Next.into()));
    let most = 16 * u32::from(LONGEST);
    place(
        &memory,
        RAM,
        1,
        descriptor(0x4000_4000, most + 16, TABLE, 0),
    );
    assert_eq!(first(&memory, BOTH), Err(Breach::Long.into()));
    // A table at the end of the address space, where there is no memory.
    place(&memory, RAM, 1, descriptor(u64::MAX - 15, most, TABLE, 0));
    let beyond = Ipa::new(u64::MAX - 15);
    assert_eq!(
        first(&memory, BOTH),
        Err(AccessError::NoMemory(beyond).into())
    );
}

#[test]
fn a_driver_that_breaks_a_rule_is_found_out() {
    let memory = ram();
    let chain = |descriptors: &[[u8; 16]]| {
        for (index, one) in (0..).zip(descriptors) {
            place(&memory, RAM, index, *one);
        }
        first(&memory, BOTH)
    };
    let breach = |breach: Breach| Err(Fault::from(breach));
    let at = 0x4000_8000;
    assert_eq!(chain(&[descriptor(at, 1, NEXT, 8)]), breach(Breach::Next));
    assert_eq!(chain(&[descriptor(at, 0, NEXT, 0)]), breach(Breach::Long));
    let circle = [descriptor(at, 0, NEXT, 1), descriptor(at, 0, NEXT, 0)];
    assert_eq!(chain(&circle), breach(Breach::Long));
    let order = [descriptor(at, 1, NEXT | WRITE, 1), descriptor(at, 1, 0, 0)];
    assert_eq!(chain(&order), breach(Breach::Order));
    assert_eq!(
        chain(&[descriptor(u64::MAX, 2, 0, 0)]),
        breach(Breach::Length)
    );
    let long = [descriptor(at, u32::MAX, NEXT, 1), descriptor(at, 1, 0, 0)];
    assert_eq!(chain(&long), breach(Breach::Length));
    offer(&memory, 0, &[8]);
    assert_eq!(queue(0).peek(&memory), Err(Breach::Head.into()));
    for index in [SIZE + 1, u16::MAX] {
        put(&memory, PLACES.driver + 2, &index.to_le_bytes());
        assert_eq!(queue(0).peek(&memory), Err(Breach::Indices.into()));
    }
}

/// Absent memory changes nothing, wherever it is met: the same call does it once the page is there.
#[test]
fn what_meets_an_absent_page_is_done_again() {
    let memory = ram();
    place(&memory, RAM, 0, descriptor(0x4000_4000, 16, TABLE, 0));
    place(&memory, 0x4000_4000, 0, descriptor(0x4000_9000, 2, 0, 0));
    offer(&memory, 0, &[0]);
    let absent = |at| Fault::from(AccessError::Absent(GuestPage::of(Ipa::new(at)).unwrap()));
    let mut queue = queue(0);
    queue.indirect = true;
    let before = queue;
    memory.take_page(Ipa::new(PLACES.driver));
    assert_eq!(queue.peek(&memory), Err(absent(PLACES.driver)));
    memory.give_page(Ipa::new(PLACES.driver));
    let head = queue.peek(&memory).unwrap().unwrap();
    let mut chain = queue.chain(head);
    for page in [RAM, 0x4000_4000] {
        memory.take_page(Ipa::new(page));
        let untouched = chain;
        assert_eq!(chain.next(&memory), Err(absent(page)));
        assert_eq!(chain, untouched);
        memory.give_page(Ipa::new(page));
    }
    assert_eq!(chain.next(&memory), Ok(Some(buffer(0x4000_9000, 2, false))));
    memory.take_page(Ipa::new(PLACES.device));
    assert_eq!(queue.finish(&memory, head, 1), Err(absent(PLACES.device)));
    assert_eq!(queue.listen(&memory, true), Err(absent(PLACES.device)));
    assert_eq!(queue, before);
    memory.give_page(Ipa::new(PLACES.device));
    queue.finish(&memory, head, 1).unwrap();
    memory.take_page(Ipa::new(PLACES.driver));
    assert_eq!(queue.has_to_tell(&memory), Err(absent(PLACES.driver)));
    memory.give_page(Ipa::new(PLACES.driver));
    assert_eq!(queue.has_to_tell(&memory), Ok(true));
}

/// The device asks to be told, by an index or by a flag, and finds what came before it had asked.
#[test]
fn a_device_that_listens_misses_nothing() {
    for features in [0, feature::EVENT_INDEX] {
        let memory = ram();
        let queue = queue(features);
        let (flags, event) = (PLACES.device, PLACES.device + 4 + 8 * u64::from(SIZE));
        assert_eq!(queue.listen(&memory, false), Ok(Listening::Waits));
        let quiet = (get(&memory, flags), get(&memory, event));
        assert_eq!(quiet, if features == 0 { (1, 0) } else { (0, u16::MAX) });
        offer(&memory, 0, &[0]);
        assert_eq!(queue.listen(&memory, true), Ok(Listening::More));
        assert_eq!((get(&memory, flags), get(&memory, event)), (0, 0));
    }
}

/// The same memory for rust-vmm's queue.
fn copy(memory: &FakeGuestMemory) -> GuestMemoryMmap {
    let mut bytes = vec![0; LENGTH];
    memory.read(Ipa::new(RAM), &mut bytes).unwrap();
    let other = GuestMemoryMmap::from_ranges(&[(GuestAddress(RAM), LENGTH)]).unwrap();
    other.write_slice(&bytes, GuestAddress(RAM)).unwrap();
    other
}

fn other_queue(event_index: bool) -> Other {
    let mut other = Other::new(SIZE).unwrap();
    other.set_desc_table_address(Some(PLACES.descriptors as u32), Some(0));
    other.set_avail_ring_address(Some(PLACES.driver as u32), Some(0));
    other.set_used_ring_address(Some(PLACES.device as u32), Some(0));
    other.set_event_idx(event_index);
    other.set_ready(true);
    other
}

/// Descriptors near the edge of the rules: mostly in the tables, mostly short.
fn near_the_rules() -> impl Strategy<Value = [u8; 16]> {
    let at = prop_oneof![
        8 => (0_u64..LENGTH as u64).prop_map(|at| RAM + at),
        4 => Just(RAM + 0x4000),
        1 => any::<u64>(),
    ];
    let bytes =
        prop_oneof![6 => 0_u32..600, 4 => (0_u32..9).prop_map(|n| n * 16), 1 => any::<u32>()];
    let flags = prop_oneof![8 => 0_u16..4, 2 => Just(TABLE), 1 => 0_u16..8];
    (at, bytes, flags, 0_u16..9)
        .prop_map(|(at, bytes, flags, next)| descriptor(at, bytes, flags, next))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What we find to be a chain, rust-vmm's queue finds, too, buffer by buffer.
    #[test]
    fn chains_are_those_of_another_queue(
        table in prop::collection::vec(near_the_rules(), 8),
        inner in prop::collection::vec(near_the_rules(), 8),
        head in 0_u16..8,
    ) {
        let memory = ram();
        for (index, (one, within)) in (0..).zip(table.iter().zip(&inner)) {
            place(&memory, RAM, index, *one);
            place(&memory, RAM + 0x4000, index, *within);
        }
        offer(&memory, 0, &[head]);
        let queue = queue(BOTH);
        let mut chain = queue.chain(queue.peek(&memory).unwrap().unwrap());
        let mut found = Vec::new();
        let end = loop {
            match chain.next(&memory) {
                Ok(Some(buffer)) => found.push(buffer),
                Ok(None) => break Ok(()),
                Err(fault) => break Err(fault),
            }
            prop_assert!(found.len() <= LONGEST.into());
        };
        let other_memory = copy(&memory);
        let mut other = other_queue(true);
        let chain = other.iter(&other_memory).unwrap().next().unwrap();
        let theirs: Vec<Buffer> = chain
            .map(|one| buffer(one.addr().0, one.len(), one.is_write_only()))
            .collect();
        // It wants all of a table to be memory; we want what is walked.
        let beyond = |one: &[u8; 16]| {
            let (at, high) = (&one[..8], u32::from_le_bytes(one[8..12].try_into().unwrap()));
            let end = u64::from_le_bytes(at.try_into().unwrap()).saturating_add(high.into());
            one[12] & TABLE as u8 != 0 && end > RAM + LENGTH as u64
        };
        if end.is_ok() && !table.iter().any(beyond) {
            prop_assert_eq!(&found, &theirs);
        } else {
            let common = found.len().min(theirs.len());
            prop_assert_eq!(&found[..common], &theirs[..common]);
        }
    }

    /// Whether the driver is to be told is what rust-vmm's queue finds, from the same memory and history.
    #[test]
    fn the_driver_is_told_as_by_another_queue(
        event_index: bool,
        steps in prop::collection::vec((1_usize..4, any::<bool>(), -4_i16..4), 1..40),
        start in prop_oneof![Just(0_u16), any::<u16>()],
    ) {
        let memory = ram();
        let mut queue = queue(if event_index { BOTH } else { 0 });
        (queue.next_used, queue.next_available, queue.told) = (start, start, start);
        let mut other = other_queue(event_index);
        other.set_next_used(start);
        other.set_next_avail(start);
        let other_memory = copy(&memory);
        // It tells its first chain whatever the driver wants.
        let mut first = true;
        for (count, quiet, ahead) in steps {
            for _ in 0..count {
                queue.finish(&memory, Head(1), 7).unwrap();
                other.add_used(&other_memory, 1, 7).unwrap();
            }
            let wants = queue.next_used.wrapping_add_signed(ahead).to_le_bytes();
            let at = PLACES.driver + 4 + 2 * u64::from(SIZE);
            let flags = [quiet.into(), 0];
            for (at, bytes) in [(at, wants), (PLACES.driver, flags)] {
                put(&memory, at, &bytes);
                other_memory.write_slice(&bytes, GuestAddress(at)).unwrap();
            }
            let ours = queue.has_to_tell(&memory).unwrap();
            let theirs = other.needs_notification(&other_memory).unwrap();
            if event_index {
                prop_assert!(first || ours == theirs);
            } else {
                prop_assert_eq!(ours, !quiet);
            }
            first = false;
        }
    }

    /// Whatever is in memory, calls end, and write to the ring of used chains alone.
    #[test]
    fn any_memory(bytes in prop::collection::vec(any::<u8>(), 0x100), at in 0_usize..0x2000, wants: bool) {
        let memory = ram();
        put(&memory, RAM + at as u64, &bytes);
        let mut before = vec![0; LENGTH];
        memory.read(Ipa::new(RAM), &mut before).unwrap();
        let mut queue = queue(BOTH);
        let mut heads: BTreeMap<u16, usize> = BTreeMap::new();
        for _ in 0..20 {
            let Ok(Some(head)) = queue.peek(&memory) else { break };
            let mut chain = queue.chain(head);
            let _ = walk(&mut chain, &memory);
            queue.advance();
            queue.finish(&memory, head, chain.bytes()).unwrap();
            let _ = queue.has_to_tell(&memory).unwrap();
            let _ = queue.listen(&memory, wants).unwrap();
            *heads.entry(head.0).or_default() += 1;
        }
        let mut after = vec![0; LENGTH];
        memory.read(Ipa::new(RAM), &mut after).unwrap();
        let ring = 0x2000..0x2000 + 4 + 8 * usize::from(SIZE) + 2;
        for (at, (before, after)) in before.iter().zip(&after).enumerate() {
            prop_assert!(before == after || ring.contains(&at), "{}", format!("{at:x}"));
        }
    }
}
