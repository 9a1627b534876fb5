//! Attacks of a driver VM that is trusted: it names data by the board's addresses ([`mode::DIRECT`]), and reads its clients' memory
//! ([`register::FETCH`]). It may name what is any VM's. What is the hypervisor's, a device's, or nowhere, it must not.

use super::back_end::{BackEnd, DESCRIPTORS, slot};
use super::driver_attack::After::{Any, Failed, Offered};
use super::driver_attack::{Attack, Taken, attack};
use super::memory::{AREA, Descriptor, QUEUE, TABLE, WRITE};
use super::requests::{Outcome, wrong_if};
use crate::fuzz::random::Random;
use crate::machine::Machine;
use crate::mmio::{read32, write32};
use crate::{psci, smp};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use hanok_abi::back_end::{control, mode, register};
use hanok_types::platform;

/// All of them.
pub const ALL: &[Attack] = &[
    attack("data in the board's flash", Failed, |back, taken| {
        answer_from(back, taken, (0, 512))
    }),
    attack("data in the board's devices", Failed, devices),
    attack("data in front of all VMs", Failed, |back, taken| {
        answer_from(back, taken, (BOARD, 512))
    }),
    attack("data that wrap", Failed, |back, taken| {
        answer_from(back, taken, (!0xf, u32::MAX))
    }),
    attack("data at the end of all addresses", Failed, |back, taken| {
        answer_from(back, taken, (u64::MAX, 512))
    }),
    attack(
        "data across the end of its own memory",
        Failed,
        |back, taken| {
            let end = own_end(back, taken);
            answer_from(back, taken, (end - 256, 512))
        },
    ),
    attack("data of its own, by its own address", Any, |back, taken| {
        let at = AREA.address(0);
        answer_from(back, taken, (at, 512))
    }),
    attack("data of its own", Offered, |back, taken| {
        let end = own_end(back, taken);
        answer_from(back, taken, (end - 512, 512))
    }),
    attack("fetched from where nothing is", Offered, fetched_nothing),
    attack("fetched to where nothing is", Offered, fetched_nowhere),
    attack("fetched across the ends of memories", Offered, fetched_ends),
    attack("fetched while withdrawn", Any, fetched_withdrawn),
    attack("fetched without end", Offered, fetched_long),
    attack("a storm on its registers", Any, storm),
    attack("registers of another vCPU's", Any, |back, _| {
        race(back, registers)
    }),
    attack("withdrawn by another vCPU", Any, |back, _| {
        race(back, withdraws)
    }),
    attack("fetched by another vCPU", Any, |back, _| {
        race(back, fetches)
    }),
    attack("slots that another vCPU writes", Any, |back, _| {
        race(back, slots)
    }),
];

/// Where nothing is in any VM, and where a device is.
const HOLE: u64 = 0x3000_0000;
const UART: u64 = platform::UART.get();
/// Where the memory of QEMU's `virt` begins, with the hypervisor in it, and how much of it is looked at in which steps.
const BOARD: u64 = 0x4000_0000;
const BLOCK: u64 = 2 << 20;
const BLOCKS: u64 = 512;
/// Where fetched bytes get to, and how many are fetched.
const TO: u64 = 0xe000;
const BYTES: u32 = 512;
/// How often a register is accessed in a storm.
const ACCESSES: u64 = 4096;

/// Of the second vCPU: whether there is one, whether it is over, and the device's registers.
static CPUS: AtomicUsize = AtomicUsize::new(1);
static OVER: AtomicBool = AtomicBool::new(false);
static AT: AtomicU64 = AtomicU64::new(0);

/// Says what machine this is.
pub fn begin(machine: &Machine) {
    CPUS.store(machine.cpus, SeqCst);
}

/// The board's address behind this VM's memory: a slot's first data are in it, and named by the board's address.
fn own_end(back: &BackEnd, taken: Taken) -> u64 {
    let first = slot(taken.queue, taken.head);
    let data = AREA.address(first) + 16 * u64::from(DESCRIPTORS);
    let on_board = AREA.described(first, 0).at;
    on_board.wrapping_add(back.ram_end.wrapping_sub(data))
}

