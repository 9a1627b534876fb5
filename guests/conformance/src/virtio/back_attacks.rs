//! Attacks of a driver VM: by what it gives back, by what it says of its memory, and by its registers.

use super::back_end::{BackEnd, DESCRIPTORS, SIZE, SLOT, slot};
use super::driver_attack::After::{Any, Failed, Offered, Refused};
use super::driver_attack::{Attack, Taken, attack};
use super::memory::{AREA, AVAILABLE, Descriptor, QUEUE, TABLE, WRITE};
use super::requests::{Outcome, wrong_if};
use crate::mmio::{read8, read16, write8, write16};
use hanok_abi::back_end::{control, mode, register};
use hanok_types::platform;

/// All of them.
pub const ALL: &[Attack] = &[
    attack("answers twice", Failed, twice),
    attack("answers for another", Failed, another),
    attack("answers for none", Failed, none),
    attack("answers a slot that is not there", Failed, |back, taken| {
        answers(back, taken, SIZE.into())
    }),
    attack("answers a slot far away", Failed, |back, taken| {
        answers(back, taken, u32::MAX)
    }),
    attack("never answers", Offered, never),
    attack("withdraws in flight", Any, withdraws),
    attack("an index that jumps", Failed, |back, taken| {
        index(back, taken, SIZE + 1)
    }),
    attack("an index that goes backwards", Failed, |back, taken| {
        index(back, taken, u16::MAX)
    }),
    attack("has written more than it may", Offered, too_much),
    attack("data outside its memory", Any, |back, taken| {
        data_at(back, taken, HOLE)
    }),
    attack("data in a device", Any, |back, taken| {
        data_at(back, taken, UART)
    }),
    attack("data at the first address", Any, |back, taken| {
        data_at(back, taken, 0)
    }),
    attack("data at the end of all addresses", Any, |back, taken| {
        data_at(back, taken, !0xf)
    }),
    attack("descriptors by its own mind", Any, descriptors),
    attack("what it was told, written over", Any, overwritten),
    attack("slots outside its memory", Failed, |back, _| {
        slots_at(back, HOLE)
    }),
    attack("slots in a device", Failed, |back, _| slots_at(back, UART)),
    attack("slots that wrap", Refused, slots_wrap),
    attack("slots of no good size", Refused, slot_sizes),
    attack("a ring outside its memory", Failed, |back, _| {
        ring_at(back, HOLE)
    }),
    attack("a ring in a device", Failed, |back, _| ring_at(back, UART)),
    attack("rings that wrap", Refused, rings_wrap),
    attack("rings that are not aligned", Refused, not_aligned),
    attack("rings that overlap", Any, overlapping),
    attack("queues of no good size", Refused, sizes),
    attack("queues smaller than the client's", Refused, smaller),
    attack("a configuration beyond its bounds", Offered, configuration),
    attack("all features", Offered, features),
    attack("all modes", Any, modes),
    attack("an offer in an offer", Offered, again),
    attack("registers of an offer, stored to", Offered, stores),
    attack("registers by other widths", Offered, widths),
    attack("notifications for no queue", Offered, notifications),
    attack("an answer to no store", Any, no_store),
    attack("the client's memory, fetched", Any, fetches),
];

/// How often an attack on a client is tried that must not be reset meanwhile.
const TRIES: usize = 100;
/// Where nothing is, and where a device is.
const HOLE: u64 = 0x3000_0000;
const UART: u64 = platform::UART.get();

fn twice(back: &mut BackEnd, taken: Taken) -> Outcome {
    let Taken { queue, head } = taken;
    let written = back.writable(queue, head);
    back.answer(queue, head.into(), written);
    back.answer(queue, head.into(), written);
    back.tell(queue);
    Ok(())
}

/// Of all slots at most four are under way: the client makes no more requests of a queue at a time.
fn another(back: &mut BackEnd, taken: Taken) -> Outcome {
    answers(back, taken, u32::from(taken.head ^ 1))
}

