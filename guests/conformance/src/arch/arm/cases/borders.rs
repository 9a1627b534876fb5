//! The borders between a hypervisor without virtualization hardware, a guest's kernel and its programs, and tries to cross
//! each of them. All three are in one address space there, and kernel and programs in one mode of the CPU's.
//!
//! They run by short descriptors and only when they are named, with the tables and the trips of the fuzzer
//! ([`crate::arch::fuzz`]).

use crate::arch::fuzz::space::short::{Pages, ROOT, SECTION, SECTION_NEVER, SECTION_NORMAL, TABLE};
use crate::arch::fuzz::space::{self, CODE, DATA, USER_CODE, ZEROS};
use crate::arch::fuzz::trip::{self, End, Kind, MASKED, SVC_CLASS, Start, UNDEFINED, USER_MASKED};
use crate::arch::fuzz::{code, tlb};
use crate::case::{Case, Outcome, case};
use crate::fuzz::memory::SCRATCH;
use crate::machine::Machine;
use core::sync::atomic::Ordering::Relaxed;
use hanok_guest_runtime::arch::{mmu, vectors};

pub const CASES: &[Case] = &[
    case("border-window", 1, |machine| within(machine, window)),
    case("border-window-moves", 1, |machine| {
        within(machine, window_moves)
    }),
    case("border-kernel", 1, |machine| within(machine, kernel)),
    case("border-stale", 1, |machine| within(machine, stale)),
    case("border-traps", 1, |machine| within(machine, traps)),
    case("border-modes", 1, |machine| within(machine, modes)),
];
/// Ends the VM, where there is a hypervisor in the same address space.
pub const LAST: &[Case] = &[case("border-window-nowhere", 1, |machine| {
    within(machine, nowhere)
})];

/// The megabytes in one of which a hypervisor has to be (docs/deprivileged.md), and the one that it prefers.
const WINDOWS: core::ops::Range<u32> = 0xff0..0xfff;
const PREFERRED: u32 = 0xffb;

// The fault status, as with long descriptors.
const SECTION_TRANSLATION: u32 = 0x05;
const SECTION_PERMISSION: u32 = 0x0d;
const PAGE_PERMISSION: u32 = 0x0f;

/// The ways to reach an address in R1: the instruction, whether it stores, and what it needs to be aligned to.
const WAYS: [(u32, bool, u32); 17] = [
    (0xe591_0000, false, 4), // ldr r0, [r1]
    (0xe5d1_0000, false, 1), // ldrb r0, [r1]
    (0xe1d1_00b0, false, 2), // ldrh r0, [r1]
    (0xe1c1_20d0, false, 8), // ldrd r2, r3, [r1]
    (0xe891_000c, false, 4), // ldmia r1, {r2, r3}
    (0xe191_0f9f, false, 4), // ldrex r0, [r1]
    (0xe4b1_0000, false, 4), // ldrt r0, [r1]
    (0xe4f1_0000, false, 1), // ldrbt r0, [r1]
    (0xe0f1_00b0, false, 2), // ldrht r0, [r1]
    (0xed91_0a00, false, 4), // vldr s0, [r1]
    (0xe581_0000, true, 4),  // str r0, [r1]
    (0xe5c1_0000, true, 1),  // strb r0, [r1]
    (0xe881_000c, true, 4),  // stmia r1, {r2, r3}
    (0xe4a1_0000, true, 4),  // strt r0, [r1]
    (0xe4e1_0000, true, 1),  // strbt r0, [r1]
    (0xe0e1_00b0, true, 2),  // strht r0, [r1]
    (0xed81_0a00, true, 4),  // vstr s0, [r1]
];
const LOAD: u32 = WAYS[0].0;
const STORE: u32 = WAYS[10].0;

