//! Accesses that are made at each interrupt.

use super::*;
use crate::virtio::shared::at_once::AtOnce;
use hanok_abi::back_end::interrupt;

const STATUS: u64 = 0x60;
const ACKNOWLEDGE: u64 = 0x64;

fn load(world: &World, for_driver: bool, offset: u64) -> Option<AtOnce> {
    let access = Access::load(Ipa::new(offset), Width::Word);
    world.device.at_once(for_driver, offset, access)
}

fn store(world: &World, for_driver: bool, offset: u64, value: u64) -> Option<AtOnce> {
    let access = Access::store(Ipa::new(offset), Width::Word, value);
    world.device.at_once(for_driver, offset, access)
}

fn done(value: u64, ended: bool) -> Option<AtOnce> {
    Some(AtOnce { value, ended })
}

#[test]
fn a_driver_vm_takes_its_reasons_by_one_load() {
    let world = World::ready(false);
    let reasons = interrupt::CLIENT.into();
    assert_eq!(
        load(&world, true, register::INTERRUPT),
        done(reasons, false)
    );
    assert_eq!(load(&world, true, register::TAKE), done(reasons, true));
    assert!(!world.device.lines().driver);
    assert_eq!(load(&world, true, register::TAKE), done(0, false));
    // The long way does the same.
    let mut world = World::ready(false);
    assert_eq!(world.back(register::TAKE), interrupt::CLIENT);
    assert_eq!(world.back(register::INTERRUPT), 0);
    world.offer(false);
}

#[test]
fn what_is_told_meanwhile_is_not_taken() {
    let world = World::ready(false);
    store(&world, true, register::ACKNOWLEDGE, u64::MAX);
    world
        .device
        .0
        .lock()
        .back
        .tell(interrupt::REQUESTS | interrupt::CONFIG);
    let one = interrupt::REQUESTS.into();
    // Another reason stays, for which the line is to rise anew.
    assert_eq!(
        store(&world, true, register::ACKNOWLEDGE, one),
        done(0, true)
    );
    assert!(world.device.lines().driver);
    world.device.0.lock().transport.tell_used();
    world.device.0.lock().transport.tell_changed();
    assert_eq!(load(&world, false, STATUS), done(3, false));
    assert_eq!(store(&world, false, ACKNOWLEDGE, 1), done(0, true));
    assert_eq!(load(&world, false, STATUS), done(2, false));
    assert_eq!(store(&world, false, ACKNOWLEDGE, 2), done(0, true));
    assert!(!world.device.lines().client);
}

#[test]
fn whoever_has_lowered_its_line_has_it_raised_anew() {
    let world = World::ready(false);
    world.device.0.lock().transport.tell_used();
    assert!(world.device.show().client);
    assert!(!world.device.show().client);
    store(&world, false, ACKNOWLEDGE, 1);
    world.device.0.lock().transport.tell_used();
    assert!(world.device.needs_attention(true) && world.device.show().client);
}

#[test]
fn nothing_else_is_done_at_once() {
    let world = World::ready(true);
    for offset in (0..0x200).step_by(4) {
        let own = [STATUS, ACKNOWLEDGE].contains(&offset);
        let drivers = [register::INTERRUPT, register::ACKNOWLEDGE, register::TAKE];
        for (for_driver, may) in [(false, own), (true, drivers.contains(&offset))] {
            assert_eq!(SharedDevice::is_at_once(for_driver, offset), may);
            let any = load(&world, for_driver, offset).is_some()
                || store(&world, for_driver, offset, 0).is_some();
            assert_eq!(any, may, "{offset:#x}");
        }
    }
    // While a device of the board may access its memory, or before anybody has offered the device, a client waits.
    world.device.0.lock().held = true;
    assert_eq!(load(&world, false, STATUS), None);
    assert_eq!(load(&World::new(false), false, STATUS), None);
}