fn none(back: &mut BackEnd, taken: Taken) -> Outcome {
    for head in (0..SIZE).filter(|head| head % 4 != 0) {
        back.answer(taken.queue, head.into(), 1);
    }
    back.tell(taken.queue);
    Ok(())
}

fn answers(back: &mut BackEnd, taken: Taken, head: u32) -> Outcome {
    back.answer(taken.queue, head, 1);
    back.tell(taken.queue);
    Ok(())
}

fn never(_: &mut BackEnd, _: Taken) -> Outcome {
    super::wait_ms(100, || false);
    Ok(())
}

fn withdraws(back: &mut BackEnd, _: Taken) -> Outcome {
    for _ in 0..8 {
        back.write(register::CONTROL, control::WITHDRAW);
        back.start()?;
        back.wait()?;
    }
    back.write(register::CONTROL, control::WITHDRAW);
    Ok(())
}

fn index(back: &mut BackEnd, taken: Taken, by: u16) -> Outcome {
    let index = back.given(taken.queue).wrapping_add(by);
    back.show(taken.queue, index);
    Ok(())
}

fn too_much(back: &mut BackEnd, taken: Taken) -> Outcome {
    answers(back, taken, taken.head.into())?;
    for _ in 0..4 {
        let (queue, head) = back.wait()?;
        back.answer(queue, head.into(), u32::MAX);
        back.tell(queue);
    }
    Ok(())
}

/// Descriptors that say that all data are at `at`.
fn data_at(back: &mut BackEnd, taken: Taken, at: u64) -> Outcome {
    for index in 0..u64::from(DESCRIPTORS) {
        let descriptor = Descriptor {
            at,
            bytes: 512,
            flags: WRITE,
            next: 0,
        };
        AREA.describe(slot(taken.queue, taken.head), index, descriptor);
    }
    back.answer(taken.queue, taken.head.into(), u32::MAX);
    back.tell(taken.queue);
    Ok(())
}

fn descriptors(back: &mut BackEnd, taken: Taken) -> Outcome {
    let (mut queue, mut head) = (taken.queue, taken.head);
    for (bytes, flags) in [
        (0, WRITE),
        (u32::MAX, WRITE),
        (1, WRITE),
        (1, 0),
        (7, u16::MAX),
    ] {
        for index in 0..u64::from(DESCRIPTORS) {
            let at = AREA.address(0) + index;
            AREA.describe(
                slot(queue, head),
                index,
                Descriptor {
                    at,
                    bytes,
                    flags,
                    next: 9,
                },
            );
        }
        back.answer(queue, head.into(), u32::MAX);
        back.tell(queue);
        if back.state() != control::OFFER {
            return Ok(());
        }
        (queue, head) = back.wait()?;
    }
    Ok(())
}

fn overwritten(back: &mut BackEnd, taken: Taken) -> Outcome {
    let own = u64::from(taken.queue) * QUEUE;
    AREA.fill(own + TABLE, 16 * u64::from(SIZE), 0xff);
    AREA.fill(own + AVAILABLE, 2 * u64::from(SIZE), 0xff);
    for head in 0..SIZE {
        AREA.fill(slot(taken.queue, head), SLOT, 0xff);
    }
    back.answer(taken.queue, taken.head.into(), u32::MAX);
    back.tell(taken.queue);
    Ok(())
}

/// Prepares an offer that `change` spoils for each queue, and makes it.
fn spoiled(back: &mut BackEnd, change: impl Fn(&BackEnd)) -> u32 {
    back.prepare();
    for queue in 0..back.queues {
        back.choose(queue);
        change(back);
    }
    back.offer()
}

/// Waits until the hypervisor has found that the memory is wrong: when the client has a request.
fn is_found(back: &BackEnd) -> Outcome {
    wrong_if(
        !super::wait(|| back.state() == control::FAILED),
        "what is wrong is not found",
    )
}

fn slots_at(back: &mut BackEnd, at: u64) -> Outcome {
    spoiled(back, |back| back.write_pair(register::SLOTS, at));
    is_found(back)
}

