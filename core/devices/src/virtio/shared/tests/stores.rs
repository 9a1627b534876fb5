//! A client that stores to its configuration, and a back end that answers, or does not.

use super::*;

/// What the client has of its configuration at `offset`, by an access of `width`.
fn config(world: &World, offset: u64, width: Width) -> u64 {
    let at = 0x100 + offset;
    let load = Access::load(Ipa::new(at), width);
    world.device.access_by(false, at, load).value
}

fn store_config(world: &World, offset: u64, width: Width, value: u64) {
    let at = 0x100 + offset;
    let store = Access::store(Ipa::new(at), width, value);
    world.device.access_by(false, at, store);
}

/// A world in which the client's stores to its configuration, of 136 bytes, are told.
fn ready_for_stores() -> World {
    let mut world = World::new(false);
    world.back_store(register::CONFIG_SIZE, 136);
    world.offer_with(mode::STORES, 136);
    world.start();
    world.back_store(register::ACKNOWLEDGE, u32::MAX);
    world
}

#[test]
fn a_store_to_the_configuration_waits_for_its_answer() {
    let mut world = ready_for_stores();
    assert!(!world.device.has_to_wait(0x100, 0, 1000));
    store_config(&world, 1, Width::Byte, 0x111);
    assert!(world.device.lines().driver && world.device.needs_attention(false));
    assert_eq!(world.back(register::INTERRUPT), interrupt::CONFIG);
    assert_eq!(world.back(register::STORED), 1 | 1 << 16);
    assert_eq!(world.back(register::VALUE), 0x11);
    // The configuration alone waits.
    assert!(world.device.has_to_wait(0x100, 0, 1000));
    assert!(!world.device.has_to_wait(0xfc, 0, 1000));
    assert!(!world.device.has_to_wait(0x50, 0, 1000));
    // Nothing is seen before the answer.
    world.back_store(register::CONFIG + 132, 0x77);
    assert_eq!(config(&world, 132, Width::Word), 0);
    world.back_store(register::ANSWER, 0);
    assert!(!world.device.has_to_wait(0x100, 0, 1000));
    assert_eq!(config(&world, 132, Width::Word), 0x77);
    assert_eq!(world.back(register::STORED), 0);
    let generation = world.front_load(0xfc);
    // A second answer is a change.
    world.back_store(register::ANSWER, 0);
    assert_eq!(world.front_load(0xfc), generation + 1);
    assert_eq!(world.front_load(0x60), 2);
    // Requests go on meanwhile.
    world.make(3, &request(64, true));
    world.serve(false);
    assert!(world.take().is_some());
}

#[test]
fn a_back_end_that_never_answers_costs_a_client_a_bounded_time() {
    let world = ready_for_stores();
    for now in [0, 500, 5000] {
        store_config(&world, 0, Width::Byte, 1);
        assert!(world.device.has_to_wait(0x100, now, 1000));
        assert!(world.device.has_to_wait(0x100, now + 99, 1000));
        assert!(!world.device.has_to_wait(0x100, now + 100, 1000));
        assert!(!world.device.has_to_wait(0x187, now + 100, 1000));
        assert_eq!(config(&world, 0, Width::Word), 0x1234, "as it was");
    }
}

#[test]
fn a_store_is_told_again_to_a_back_end_that_comes_anew() {
    for dies in [false, true] {
        let mut world = ready_for_stores();
        store_config(&world, 4, Width::Word, 0x8765_4321);
        if dies {
            world.device.reset_back_end();
            assert!(!world.device.lines().driver);
        } else {
            world.back_store(register::CONTROL, control::WITHDRAW);
        }
        assert!(world.device.has_to_wait(0x100, 0, 1000));
        // An answer of who offers nothing is none.
        world.back_store(register::ANSWER, 0);
        assert!(world.device.has_to_wait(0x100, 0, 1000));
        assert_eq!(world.back(register::CONFIG), 0x1234, "dies: {dies}");
        world.offer_with(mode::STORES, 136);
        assert_ne!(world.back(register::INTERRUPT) & interrupt::CONFIG, 0);
        assert_eq!(world.back(register::STORED), 4 | 4 << 16);
        assert_eq!(world.back(register::VALUE), 0x8765_4321);
        world.back_store(register::ANSWER, 0);
        assert!(!world.device.has_to_wait(0x100, 0, 1000));
    }
}

#[test]
fn who_wants_no_stores_has_none_waiting() {
    let mut world = ready_for_stores();
    store_config(&world, 0, Width::Byte, 1);
    world.device.reset_back_end();
    world.offer(false);
    assert_eq!(world.back(register::CONTROL), control::OFFER);
    assert!(!world.device.has_to_wait(0x100, 0, 1000));
    let unknown = world.device.unknown();
    store_config(&world, 0, Width::Byte, 1);
    assert!(!world.device.has_to_wait(0x100, 0, 1000));
    assert_ne!(world.device.unknown(), unknown);
    let generation = world.front_load(0xfc);
    // Nor may it change what it has offered.
    world.back_store(register::CONFIG, 0x99);
    world.back_store(register::ANSWER, 0);
    assert_eq!(config(&world, 0, Width::Word), 0x1234);
    assert_eq!(world.front_load(0xfc), generation);
}

#[test]
fn stores_beside_the_configuration_are_none() {
    let world = ready_for_stores();
    world.back_store(register::CONFIG_SIZE, 10);
    world.back_store(register::ANSWER, 0);
    let lies = [
        (10, Width::Byte),
        (8, Width::Word),
        (0, Width::Double),
        (u64::MAX - 0x100, Width::Word),
    ];
    for (offset, width) in lies {
        store_config(&world, offset, width, u64::MAX);
        assert_eq!(world.back(register::STORED), 0, "{offset:#x}");
    }
    // A size that there is not is the largest.
    world.back_store(register::CONFIG_SIZE, u32::MAX);
    world.back_store(register::ANSWER, 0);
    store_config(&world, 132, Width::Word, 5);
    assert_eq!(world.back(register::STORED), 132 | 4 << 16);
    // A client that is reset has stored nothing.
    world.device.reset();
    assert_eq!(world.back(register::STORED), 0);
    assert!(!world.device.has_to_wait(0x100, 0, 1000));
}

#[test]
fn a_line_that_its_vm_has_lowered_is_raised_anew() {
    let mut world = ready_for_stores();
    world.serve(true);
    for _ in 0..2 {
        store_config(&world, 0, Width::Byte, 1);
        assert!(world.device.needs_attention(false));
        assert!(world.device.show().driver);
        world.back_store(register::ACKNOWLEDGE, u32::MAX);
        world.back_store(register::ANSWER, 0);
    }
    for _ in 0..2 {
        world.back_store(register::ANSWER, 0);
        assert!(world.device.needs_attention(true));
        assert!(world.device.show().client);
        world.front(0x64, 3);
    }
}