/// Runs a case under the fuzzer's tables and vectors, and puts back the run time's.
fn within(machine: &Machine, what: fn() -> Outcome) -> Outcome {
    check!(mmu::is_short(), "needs short descriptors");
    let this = read_sysreg!("tpidr_el1");
    let [table, domains, asid] = [
        read_sysreg!("ttbr0_32"),
        read_sysreg!("dacr32_el2"),
        read_sysreg!("contextidr_el1"),
    ];
    space::install(machine.memory());
    space::own_registers(trip::vectors(), this);
    let outcome = what();
    for megabyte in WINDOWS.chain(FREE..FREE + 2) {
        at(megabyte).store(0, Relaxed);
    }
    write_sysreg!("contextidr_el1", asid);
    write_sysreg!("ttbr0_32", table);
    write_sysreg!("dacr32_el2", domains);
    space::flush();
    space::own_registers(vectors::address(), this);
    outcome
}

fn at(megabyte: u32) -> &'static core::sync::atomic::AtomicU32 {
    ROOT.at(megabyte << 20)
}

/// Megabytes of the guest's in which nothing is.
const FREE: u32 = 0xa00;

/// Runs the instruction that was put last, with `address` in R1.
fn attempt(address: u32, user: bool) -> (Start, &'static End) {
    let mut start = Start::NOWHERE;
    for (number, x) in (1..).zip(&mut start.x) {
        *x = number * 0x0101_0101;
    }
    start.x[1] = address;
    (start.pc, start.pstate) = if user {
        (USER_CODE, USER_MASKED)
    } else {
        (CODE.address() as u32, MASKED)
    };
    // SAFETY: the cases reach what they have mapped, or nothing.
    let end = unsafe { trip::travel(&start) };
    (start, end)
}

/// Jumps to `address`.
fn jump(address: u32, user: bool) -> (Start, &'static End) {
    let mut start = Start::NOWHERE;
    start.pc = address;
    start.pstate = if user { USER_MASKED } else { MASKED };
    // SAFETY: the cases jump to two instructions of theirs, or to where there is none.
    let end = unsafe { trip::travel(&start) };
    (start, end)
}

/// The try was refused with this status, and nothing has changed by it.
fn refused((start, end): (Start, &End), status: u32, address: u32, what: u32) -> Outcome {
    let right = end.is_abort() && end.status() == status && end.fault_address() == address;
    check!(
        right && start.x == end.x,
        "{what:#x} at {address:#x}, user {}: {end:?}",
        end.was_user()
    );
    Ok(())
}

/// No address of those at which the hypervisor may be is there for the guest, by any instruction, of the kernel's or of
/// programs'. In the megabyte that it prefers every word of the first pages is tried; that is where its code, its records and
/// the virtual CPUs' pages are.
fn window() -> Outcome {
    const PAGES: u32 = 8;
    for megabyte in WINDOWS {
        check_eq!(at(megabyte).load(Relaxed), 0, "{megabyte:#x} is mapped");
    }
    crate::arch::fp::enable(true);
    for (word, _, unit) in WAYS.into_iter() {
        code::put([word]);
        for user in [false, true] {
            // Every word by LDR, others at distances that meet each offset in some page.
            let step = match word {
                LOAD => 4,
                STORE => 4 * 5,
                _ => 4 * 61,
            };
            for offset in (0..PAGES << 12).step_by(step) {
                let address = (PREFERRED << 20) + (offset & !(unit - 1).max(3));
                refused(attempt(address, user), SECTION_TRANSLATION, address, word)?;
            }
            for address in (WINDOWS.start << 20..WINDOWS.end << 20).step_by(0x4_3104) {
                let address = address & !7;
                refused(attempt(address, user), SECTION_TRANSLATION, address, word)?;
            }
        }
    }
    for user in [false, true] {
        for offset in (0..PAGES << 12).step_by(4 * 7) {
            let address = (PREFERRED << 20) + offset;
            refused(jump(address, user), SECTION_TRANSLATION, address, 0)?;
        }
    }
    Ok(())
}