fn slots_wrap(back: &mut BackEnd, _: Taken) -> Outcome {
    spoiled(back, |back| back.write_pair(register::SLOTS, !0xf));
    Ok(())
}

/// All of these have to be refused.
fn all_refused(back: &mut BackEnd, register: u64, values: &[u64]) -> Outcome {
    for value in values {
        let spoil = |back: &BackEnd| match register {
            register::SLOT_SIZE | register::SLOT_DESCRIPTORS | register::QUEUE_SIZE => {
                back.write(register, *value as u32);
            }
            _ => back.write_pair(register, *value),
        };
        if spoiled(back, spoil) != control::REFUSED {
            return Err("an offer that cannot be is taken");
        }
    }
    Ok(())
}

fn slot_sizes(back: &mut BackEnd, _: Taken) -> Outcome {
    let descriptors = [0, SLOT / 16 + 1, 0x1_0000, u32::MAX.into()];
    all_refused(back, register::SLOT_DESCRIPTORS, &descriptors)?;
    all_refused(back, register::SLOT_SIZE, &[0, 1, 16, 0x7f, SLOT + 8])
}

/// Each part of the ring for itself.
fn ring_at(back: &mut BackEnd, at: u64) -> Outcome {
    for part in [register::TABLE, register::AVAILABLE, register::USED] {
        spoiled(back, |back| back.write_pair(part, at));
        // The ring of requests that are done is looked at first when the driver VM says so.
        (0..back.queues).for_each(|queue| back.tell(queue));
        is_found(back)?;
    }
    Ok(())
}

fn rings_wrap(back: &mut BackEnd, _: Taken) -> Outcome {
    all_refused(back, register::TABLE, &[!0xf])?;
    all_refused(back, register::AVAILABLE, &[!1])?;
    all_refused(back, register::USED, &[!3])
}

fn not_aligned(back: &mut BackEnd, _: Taken) -> Outcome {
    let ring = AREA.address(0);
    all_refused(back, register::TABLE, &[ring + 1, ring + 8])?;
    all_refused(back, register::AVAILABLE, &[ring + 1])?;
    all_refused(back, register::USED, &[ring + 1, ring + 2])?;
    all_refused(back, register::SLOTS, &[ring + 8])
}

/// Ring, requests that are done and slots are in the same place.
fn overlapping(back: &mut BackEnd, _: Taken) -> Outcome {
    let ring = AREA.address(0);
    spoiled(back, |back| {
        for register in [
            register::TABLE,
            register::AVAILABLE,
            register::USED,
            register::SLOTS,
        ] {
            back.write_pair(register, ring);
        }
    });
    super::wait_ms(20, || false);
    (0..back.queues).for_each(|queue| back.tell(queue));
    Ok(())
}

fn sizes(back: &mut BackEnd, _: Taken) -> Outcome {
    all_refused(
        back,
        register::QUEUE_SIZE,
        &[0, 3, 257, 512, 0x8000, 0x1_0000, 0x1_0010, u32::MAX.into()],
    )
}

/// The client has queues, as it made a request, unless it is reset meanwhile.
fn smaller(back: &mut BackEnd, _: Taken) -> Outcome {
    for _ in 0..TRIES {
        let resets = back.resets();
        back.start()?;
        back.wait()?;
        let outcome = all_refused(back, register::QUEUE_SIZE, &[1]);
        if outcome.is_ok() || back.resets() == resets {
            return outcome;
        }
    }
    Err("the client is reset again and again")
}

fn configuration(back: &mut BackEnd, _: Taken) -> Outcome {
    for size in [u32::MAX, 137, 0x1_0000, 1 << 31, 0] {
        back.prepare();
        back.write(register::CONFIG_SIZE, size);
        for at in (register::CONFIG..0x400).step_by(4) {
            back.write(at, u32::MAX);
        }
        if !super::wait(|| back.offer() == control::OFFER) {
            return Err("a size beyond the bounds is refused");
        }
        back.wait()?;
    }
    Ok(())
}