/// Answers with data that are at `at` on the board.
fn answer_from(back: &mut BackEnd, taken: Taken, (at, bytes): (u64, u32)) -> Outcome {
    for index in 0..u64::from(DESCRIPTORS) {
        let (flags, next) = (WRITE, 0);
        let descriptor = Descriptor {
            at,
            bytes,
            flags,
            next,
        };
        AREA.describe(slot(taken.queue, taken.head), index, descriptor);
    }
    back.answer(taken.queue, taken.head.into(), u32::MAX);
    back.tell(taken.queue);
    Ok(())
}

/// Each has to be found. The device is offered anew for the next one.
fn devices(back: &mut BackEnd, mut taken: Taken) -> Outcome {
    let places = [0x0800_0000, 0x0900_0000, 0x0a00_0000, 0x1000_0000, HOLE];
    for at in places {
        answer_from(back, taken, (at, 4))?;
        if back.state() != control::FAILED {
            return Err("a device's registers are data");
        }
        back.offer_again()?;
        let (queue, head) = back.wait()?;
        taken = Taken { queue, head };
    }
    answer_from(back, taken, (UART, 4))
}

/// Copies bytes of the client's memory. The answer is how many were not copied.
fn fetch(back: &BackEnd, from: u64, to: u64, bytes: u32) -> u32 {
    back.write_pair(register::FETCH_FROM, from);
    back.write_pair(register::FETCH_TO, to);
    back.write(register::FETCH, bytes);
    back.read(register::FETCH)
}

/// Whether chance must not store to this register: bytes could get to anywhere in this VM's own memory.
pub fn is_of_fetch(register: u64) -> bool {
    (register::FETCH_FROM..=register::FETCH).contains(&register)
}

fn fetched_nothing(back: &mut BackEnd, _: Taken) -> Outcome {
    let to = AREA.address(TO);
    let client_end = back.ram_end;
    for from in [0, HOLE, UART, client_end, !0xf, u64::MAX] {
        AREA.fill(TO, BYTES.into(), 0x5a);
        if fetch(back, from, to, BYTES) != BYTES {
            return Err("bytes are copied that are not there");
        }
        if (0..BYTES.into()).any(|at| AREA.byte(TO + at) != 0x5a) {
            return Err("what could not be copied is written");
        }
    }
    back.serve(5);
    Ok(())
}

fn fetched_nowhere(back: &mut BackEnd, _: Taken) -> Outcome {
    let from = platform::RAM.get();
    for to in [0, HOLE, UART, back.at, back.ram_end, !0xf, u64::MAX] {
        if fetch(back, from, to, BYTES) != BYTES {
            return Err("bytes are copied to where nothing is");
        }
    }
    back.serve(5);
    Ok(())
}

/// The client has as much memory as this VM.
fn fetched_ends(back: &mut BackEnd, _: Taken) -> Outcome {
    let (end, to) = (back.ram_end, AREA.address(TO));
    AREA.fill(TO, 2 * u64::from(BYTES), 0x5a);
    let left = fetch(back, end - 256, to, BYTES);
    wrong_if(left == 0, "bytes behind the client's memory are copied")?;
    let behind = TO + u64::from(BYTES)..TO + 2 * u64::from(BYTES);
    wrong_if(
        behind.into_iter().any(|at| AREA.byte(at) != 0x5a),
        "more bytes than were asked for",
    )?;
    let left = fetch(back, platform::RAM.get(), end - 256, BYTES);
    wrong_if(left == 0, "bytes get behind this VM's memory")?;
    wrong_if(
        fetch(back, end - u64::from(BYTES), to, BYTES) != 0,
        "the last bytes are not copied",
    )?;
    back.serve(5);
    Ok(())
}

fn fetched_withdrawn(back: &mut BackEnd, _: Taken) -> Outcome {
    back.write(register::CONTROL, control::WITHDRAW);
    AREA.fill(TO, BYTES.into(), 0x5a);
    let left = fetch(back, platform::RAM.get(), AREA.address(TO), BYTES);
    let is_written = (0..BYTES.into()).any(|at| AREA.byte(TO + at) != 0x5a);
    wrong_if(
        left != BYTES || is_written,
        "bytes are copied without an offer",
    )
}