/// The guest maps all of these megabytes but one, whichever that is, and finds its own memory there.
fn window_moves() -> Outcome {
    let frame = DATA.address() as u32;
    let section = frame & 0xfff0_0000 | SECTION | 1 << 11 | SECTION_NORMAL | SECTION_NEVER;
    let within = frame & 0xf_ffff;
    for spared in WINDOWS {
        for megabyte in WINDOWS {
            at(megabyte).store(if megabyte == spared { 0 } else { section }, Relaxed);
        }
        space::flush();
        for megabyte in WINDOWS {
            let address = (megabyte << 20) + within + 8 * (megabyte - WINDOWS.start);
            let place = &DATA.0[(megabyte - WINDOWS.start) as usize];
            place.store(u64::from(megabyte * spared), Relaxed);
            for user in [false, true] {
                code::put([LOAD]);
                let done = attempt(address, user);
                if megabyte == spared {
                    refused(done, SECTION_TRANSLATION, address, LOAD)?;
                    continue;
                }
                check!(done.1.arrived(), "load at {address:#x}: {:?}", done.1);
                check_eq!(done.1.x[0], megabyte * spared, "at {address:#x}");
                code::put([STORE]);
                let (start, end) = attempt(address, user);
                check!(end.arrived(), "store at {address:#x}: {end:?}");
                check_eq!(
                    place.load(Relaxed) as u32,
                    start.x[0],
                    "stored at {address:#x}"
                );
                place.store(u64::from(megabyte * spared), Relaxed);
            }
        }
    }
    Ok(())
}

/// The guest maps all of these megabytes, and reaches for each: a hypervisor in the same address space has no room.
fn nowhere() -> Outcome {
    let section = DATA.address() as u32 & 0xfff0_0000 | SECTION | SECTION_NORMAL | SECTION_NEVER;
    WINDOWS.for_each(|megabyte| at(megabyte).store(section, Relaxed));
    space::flush();
    code::put([LOAD]);
    for megabyte in WINDOWS {
        let (_, end) = attempt(megabyte << 20, false);
        check!(end.arrived(), "{megabyte:#x}: {end:?}");
    }
    Ok(())
}

/// What the kernel alone may reach no program reaches, nor does the kernel in its name, also right after the kernel was
/// there itself; and what the kernel may only read it does not write.
fn kernel() -> Outcome {
    let secret = SCRATCH.middle() as u32;
    crate::arch::fp::enable(true);
    for (word, _, _) in WAYS.into_iter() {
        // LDRT, STRT and their kind; of halfwords and signed bytes.
        let as_user = word & 0xff20_0000 == 0xe420_0000 || word & 0xffe0_0000 == 0xe0e0_0000;
        for user in [false, true] {
            code::put([word]);
            let done = attempt(secret, user);
            if user || as_user {
                refused(done, SECTION_PERMISSION, secret, word)?;
            } else {
                check!(done.1.arrived(), "{word:#x} of the kernel's: {:?}", done.1);
            }
        }
    }
    // Code of the kernel's.
    let address = CODE.address() as u32;
    refused(jump(address, true), SECTION_PERMISSION, address, 0)?;
    // A page of programs' that nobody may write, neither as a program nor in its name, nor by the kernel.
    for (word, stores, _) in WAYS.into_iter() {
        for user in [false, true] {
            code::put([word]);
            let done = attempt(USER_CODE + 0x800, user);
            if stores {
                refused(done, PAGE_PERMISSION, USER_CODE + 0x800, word)?;
            } else {
                check!(done.1.arrived(), "{word:#x}, user {user}: {:?}", done.1);
            }
        }
    }
    Ok(())
}

static STALE: Pages = Pages::new();

/// The forms of TLB maintenance after which a right that was taken away is gone, by number: of all, of an ASID, of a page, of
/// a page in all ASIDs, each in the forms that [`tlb`] has.
const MAINTENANCE: usize = 11;

fn maintain(number: usize, address: u32, asid: u32) {
    tlb::barrier();
    match number {
        0..=2 => tlb::all_by(number),
        3..=5 => tlb::asid_by(number - 3, asid),
        6..=8 => tlb::page_by(number - 6, address | asid),
        _ => tlb::page_of_all_by(number - 9, address),
    }
    tlb::barrier();
}