fn features(back: &mut BackEnd, _: Taken) -> Outcome {
    back.prepare();
    back.write_pair(register::FEATURES, u64::MAX);
    super::wait(|| back.offer() == control::OFFER);
    back.wait().map(drop)
}

fn modes(back: &mut BackEnd, _: Taken) -> Outcome {
    for mode in [u32::MAX, mode::KEEPS, mode::STORES, mode::DIRECT] {
        back.prepare();
        back.write(register::MODE, mode);
        back.write(register::HEAD, u32::MAX);
        if !super::wait(|| back.offer() == control::OFFER) {
            return Err("a mode is refused");
        }
        let (queue, head) = back.wait()?;
        let taken = Taken { queue, head };
        if back.read(register::MODE) & mode::DIRECT == 0 {
            data_at(back, taken, AREA.address(0))?;
        } else {
            // A VM that is trusted has to say what is there: nothing.
            back.answer(queue, head.into(), 0);
            back.tell(queue);
        }
    }
    Ok(())
}

fn again(back: &mut BackEnd, _: Taken) -> Outcome {
    for value in [control::OFFER, control::OFFER, control::OFFER] {
        back.write(register::CONTROL, value);
    }
    back.serve(5);
    Ok(())
}

/// What is offered stays as it is.
fn stores(back: &mut BackEnd, _: Taken) -> Outcome {
    let fixed = register::MODE..register::NOTIFY;
    for register in fixed
        .step_by(4)
        .filter(|register| *register != register::CONTROL)
    {
        back.write(register, u32::MAX);
    }
    back.write(register::QUEUE, 0);
    back.serve(5);
    Ok(())
}

fn widths(back: &mut BackEnd, _: Taken) -> Outcome {
    for at in (back.at..back.at + 0x200).step_by(4) {
        let read = read8(at) | read16(at + 2) as u8;
        if read != 0 {
            return Err("a register can be read by halves");
        }
        write8(at + 1, 0xff);
        write16(at, 0xffff);
    }
    back.serve(5);
    Ok(())
}

fn notifications(back: &mut BackEnd, _: Taken) -> Outcome {
    for queue in [back.queues, 4, 64, 0x1_0000, 1 << 31, u32::MAX] {
        back.write(register::NOTIFY, queue);
        back.write(register::QUEUE, queue);
        back.write(register::ACKNOWLEDGE, queue);
        back.read(register::AGAIN);
    }
    back.serve(5);
    Ok(())
}

/// Each tells the client that its configuration has changed.
fn no_store(back: &mut BackEnd, _: Taken) -> Outcome {
    back.prepare();
    back.write(register::MODE, mode::STORES);
    super::wait(|| back.offer() == control::OFFER);
    for value in 0..64 {
        back.write(register::CONFIG_SIZE, value * 7);
        back.write(register::CONFIG, value);
        back.write(register::ANSWER, value);
    }
    Ok(())
}

/// A VM that is not trusted gets nothing; one that is, what memory there is.
fn fetches(back: &mut BackEnd, _: Taken) -> Outcome {
    let trusted = back.read(register::MODES) & mode::DIRECT != 0;
    let own = AREA.address(0xf000);
    for (from, to, bytes) in [
        (HOLE, own, 64),
        (u64::MAX, own, 64),
        (!0xf, own, 64),
        (platform::RAM.get(), HOLE, 64),
        (platform::RAM.get(), u64::MAX, 64),
        (platform::RAM.get(), own, 0),
        (UART, UART, u32::MAX),
        (platform::RAM.get(), own, 64),
    ] {
        back.write_pair(register::FETCH_FROM, from);
        back.write_pair(register::FETCH_TO, to);
        back.write(register::FETCH, bytes);
        if back.read(register::FETCH) != bytes && !trusted {
            return Err("a VM that is not trusted has read its client's memory");
        }
    }
    Ok(())
}
