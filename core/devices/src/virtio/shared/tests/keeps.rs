//! A driver VM that leaves the slots' descriptors as they are.

use super::*;

/// Requests of any shape have the bytes that the driver VM or its device has written, and say how many these are, whether
/// the hypervisor looks for them or the driver VM has said where they stay.
#[test]
fn what_is_left_where_it_was_given_gets_to_the_client() {
    let mut shapes = 0;
    for seed in 1..400_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let direct = draw(3) > 0;
        let mut world = World::new(direct);
        world.offer_with((u32::from(direct) * mode::DIRECT) | mode::KEEPS, 8);
        assert_eq!(world.back(register::CONTROL), control::OFFER);
        world.start();
        for _ in 0..4 {
            // What the client's driver reads, none of it beside another one.
            let readable = 1 + draw(2);
            // The first one has bytes: a request of none is refused.
            let writable = draw(5);
            let mut buffers: Vec<Buffer> = vec![];
            for index in 0..readable + writable {
                let bytes = match draw(3) {
                    0 => 1 + draw(64),
                    1 => 65 + draw(200),
                    _ => draw(3) + u64::from(index == 0),
                };
                buffers.push((BUFFERS + index * 0x400, bytes as u32, index >= readable));
            }
            world.client.write(Ipa::new(BUFFERS), &[0; 0x2000]).unwrap();
            let head = draw(SIZE.into()) as u16;
            world.make(head, &buffers);
            world.serve(false);
            let (taken, parts) = world.take().expect("a request");
            assert_eq!(taken, head);
            let named = |write: bool, parts: &[Buffer]| -> u32 {
                let own = parts.iter().filter(|part| part.2 == write);
                own.map(|part| part.1).sum()
            };
            for write in [false, true] {
                assert_eq!(named(write, &parts), named(write, &buffers), "seed {seed}");
            }
            // The n-th byte that is written is n, by the device into the client's memory or by the driver VM into the slot.
            let total = named(true, &buffers);
            let mut next = 0..total;
            for (at, count, _) in parts.iter().filter(|part| part.2) {
                let written: Vec<u8> = next.by_ref().take(*count as usize).map(mark).collect();
                let (memory, there) = match at / ON_BOARD[0] {
                    0 => (&world.driver, 0),
                    1 => (&world.client, ON_BOARD[0]),
                    _ => (&world.driver, ON_BOARD[1]),
                };
                memory.write(Ipa::new(at - there), &written).unwrap();
            }
            let written = match draw(3) {
                0 => draw(u64::from(total) + 1) as u32,
                1 => total + draw(100) as u32,
                _ => total,
            };
            world.give(head.into(), written);
            world.serve(true);
            assert_eq!(world.see(), Some((head, written.min(total))), "seed {seed}");
            let mut wanted = 0..written.min(total);
            for (at, count, _) in buffers.iter().filter(|buffer| buffer.2) {
                let wanted: Vec<u8> = wanted.by_ref().take(*count as usize).map(mark).collect();
                assert_eq!(
                    bytes(&world.client, *at, wanted.len()),
                    wanted,
                    "seed {seed}: {buffers:?}"
                );
            }
            shapes += 1;
        }
        assert_eq!(world.front_load(0x70), 15);
    }
    assert_eq!(shapes, 4 * 399);
}

/// Never zero.
fn mark(number: u32) -> u8 {
    (number % 251) as u8 + 1
}

/// A chain with as many descriptors as a slot has room for, or one more.
#[test]
fn a_chain_is_as_long_as_a_slot_has_room_for() {
    for (count, fits) in [(DESCRIPTORS, true), (DESCRIPTORS + 1, false)] {
        let mut world = World::ready(true);
        let buffers: Vec<Buffer> = (0..u64::from(count))
            .map(|index| (BUFFERS + index * 0x100, 65, true))
            .collect();
        world.make(1, &buffers);
        world.serve(false);
        let taken = world.take();
        assert_eq!(taken.is_some(), fits);
        if let Some((_, parts)) = taken {
            let expected = |(at, bytes, write): &Buffer| (at + ON_BOARD[0], *bytes, *write);
            assert_eq!(parts, buffers.iter().map(expected).collect::<Vec<_>>());
        }
        assert_eq!(world.front_load(0x70) & 64 == 0, fits);
    }
}

/// A table whose last descriptors are beyond the memory, where the chain ends before them.
#[test]
fn a_table_may_end_beyond_the_memory() {
    let mut world = World::ready(false);
    let table = RAM + RAM_SIZE - 32;
    put(&world.client, table, BUFFERS, 16 | 1 << 32 | 1 << 48);
    put(&world.client, table + 16, BUFFERS + 0x100, 20 | 2 << 32);
    put(&world.client, RAM, table, (16 * 8) | 4 << 32);
    world
        .client
        .store_half(Ipa::new(PLACES.driver + 4), 0)
        .unwrap();
    world
        .client
        .store_half(Ipa::new(PLACES.driver + 2), 1)
        .unwrap();
    world.front(0x50, 0);
    world.serve(false);
    let (head, parts) = world.take().expect("a request");
    assert_eq!((head, parts.len()), (0, 2));
}
