//! Who must not be harmed: a VM that uses its devices as it should (`conformance.run=virtio-bystander`), which an honest driver VM
//! serves, and one that a hostile driver VM serves (`conformance.run=virtio-victim`). Each goes on until a key comes, and says
//! what it has found.

use super::memory::{ANSWER, AREA, DATA, HEADER};
use super::requests::{BLOCK, DONE, IN, OUT, Outcome, SECTOR, wrong_if};
use super::transport::{Device, NEEDS_RESET, STATUS, devices, reads, writes};
use crate::fuzz::random::Random;
use crate::marker;
use crate::sweep::key_came;
use hanok_types::PAGE_SIZE;

/// The sectors of the disk that are written and read.
const SECTORS: u32 = 64;
/// The milliseconds for which the victim waits for an answer.
const PATIENCE: u64 = 20;
/// The requests that the victim has under way of each queue.
const UNDER_WAY: u32 = 2;

/// Writes to its disk and reads back, and makes a good request of each other device. Nothing may fail, not once. Whoever counts
/// instructions counts those of this time.
pub fn stand_by() {
    let (mut rounds, mut wrong) = (0_u32, 0_u32);
    for mut device in devices() {
        if let Err(why) = device.set_up() {
            wrong += 1;
            println!("FAIL virtio bystander: {}: {why}", device.name());
        }
    }
    AREA.set_guard();
    println!("virtio bystander: begins");
    marker::begin();
    while !key_came() {
        for mut device in devices() {
            let outcome = device.set_up().and_then(|()| match device.kind {
                BLOCK => write_and_read(&mut device, rounds),
                _ => device.serves(),
            });
            if let Err(why) = outcome {
                wrong += 1;
                println!("FAIL virtio bystander: {}: {why}", device.name());
            }
        }
        rounds += 1;
    }
    marker::end();
    if !AREA.guard_holds() {
        wrong += 1;
        println!("FAIL virtio bystander: memory was written that no request names");
    }
    println!("virtio bystander: done, {wrong} wrong, in rounds: {rounds}");
}

/// Writes a sector, then reads it and another one that was written before.
fn write_and_read(device: &mut Device, round: u32) -> Outcome {
    let sector = round % SECTORS;
    fill(sector, round);
    if device.transfer(OUT, sector)? != DONE {
        return Err("the disk has an error");
    }
    read(device, sector, round)?;
    // What was written half a turn ago.
    let earlier = round.checked_sub(SECTORS / 2);
    earlier.map_or(Ok(()), |earlier| read(device, earlier % SECTORS, earlier))
}

fn read(device: &mut Device, sector: u32, round: u32) -> Outcome {
    AREA.fill(DATA, SECTOR.into(), 0);
    if device.transfer(IN, sector)? != DONE {
        return Err("the disk has an error");
    }
    let mut random = Random::of(sector.into(), round.into());
    let mut halves = (0..u64::from(SECTOR)).step_by(2);
    wrong_if(
        !halves.all(|at| AREA.get(DATA + at) == random.next() as u16),
        "the disk has other data than were written",
    )
}

/// What a sector gets in a round.
fn fill(sector: u32, round: u32) {
    let mut random = Random::of(sector.into(), round.into());
    AREA.fill_by_chance(DATA, SECTOR.into(), &mut random);
}

/// Makes requests of all queues without end, and resets its device when no answer comes. It may be served badly, but
/// only what it has named may be written, and only its own requests may be answered.
pub fn suffer() {
    let (mut answers, mut resets, mut wrong) = (0_u32, 0_u32, 0_u32);
    AREA.set_guard();
    println!("virtio victim: begins");
    while !key_came() {
        for mut device in devices() {
            let found = device.set_up().and_then(|()| ask(&mut device));
            match found {
                Ok(0) => resets += 1,
                Ok(count) => answers += count,
                // It is withdrawn, or its driver VM has spoilt its offer.
                Err(WITHDRAWN) => resets += 1,
                Err(why) if why.starts_with("FAIL") => {
                    wrong += 1;
                    println!("{why}");
                }
                Err(_) => resets += 1,
            }
        }
        if !AREA.guard_holds() {
            wrong += 1;
            AREA.set_guard();
            println!("FAIL virtio victim: memory was written that no request names");
        }
    }
    println!("virtio victim: done, {wrong} wrong, answers: {answers}, resets: {resets}");
}

const WITHDRAWN: &str = "the device wants a reset";

/// Makes requests of all queues, and looks at what comes back. The answer is how many answers came.
fn ask(device: &mut Device) -> Result<u32, &'static str> {
    AREA.fill(DATA, PAGE_SIZE, 0);
    AREA.fill(HEADER, 64, 0);
    AREA.fill(ANSWER, 64, 0xff);
    let queues = device.queues();
    let bytes = SECTOR + 1;
    for queue in 0..queues {
        for _ in 0..UNDER_WAY {
            device.submit(
                queue,
                &[reads(HEADER, 16), writes(DATA, SECTOR), writes(ANSWER, 1)],
            );
        }
    }
    let mut answers = 0;
    for queue in 0..queues {
        let mut open = [true; UNDER_WAY as usize];
        for _ in 0..UNDER_WAY {
            let Some((head, written)) = device.wait_ms(queue, PATIENCE) else {
                break;
            };
            let own = open
                .get_mut(head as usize / 4)
                .filter(|open| head % 4 == 0 && **open);
            let Some(own) = own else {
                return Err("FAIL virtio victim: an answer to no request");
            };
            *own = false;
            if written > bytes {
                return Err("FAIL virtio victim: more was written than there is");
            }
            answers += 1;
        }
    }
    let mut behind = (u64::from(SECTOR)..PAGE_SIZE).step_by(2);
    if behind.any(|at| AREA.get(DATA + at) != 0) || AREA.byte(ANSWER + 1) != 0xff {
        return Err("FAIL virtio victim: memory behind a buffer was written");
    }
    if device.read(STATUS) & NEEDS_RESET != 0 {
        return Err(WITHDRAWN);
    }
    Ok(answers)
}