/// A right that the guest took away, by whatever maintenance, is gone for programs, for the kernel in their name, and for the
/// kernel; and one address space's page is not found in another.
fn stale() -> Outcome {
    /// Small pages of normal memory that are not global, for programs and the kernel, and for the kernel alone.
    const NORMAL: u32 = 1 << 11 | 1 << 10 | 1 << 6 | 1 << 3 | 1 << 2 | 2;
    const FOR_ALL: u32 = NORMAL | 3 << 4;
    const FOR_KERNEL: u32 = NORMAL | 1 << 4;
    const READ_ONLY: u32 = NORMAL | 1 << 9 | 3 << 4;
    let address = FREE << 20;
    let frame = |page: &'static crate::fuzz::memory::Words| page.address() as u32;
    at(FREE).store(STALE.address() as u32 | TABLE, Relaxed);
    // An end of a trip, where code is.
    for (number, number_of_asid) in (0..MAINTENANCE).flat_map(|n| [1, 7, 200].map(|asid| (n, asid)))
    {
        write_sysreg!("contextidr_el1", u64::from(number_of_asid));
        let set = |descriptor: u32| {
            STALE.0[0].store(descriptor, Relaxed);
            maintain(number, address, number_of_asid);
        };
        let tried = |word: u32, user: bool, status: Option<u32>| {
            code::put([word]);
            let done = attempt(address, user);
            match status {
                Some(status) => refused(done, status, address, word),
                None => {
                    check!(
                        done.1.arrived(),
                        "{word:#x}, maintenance {number}: {:?}",
                        done.1
                    );
                    Ok(())
                }
            }
        };
        let ldrt = WAYS[6].0;
        let strt = WAYS[13].0;
        set(frame(&DATA) | FOR_ALL);
        for user in [true, false] {
            tried(LOAD, user, None)?;
            tried(STORE, user, None)?;
        }
        tried(strt, false, None)?;
        set(frame(&DATA) | FOR_KERNEL);
        for word in [LOAD, STORE] {
            tried(word, false, None)?;
            tried(word, true, Some(PAGE_PERMISSION))?;
        }
        tried(ldrt, false, Some(PAGE_PERMISSION))?;
        tried(strt, false, Some(PAGE_PERMISSION))?;
        refused(jump(address, true), PAGE_PERMISSION, address, 0)?;
        set(frame(&DATA) | FOR_ALL);
        tried(STORE, true, None)?;
        tried(STORE, false, None)?;
        set(frame(&DATA) | READ_ONLY);
        tried(LOAD, true, None)?;
        for user in [true, false] {
            tried(STORE, user, Some(PAGE_PERMISSION))?;
        }
        tried(strt, false, Some(PAGE_PERMISSION))?;
        // Another frame: what is loaded is that one's.
        set(frame(&ZEROS) | READ_ONLY);
        code::put([LOAD]);
        let (_, end) = attempt(address, true);
        check_eq!(
            end.x[0],
            ZEROS.0[0].load(Relaxed) as u32,
            "maintenance {number}"
        );
        set(0);
        for user in [true, false] {
            tried(LOAD, user, Some(PAGE_TRANSLATION))?;
        }
        other_asid(address, frame(&DATA) | READ_ONLY, frame(&ZEROS) | READ_ONLY)?;
        STALE.0[0].store(0, Relaxed);
        space::flush();
    }
    Ok(())
}

const PAGE_TRANSLATION: u32 = 0x07;

/// A page that is not global is its ASID's: with another ASID another descriptor counts, without maintenance.
fn other_asid(address: u32, one: u32, other: u32) -> Outcome {
    code::put([LOAD]);
    let expected = [
        DATA.0[0].load(Relaxed) as u32,
        ZEROS.0[0].load(Relaxed) as u32,
    ];
    for round in 0..4 {
        let number = round % 2;
        // First each descriptor is met once, then the tables say the other one's: the TLB may know, and need not.
        write_sysreg!("contextidr_el1", 0x40 + number as u64);
        STALE.0[0].store([one, other][number], Relaxed);
        tlb::barrier();
        let (_, end) = attempt(address, true);
        check!(end.arrived(), "ASID {number}: {end:?}");
        check_eq!(end.x[0], expected[number], "ASID {number}");
    }
    Ok(())
}