/// More than there is: up to the end of the client's memory, and no further.
fn fetched_long(back: &mut BackEnd, _: Taken) -> Outcome {
    let bytes = 0x1000;
    let left = fetch(
        back,
        back.ram_end - u64::from(bytes),
        AREA.address(TO),
        u32::MAX,
    );
    wrong_if(
        left != u32::MAX - bytes,
        "more bytes are copied than there are, or fewer",
    )?;
    back.serve(5);
    Ok(())
}

fn storm(back: &mut BackEnd, _: Taken) -> Outcome {
    let mut random = Random::of(back.kind.into(), ACCESSES);
    for _ in 0..ACCESSES {
        let register = random.below(0x180 / 4) * 4;
        if random.once_in(3) {
            back.read(register);
        } else if !is_of_fetch(register) {
            back.write(register, random.value() as u32);
        }
    }
    Ok(())
}

/// Serves, badly and well, while another vCPU does `what`.
fn race(back: &mut BackEnd, what: fn(usize)) -> Outcome {
    if CPUS.load(SeqCst) < 2 {
        return Ok(());
    }
    AT.store(back.at, SeqCst);
    OVER.store(false, SeqCst);
    if smp::start(1, what) != psci::SUCCESS {
        return Err("the other vCPU does not start");
    }
    for round in 0..16 {
        if back.state() != control::OFFER {
            back.prepare();
            back.offer();
        }
        back.serve(1);
        if let Some(head) = back.take(0) {
            let taken = Taken { queue: 0, head };
            answer_from(back, taken, (BOARD + round * BLOCK, 512))?;
        }
        fetch(back, platform::RAM.get(), AREA.address(TO), BYTES);
    }
    OVER.store(true, SeqCst);
    wrong_if(!smp::wait_off(1), "the other vCPU does not come to its end")
}

/// Does `what` until it is over.
fn until_over(what: impl Fn(u64, &mut Random)) {
    let mut random = Random::of(1, 2);
    while !OVER.load(SeqCst) {
        what(AT.load(SeqCst), &mut random);
    }
}

fn registers(_: usize) {
    until_over(|at, random| {
        let register = random.below(0x100 / 4) * 4;
        if random.once_in(3) {
            read32(at + register);
        } else if !is_of_fetch(register) {
            write32(at + register, random.value() as u32);
        }
    });
}

fn withdraws(_: usize) {
    until_over(|at, random| write32(at + register::CONTROL, random.below(2) as u32));
}

fn fetches(_: usize) {
    until_over(|at, random| {
        let places = [HOLE, UART, AREA.address(TO), !0xf];
        write32(at + register::FETCH_TO, random.pick(&places) as u32);
        write32(at + register::FETCH, random.pick(&[1, 64, 512, 0x1000]));
    });
}

/// Slots and the table that names them. What is behind, where fetched bytes are, is left alone.
fn slots(_: usize) {
    until_over(|_, random| {
        let queue = random.below(2) as u32;
        let places = [
            slot(queue, random.below(16) as u16) + 2 * random.below(64),
            u64::from(queue) * QUEUE + TABLE + 2 * random.below(128),
        ];
        AREA.set(random.pick(&places), random.next() as u16);
    });
}

/// Names each block of the board's memory as data, and says how many are any VM's: what is not is the hypervisor's or nobody's.
pub fn blocks(back: &mut BackEnd) -> Outcome {
    let mut answered = 0;
    let mut block = 0;
    let mut resets = back.resets();
    back.start()?;
    while block < BLOCKS {
        let (queue, head) = back.wait()?;
        let at = BOARD + block * BLOCK;
        answer_from(back, Taken { queue, head }, (at, 64))?;
        let state = back.state();
        if back.resets() != resets {
            // What a client has forgotten since the last offer is taken back, whatever the answer is.
            resets = back.resets();
            back.start()?;
            continue;
        }
        match state {
            control::OFFER => answered += 1,
            control::FAILED => back.offer_again()?,
            _ => return Err("the device is neither offered nor withdrawn"),
        }
        block += 1;
    }
    println!("virtio driver: {answered} of {BLOCKS} blocks of the board's memory are data");
    wrong_if(
        back.read(register::MODE) & mode::DIRECT == 0,
        "the mode is another one",
    )
}
