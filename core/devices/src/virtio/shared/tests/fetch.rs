//! A driver VM reads memory that its client has named: only one that is trusted, and only while both are there.

use super::*;

/// What the client has there, and where the driver VM wants it.
const FROM: u64 = BUFFERS;
const TO: u64 = ELSEWHERE;

impl World {
    /// The back end fetches bytes. Returns how many were not copied.
    fn fetch(&mut self, from: u64, to: u64, bytes: u32) -> u32 {
        self.ask(from, to, bytes);
        if self.device.needs_attention(true) {
            self.serve(true);
        }
        self.back(register::FETCH)
    }

    fn ask(&mut self, from: u64, to: u64, bytes: u32) {
        for (at, value) in [(register::FETCH_FROM, from), (register::FETCH_TO, to)] {
            self.back_store(at, value as u32);
            self.back_store(at + 4, (value >> 32) as u32);
        }
        self.back_store(register::FETCH, bytes);
    }

    /// One piece of work, as an interrupt is pending after it.
    fn piece(&mut self) -> Served {
        let both = (&self.client, Some(&self.driver), &self.memories[..]);
        self.device.serve(both, true, |_| {})
    }
}

fn pattern(world: &World, bytes: usize) -> Vec<u8> {
    let pattern: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 256) as u8).collect();
    world.client.write(Ipa::new(FROM), &pattern).unwrap();
    pattern
}

#[test]
fn a_trusted_back_end_reads_its_client_s_memory() {
    let mut world = World::ready(true);
    for count in [1, 64, 65, 512, 2048, 5001] {
        let wanted = pattern(&world, count);
        assert_eq!(world.fetch(FROM, TO, count as u32), 0);
        assert_eq!(bytes(&world.driver, TO, count), wanted);
        assert_eq!(bytes(&world.driver, TO + count as u64, 1), [0], "{count}");
        world.driver.write(Ipa::new(TO), &vec![0; count]).unwrap();
    }
    // Nothing is something that is done at once.
    assert_eq!(world.fetch(FROM, TO, 0), 0);
}

#[test]
fn a_store_that_is_made_again_goes_on() {
    let mut world = World::ready(true);
    let wanted = pattern(&world, 5000);
    assert_eq!(
        world.piece(),
        Served::Some,
        "interrupts are looked for after an offer, before any work"
    );
    world.ask(FROM, TO, 5000);
    let mut pieces = 1;
    while world.piece() == Served::Some {
        // What was copied is not copied again.
        world.client.write(Ipa::new(FROM), &[0xee; 512]).unwrap();
        world.ask(FROM, TO, 5000);
        pieces += 1;
    }
    assert_eq!(pieces, 10, "512 bytes each");
    assert_eq!(world.back(register::FETCH), 0);
    assert_eq!(bytes(&world.driver, TO, 5000), wanted);
}

#[test]
fn what_is_not_there_is_not_copied_and_breaks_nothing() {
    let mut world = World::ready(true);
    pattern(&world, 16);
    let end = RAM + RAM_SIZE;
    let wrong = [
        (0, TO, 16),
        (RAM - 16, TO, 32),
        (end - 8, TO, 16),
        (u64::MAX - 7, TO, 16),
        (FROM, end - 8, 16),
        (FROM, u64::MAX - 7, 16),
        (FROM, TO, u32::MAX),
    ];
    for (from, to, count) in wrong {
        assert_ne!(world.fetch(from, to, count), 0, "{from:x} {to:x}");
        assert_eq!(world.back(register::CONTROL), control::OFFER);
        assert_eq!(world.front_load(0x70), 15, "the client's device is whole");
        assert_eq!(world.fetch(FROM, TO, 16), 0);
    }
}

#[test]
fn others_than_a_trusted_back_end_with_a_client_that_is_ready_read_nothing() {
    let mut world = World::ready(false);
    pattern(&world, 16);
    assert_eq!(world.fetch(FROM, TO, 16), 16, "it is not trusted");
    let mut world = World::new(true);
    pattern(&world, 16);
    assert_eq!(world.fetch(FROM, TO, 16), 16, "nothing is offered");
    world.offer(true);
    assert_eq!(world.fetch(FROM, TO, 16), 16, "the client is not ready");
    assert_eq!(bytes(&world.driver, TO, 16), [0; 16]);
    world.start();
    pattern(&world, 16);
    assert_eq!(world.fetch(FROM, TO, 16), 0);
}

#[test]
fn a_reset_of_either_side_ends_it() {
    let resets: [fn(&World); 4] = [
        |world| world.device.reset(),
        |world| world.device.reset_back_end(),
        |world| world.front(0x70, 0),
        |world| world.back_store(register::CONTROL, control::WITHDRAW),
    ];
    for reset in resets {
        let mut world = World::ready(true);
        pattern(&world, 5000);
        world.ask(FROM, TO, 5000);
        assert_eq!(world.piece(), Served::Some);
        reset(&world);
        world.serve(true);
        assert_eq!(bytes(&world.driver, TO + 2048, 1), [0]);
    }
}