/// The numbers of UDF that may stand for an instruction of the kernel's in the kernel (docs/differences.md).
const KERNELS: core::ops::Range<u32> = 0xa000..0xc000;

/// Words that a hypervisor may put in the place of instructions, written by the guest itself: in programs UDF and SVC with any
/// number are what they are on any CPU; in the kernel, too, but for the numbers of [`KERNELS`], by which a program
/// gets no more than it has.
fn traps() -> Outcome {
    let undefined = |number: u32| 0xe7f0_00f0 | (number & 0xfff0) << 4 | number & 0xf;
    let numbers = (0..0x1_0000)
        .filter(|number| number % 97 == 0 || KERNELS.contains(number) && number % 5 == 0);
    for number in numbers {
        for user in [false, true] {
            if !user && KERNELS.contains(&number) {
                continue;
            }
            code::put([undefined(number)]);
            let (start, end) = attempt(SCRATCH.middle() as u32, user);
            let right = end.kind() == Kind::Synchronous(UNDEFINED) && end.pc() == start.pc;
            // It may be the kernel's instruction, but with a program's rights.
            let own = KERNELS.contains(&number) && user && end.was_user();
            check!(
                own || right && start.x == end.x,
                "UDF {number:#x}, user {user}: {end:?}"
            );
        }
    }
    for number in (0..0x100_0000).step_by(0x7fed) {
        for user in [false, true] {
            code::put([0xef00_0000 | number]);
            let (start, end) = attempt(SCRATCH.middle() as u32, user);
            let right = end.kind() == Kind::Synchronous(SVC_CLASS) && end.pc() == start.pc;
            check!(
                right && start.x == end.x,
                "SVC {number:#x}, user {user}: {end:?}"
            );
        }
    }
    Ok(())
}

/// A program stays one: whatever it does to its mode has no effect, or is undefined; and so is what it does to system
/// registers.
fn modes() -> Outcome {
    /// What has no effect in User mode (DDI 0406C, B9.3).
    const NOTHING: [u32; 6] = [
        0xf102_0013, // cps #0x13
        0xf10e_01c0, // cpsid aif, and a mode of 0
        0xf108_00c0, // cpsie if
        0xe321_f01f, // msr cpsr_c, #0x1f
        0xe321_f0d3, // msr cpsr_c, #0xd3
        0xe121_f000, // msr cpsr_c, r0
    ];
    /// What is undefined there.
    const REFUSED: [u32; 12] = [
        0xee01_0f10, // SCTLR
        0xee02_0f10, // TTBR0
        0xee12_0f10, // ... read
        0xee03_0f10, // DACR
        0xee08_0f17, // TLBIALL
        0xee0c_0f10, // VBAR
        0xee0d_0f30, // CONTEXTIDR
        0xee0d_0f70, // TPIDRURO
        0xee1d_0f90, // TPIDRPRW
        0xee07_1f3a, // DCCMVAC
        0xe140_0070, // HVC
        0xe160_0070, // SMC
    ];
    for word in NOTHING {
        code::put([word]);
        let (start, end) = attempt(USER_CODE, true);
        let state = end.pstate & 0x1ff;
        check!(
            end.arrived() && start.x == end.x && state == start.pstate & 0x1ff,
            "{word:#x}: {end:?}"
        );
    }
    for word in REFUSED {
        code::put([word]);
        let (start, end) = attempt(USER_CODE, true);
        let right = end.kind() == Kind::Synchronous(UNDEFINED) && end.pc() == start.pc;
        check!(
            right && start.x == end.x && end.was_user(),
            "{word:#x}: {end:?}"
        );
    }
    Ok(())
}
