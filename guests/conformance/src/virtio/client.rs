//! A hostile client (`conformance.run=virtio-client`): for each device that it finds, all attacks on registers and on queues, then
//! rounds by chance. After each the device has to be as the attack says, can be reset, and serves a good request again.

use super::client_attack::{After, Attack, Place};
use super::memory::AREA;
use super::requests::ENTROPY;
use super::transport::{Device, devices};
use super::{chance, queues, registers, under_way};
use crate::machine::Machine;
use crate::timer;
use core::sync::atomic::Ordering::Relaxed;

/// Which rounds by chance there are.
#[derive(Clone, Copy)]
pub struct Options {
    /// Where chance begins.
    pub seed: u64,
    /// How many rounds for each device.
    pub rounds: u64,
}

/// Attacks all devices.
pub fn run(machine: &Machine, options: Options) {
    let (mut count, mut done, mut failed) = (0, 0, 0);
    for mut device in devices() {
        count += 1;
        let name = device.name();
        println!("virtio: {name} at {:#x}", device.at);
        let place = Place {
            ram_end: machine.ram_end(),
            queue: device.asks_by(),
        };
        let begin = device.set_up().and_then(|()| device.serves());
        if let Err(why) = begin {
            println!("FAIL virtio: {name} before all attacks: {why}");
            failed += 1;
            continue;
        }
        AREA.set_guard();
        let all = registers::ALL.iter().chain(queues::ALL);
        for attack in all.chain(under_way::ALL) {
            let began = timer::now();
            let outcome = try_on(attack, &mut device, &place);
            let took = (timer::now() - began) * 1_000 / timer::frequency();
            match outcome {
                Ok(()) => println!("virtio: {name}: {}: held, {took} ms", attack.name),
                Err(why) => {
                    failed += 1;
                    println!("FAIL virtio: {name}: {}: {why}", attack.name);
                }
            }
            done += 1;
        }
        for round in 0..options.rounds {
            let outcome = chance::round(&mut device, options.seed, round);
            if let Err(why) = outcome.and_then(|()| recovers(&mut device)) {
                failed += 1;
                println!(
                    "FAIL virtio: {name}: round {round} of seed {}: {why}",
                    options.seed
                );
            }
        }
        println!(
            "virtio: {name}: {} rounds of seed {}",
            options.rounds, options.seed
        );
    }
    println!(
        "virtio: changed under way: {}",
        under_way::UNDER_WAY.load(Relaxed)
    );
    println!(
        "virtio: client done, {count} devices, {done} attacks, {failed} wrong, {} ms",
        super::now()
    );
}

/// Makes `attack`, and looks at what comes of it.
fn try_on(attack: &Attack, device: &mut Device, place: &Place) -> Result<(), &'static str> {
    device.set_up()?;
    (attack.run)(device, place)?;
    let after = match attack.after {
        After::Walked if device.kind == ENTROPY => After::Any,
        After::Walked => After::Broken,
        after => after,
    };
    match after {
        After::Broken if !super::wait(|| device.is_broken()) => {
            return Err("the device does not want a reset");
        }
        After::Live if !device.is_live() => return Err("the device is broken"),
        After::Live => device.serves()?,
        _ => {}
    }
    recovers(device)
}

/// Resets the device, which has to serve then, and looks for memory that nobody may have written.
fn recovers(device: &mut Device) -> Result<(), &'static str> {
    device.set_up()?;
    device.serves()?;
    if AREA.guard_holds() {
        return Ok(());
    }
    AREA.set_guard();
    Err("memory was written that no request names")
}
