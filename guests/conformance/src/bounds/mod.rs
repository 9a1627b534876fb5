//! Measures what makes the hypervisor work longest in one exit.

mod budgets;
mod many;
mod mess;
mod places;
mod together;

use crate::arch::{access, fp};
use crate::cases::schedule;
use crate::machine::Machine;
use crate::sleep::sleep_until;
use crate::{boot, fuzz, gic, marker, mmu, psci, smp, sweep};
use mess::Mess;
use places::RegisterPlace;

/// One kind of value that is written to every register.
const VALUES: [u64; 12] = [
    u64::MAX,
    0,
    0x5555_5555_5555_5555,
    0xaaaa_aaaa_aaaa_aaaa,
    0x0101_0101_0101_0101,
    0x8080_8080_8080_8080,
    // GICD_SGIR: SGI 15 to all CPUs, and to all others.
    0x00ff_000f_00ff_000f,
    0x0100_000f_0100_000f,
    // GICD_IROUTER: to any CPU.
    0x8000_0000,
    // The values of GICR_WAKER's sleep bit and of GICD_CTLR's group bits.
    2,
    3,
    1,
];

/// How long `lives` runs.
const LIVES_MS: u64 = 200;

/// What the boot arguments ask for.
pub fn run(machine: &Machine, part: Option<&str>) {
    mmu::map_everything(machine.memory());
    // Each of the other CPUs has been on, and has enabled its CPU interface.
    for index in 1..machine.cpus {
        if smp::start(index, |_| ()) != psci::SUCCESS || !smp::wait_off(index) {
            println!("FAIL bounds: CPU {index} does not come on and go off");
        }
    }
    match part {
        Some("together") => together::run(machine),
        Some("fuzz") => fuzzed(machine),
        Some("lives") => lives(),
        Some("many") => many::run(machine),
        Some("absent") => many::absent(machine),
        Some("prompt") => prompt(),
        Some("budgets") => budgets::run(machine),
        Some("report") => budgets::report(),
        _ => registers(machine),
    }
    println!("bounds: done");
}

/// A run of the fuzzer: its console output is counted too. The fuzzer prints the marker at its end.
fn fuzzed(machine: &Machine) -> ! {
    let options = fuzz::Options {
        steps: 12_000,
        ..fuzz::Options::new(|_| None)
    };
    println!("bounds: row everything, by chance");
    marker::begin();
    fuzz::run(machine, &options)
}

/// Waits while a neighbour on the same core is reset several times: the end of its life, its
/// memory's zeroing, its start.
fn lives() {
    row(format_args!("a neighbour's lives"), || {
        sleep_until(LIVES_MS, || false);
    });
}

/// Waits for a key, while a person uses the prompt.
fn prompt() {
    row(format_args!("the prompt"), || {
        while !sweep::key_came() {
            sleep_until(1, || false);
        }
    });
}

fn registers(machine: &Machine) {
    fp::enable(true);
    for mess in mess::ALL {
        mess.make(machine);
        for place in places::interrupts(machine) {
            row(format_args!("{}, {place}", mess.name()), || {
                touch(&place, Some(mess));
            });
            if place.spoils {
                mess.make(machine);
            }
        }
        sent(machine, mess);
    }
    Mess::Nothing.make(machine);
    for place in places::others(machine) {
        row(format_args!("{place}"), || touch(&place, None));
    }
    Mess::AtMe.make(machine);
    calls(machine);
    Mess::Nothing.make(machine);
}

/// Prints one row: its name, then the measured counts.
fn row(name: core::fmt::Arguments<'_>, what: impl FnOnce()) {
    println!("bounds: row {name}");
    marker::begin();
    what();
    marker::end();
}

/// Writes every value in every width to one register, in one state, which is restored each time.
fn touch(place: &RegisterPlace, mess: Option<Mess>) {
    for width in access::ALL_WIDTHS {
        for value in VALUES {
            if let Some(mess) = mess {
                mess.mend(place.offset);
            }
            // SAFETY: a device's register, whatever comes of it; memory is none of these places.
            unsafe {
                let _ = access::store(mmu::everywhere(place.address()), *width, value);
                let _ = access::load(mmu::everywhere(place.address()), *width);
            }
        }
    }
}

/// Sends software generated interrupts by the CPU's own registers, which a GICv3 has.
fn sent(machine: &Machine, mess: Mess) {
    if machine.gic != hanok_types::GicVersion::V3 {
        return;
    }
    row(
        format_args!("{}, ICC_SGI0R to ICC_ASGI1R", mess.name()),
        || {
            for (id, to) in (0..16).flat_map(|id| [1 << 40, 0xff, 0x7f, 0x80, 1].map(|to| (id, to)))
            {
                mess.mend(0);
                let value = id << 24 | to;
                write_sysreg!("icc_sgi1r_el1", value);
                write_sysreg!("icc_sgi0r_el1", value);
                write_sysreg!("icc_asgi1r_el1", value);
            }
        },
    );
}

/// Makes every known call and many unknown ones, but none that ends the guest or makes it wait for
/// ever.
fn calls(machine: &Machine) {
    const ARGUMENTS: [u64; 6] = [0, 1, 64, 192, u64::MAX, 0x4000_0000];
    let functions = (0..0x20)
        .flat_map(|number| [0x8400_0000 + number, 0xc400_0000 + number])
        .chain((0x50..0x54).flat_map(|number| [0x8400_0000 + number, 0xc400_0000 + number]))
        .chain([
            0x8000_0000,
            0x8000_0001,
            0x8000_0002,
            0x8000_3fff,
            0x8000_7fff,
            0x8000_8000,
        ])
        .chain([
            0x8600_ff01,
            0xc600_ff01,
            0xc600_0000,
            0xc600_0001,
            0x8600_0000,
            0,
            u64::MAX,
        ]);
    // CPU_OFF, SYSTEM_OFF, SYSTEM_RESET and SYSTEM_RESET2.
    let ends = |function: u64| {
        matches!(
            function as u32 & !(1 << 30),
            0x8400_0002 | 0x8400_0008..=0x8400_0009 | 0x8400_0012
        )
    };
    for function in functions.filter(|function| !ends(*function)) {
        row(format_args!("call {function:#x}"), || {
            for first in ARGUMENTS {
                // These calls start no CPU: the first one is on, and no other CPU has such a
                // number.
                let target = if first == 1 { 0 } else { first };
                psci::call(function, target, boot::secondary_address(), first);
                psci::call(function, target, !0, !0);
            }
        });
    }
    for way in schedule::WAYS {
        for function in 0xc600_0010..0xc600_0017 {
            row(format_args!("{way:?} {function:#x}"), || {
                for first in (0..11).chain(ARGUMENTS).chain([1_000_000]) {
                    way.call(function, [first, first / 2, 0]);
                }
            });
        }
    }
    for index in 1..machine.cpus {
        row(format_args!("CPU_ON and CPU_OFF of {index}"), || {
            smp::start(index, |_| ());
            psci::affinity_info(index as u64);
            if !smp::wait_off(index) {
                println!("FAIL bounds: CPU {index} does not go off");
            }
        });
    }
    gic::init_cpu(0);
}
