//! A hostile driver VM (`conformance.run=virtio-driver`): for each device that it serves, all attacks, each with a request of its
//! client's under way, then rounds by chance. After each it offers the device again as it should be, and its client has to be served.

use super::back_end::{BackEnd, back_ends, slot};
use super::client::Options;
use super::driver_attack::{After, Attack, Taken};
use super::memory::{AREA, QUEUE, USED};
use super::requests::Outcome;
use super::{back_attacks, trusted};
use crate::fuzz::random::Random;
use crate::machine::Machine;
use crate::sweep::key_came;
use hanok_abi::back_end::{control, mode, register};

/// The milliseconds for which the client is served between two attacks.
const SERVED: u64 = 5;
/// How often a step is done in a round.
const STEPS: u64 = 12;

/// Attacks by all devices. One that is trusted then serves its clients until a key comes: what a device of the board may write to is not
/// given back to a client that has reset its device, so that it waits for its driver VM, which must not have ended.
pub fn run(machine: &Machine, options: Options) {
    let (mut count, mut done, mut failed) = (0, 0, 0);
    let mut wrong = |why: core::fmt::Arguments<'_>| {
        failed += 1;
        println!("FAIL virtio driver: {why}");
    };
    for mut back_end in back_ends(machine) {
        count += 1;
        let kind = back_end.kind;
        let own: &[Attack] = if is_trusted(&back_end) {
            // Buffers are named by the board's addresses, also in all attacks of any driver VM.
            back_end.mode = mode::DIRECT;
            trusted::begin(machine);
            trusted::ALL
        } else {
            &[]
        };
        for attack in back_attacks::ALL.iter().chain(own) {
            match try_on(attack, &mut back_end) {
                Ok(()) => println!("virtio driver: device {kind}: {}: held", attack.name),
                Err(why) => wrong(format_args!("device {kind}: {}: {why}", attack.name)),
            }
            done += 1;
        }
        for index in 0..options.rounds {
            round(&mut back_end, options.seed, index);
            if let Err(why) = recovers(&mut back_end) {
                wrong(format_args!(
                    "device {kind}: round {index} of seed {}: {why}",
                    options.seed
                ));
            }
        }
        if is_trusted(&back_end)
            && let Err(why) = trusted::blocks(&mut back_end)
        {
            wrong(format_args!("device {kind}: blocks of the board: {why}"));
        }
        println!(
            "virtio driver: device {kind}: {} rounds of seed {}",
            options.rounds, options.seed
        );
    }
    println!(
        "virtio driver: done, {count} devices, {done} attacks, {failed} wrong, {} ms",
        super::now()
    );
    let mut trusted = back_ends(machine).filter(is_trusted);
    if let Some(mut back_end) = trusted.next() {
        back_end.mode = mode::DIRECT;
        while !key_came() {
            // Where its client has nothing to ask, it is offered anew.
            let _ = recovers(&mut back_end);
        }
    }
}

fn is_trusted(back_end: &BackEnd) -> bool {
    back_end.read(register::MODES) & mode::DIRECT != 0
}

/// Makes `attack`, and looks at what comes of it.
fn try_on(attack: &Attack, back_end: &mut BackEnd) -> Outcome {
    back_end.start()?;
    let (queue, head) = back_end.wait()?;
    (attack.run)(back_end, Taken { queue, head })?;
    let state = back_end.state();
    let right = match attack.after {
        After::Failed => state == control::FAILED,
        After::Refused => state == control::REFUSED,
        After::Offered => state == control::OFFER,
        After::Any => true,
    };
    if !right {
        return Err(match state {
            control::OFFER => "the device is offered",
            control::FAILED => "the device is withdrawn",
            control::REFUSED => "the offer is refused",
            _ => "the device is not offered",
        });
    }
    recovers(back_end)
}

/// Offers the device again, and serves its client.
fn recovers(back_end: &mut BackEnd) -> Outcome {
    back_end.start()?;
    let (queue, head) = back_end.wait()?;
    let written = back_end.writable(queue, head);
    back_end.answer(queue, head.into(), written);
    back_end.tell(queue);
    back_end.serve(SERVED);
    match back_end.state() {
        control::OFFER => Ok(()),
        _ => Err("the device is not offered after good answers"),
    }
}

/// A round by chance on a device that is offered.
fn round(back_end: &mut BackEnd, seed: u64, index: u64) {
    let mut random = Random::of(seed ^ u64::from(back_end.kind) << 32, index);
    if back_end.start().is_err() {
        return;
    }
    for _ in 0..STEPS {
        let queue = random.below(back_end.queues.into()) as u32;
        back_end.serve(u64::from(random.once_in(4)));
        match random.below(8) {
            0 => {
                let register = random.below(0x200 / 4) * 4;
                if back_end.mode & mode::DIRECT == 0 || !trusted::is_of_fetch(register) {
                    back_end.write(register, random.value() as u32);
                }
            }
            1 => drop(back_end.read(random.below(0x400) * 4)),
            2 => {
                let at = slot(queue, random.below(16) as u16);
                AREA.fill_by_chance(at, 128, &mut random);
            }
            3 => AREA.fill_by_chance(u64::from(queue) * QUEUE + USED + 4, 128, &mut random),
            4 => AREA.fill_by_chance(u64::from(queue) * QUEUE, 0x800, &mut random),
            5 => back_end.show(queue, random.below(20) as u16),
            6 => {
                back_end.answer(queue, random.below(17) as u32, random.value() as u32);
                back_end.tell(queue);
            }
            _ => back_end.write(register::CONTROL, random.below(3) as u32),
        }
    }
}
