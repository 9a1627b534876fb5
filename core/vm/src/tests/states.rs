//! What a backend asks of a VM before it lets a vCPU run, in every state that there is, and what a
//! person is told of it.

use crate::fake::{FIRST_CPU, Fixture, config};
use crate::{
    Attempt, Cause, Counted, Ending, Entry, PauseChange, Requests, State, StopReason, Vcpu, Vm,
    Wish,
};
use hanok_types::{CpuId, GicVersion, VcpuId, VmId, platform};
use std::vec::Vec;

use super::requests::{private, put, running, sgi};

const NUMBER: VmId = VmId::new(5);
const VCPUS: [VcpuId; 2] = [VcpuId::new(0), VcpuId::new(1)];

/// How far a VM is in its lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Loading,
    Running,
    Ending,
    Over,
}
use Phase::{Loading, Over, Running, Waiting};
const PHASES: [Phase; 5] = [Waiting, Loading, Running, Phase::Ending, Over];

/// A VM in this state; in one that ends, a vCPU still is.
fn vm_in(phase: Phase) -> Vm {
    let vm = crate::fake::vm(NUMBER, config(2), GicVersion::V3, &|_| 0);
    let lifecycle = vm.lifecycle();
    if phase != Waiting {
        assert!(lifecycle.begin().is_made());
    }
    if !matches!(phase, Waiting | Loading) {
        assert!(vm.begin().is_made());
    }
    if matches!(phase, Phase::Ending | Over) {
        assert!(lifecycle.enter().is_made());
        assert_eq!(lifecycle.begin_end(Ending::Off), Wish::Taken);
    }
    if phase == Over {
        assert_eq!(lifecycle.leave(), (0, Some(Ending::Off)));
        vm.end();
    }
    vm
}

/// A vCPU's power: 0 off, 1 a start was asked for, 2 on.
fn set_power(vm: &Vm, vcpu: VcpuId, power: u32) {
    let entry = Entry { pc: 0, argument: 0 };
    vm.power(vcpu).turn_off();
    if power > 0 {
        vm.power(vcpu).start(entry).unwrap();
    }
    if power > 1 {
        vm.power(vcpu).take_start().unwrap();
    }
}

/// The requests to a vCPU: the first three do not matter for one that is off, or has work anyway.
const ASK: [fn(&Requests); 6] = [
    |requests| _ = requests.ask_interrupts(),
    |requests| _ = requests.ask_timers(),
    |requests| requests.set_quiet(true),
    Requests::ask_dump,
    Requests::ask_attention,
    Requests::ask_look,
];

/// Nothing is asked of it any more.
fn answer_all(requests: &Requests) {
    requests.take_interrupts();
    requests.take_timers();
    requests.set_quiet(false);
    requests.take_dump();
    requests.take_attention();
    requests.take_look();
    assert!(!requests.any());
}

#[test]
fn who_may_run_who_keeps_on_and_who_is_left_alone() {
    let machine = Fixture::new(1).machine;
    for phase in PHASES {
        let vm = vm_in(phase);
        for (power, paused) in (0..3).flat_map(|power| [(power, false), (power, true)]) {
            let _ = vm.set_paused(&machine, paused);
            for vcpu in VCPUS {
                set_power(&vm, vcpu, power);
                for set in 0..1_u32 << ASK.len() {
                    let requests = vm.requests(vcpu);
                    answer_all(requests);
                    let wanted = ASK.iter().enumerate().filter(|(n, _)| set >> n & 1 != 0);
                    wanted.for_each(|(_, ask)| ask(requests));
                    let others = set >> 3 != 0;
                    let on = phase == Running && power == 2 && !paused;
                    // The VM's memory is the first vCPU's work.
                    let loads = phase == Loading && vcpu == VCPUS[0];
                    let found = [vm.may_run(vcpu), vm.keeps_on(vcpu), vm.is_left_alone(vcpu)];
                    let wanted = [
                        on && set == 0,
                        on && !others,
                        power == 0 && !others && !loads,
                    ];
                    let what = (phase, power, paused, vcpu, set);
                    assert_eq!(found, wanted, "{what:?}");
                }
            }
        }
    }
}

#[test]
fn a_state_is_told_in_a_word() {
    let machine = Fixture::new(1).machine;
    for phase in PHASES {
        for paused in [false, true] {
            let vm = vm_in(phase);
            let _ = vm.set_paused(&machine, paused);
            let (begun, over) = (phase != Waiting, matches!(phase, Waiting | Over));
            let lifecycle = vm.lifecycle();
            let found = [
                lifecycle.is_loading(),
                lifecycle.is_running(),
                lifecycle.is_ended(),
            ];
            assert_eq!(found, [phase == Loading, phase == Running, over]);
            assert_eq!((lifecycle.number(), vm.id()), (begun.into(), NUMBER));
            let wanted = match phase {
                Waiting => State::Waiting,
                Loading => State::Loading,
                Running if paused => State::Paused,
                Running => State::Running,
                Phase::Ending => State::Ending,
                Over => State::Off,
            };
            assert_eq!(vm.state(), wanted, "{phase:?} {paused}");
            // What it did is told once it is over.
            vm.set_stop_reason(StopReason::AllOff);
            let wanted = if over { State::Stopped } else { wanted };
            assert_eq!(vm.state(), wanted, "{phase:?} {paused}, with a reason");
        }
    }
}

#[test]
fn a_pause_or_resume_is_requested_once() {
    let vm = Fixture::new(3);
    for (paused, changes) in [
        (false, false),
        (true, true),
        (true, false),
        (false, true),
        (false, false),
    ] {
        let changed = vm.vm.set_paused(&vm.machine, paused) == PauseChange::Changed;
        assert_eq!(changed, changes);
        assert_eq!(vm.vm.is_paused(), paused);
        let told: &[usize] = if changes { &[0, 1, 2] } else { &[] };
        assert_eq!(vm.machine.kicked(), told);
        for n in 0..3 {
            let requests = vm.vm.requests(VcpuId::new(n));
            assert_eq!(requests.take_attention(), changes, "vCPU {n}");
        }
    }
}

/// Its memory is made by the first vCPU's pCPU, which so has to be woken, whoever restarts it.
#[test]
fn a_restart_wakes_the_first_vcpu() {
    let vm = Fixture::new(2);
    for phase in PHASES {
        let restarted = vm_in(phase);
        let loads = matches!(phase, Waiting | Running | Over);
        let wish = restarted.restart(&vm.machine);
        assert_eq!(
            restarted.lifecycle().is_loading(),
            loads || phase == Loading
        );
        let kicked = vm.machine.kicked();
        assert_eq!(kicked.contains(&0), wish != Wish::Refused, "{phase:?}");
        let wanted = match phase {
            Loading => Wish::Refused,
            // Somebody is in it, who carries it out.
            Phase::Ending => Wish::Taken,
            _ => Wish::Deserted,
        };
        assert_eq!(wish, wanted, "{phase:?}");
    }
    vm.vm.kick_first(&vm.machine);
    assert_eq!(vm.machine.kicks.take(), [CpuId::new(FIRST_CPU)]);
}

/// MPIDR_EL1 (DDI 0487, D24.2): RES1 at bit 31, affinity level 0 alone, and neither a single
/// processor (U) nor one of several threads of a core (MT).
#[test]
fn a_vcpu_s_affinity_is_its_number() {
    for (n, mpidr) in (0..8).zip(0x8000_0000_u64..) {
        assert_eq!(Vcpu::new(VcpuId::new(n)).mpidr(), mpidr);
        let vm = Fixture::new(8).vm;
        assert_eq!(vm.vcpu_with_affinity(n.into()), Some(VcpuId::new(n)));
    }
}

#[test]
fn each_count_that_is_not_zero_is_shown() {
    let vm = Fixture::new(3).vm;
    let counts = [
        (0, Cause::Hypercall, 1, 700),
        (0, Cause::Unexpected, 2, 0),
        (2, Cause::Wait, 3, 9),
        (2, Cause::Timer, 1 << 20, 1 << 40),
    ];
    for (vcpu, cause, exits, instructions) in counts {
        vm.account(VcpuId::new(vcpu)).comes(0);
        let counters = vm.counters(VcpuId::new(vcpu));
        (0..exits).for_each(|_| counters.count(cause));
        counters.charge(cause, instructions);
    }
    let mut passed = 0;
    let next = core::iter::from_fn(|| {
        let (looked_at, counted) = vm.next_count(passed)?;
        passed = looked_at;
        Some(counted)
    });
    let words = |one: Counted| {
        let vcpu = one.vcpu.index() as u8;
        (vcpu, one.cause, one.exits, one.instructions)
    };
    let shown: Vec<_> = next.map(words).collect();
    assert_eq!(shown, counts);
}

#[test]
fn counts_of_a_vcpu_that_ran_are_found_behind_those_of_others() {
    let vm = Fixture::new(64).vm;
    assert!(vm.next_count(0).is_none());
    // It came in, and its only count is its last one.
    let last = VcpuId::new(63);
    vm.account(last).ran(1, false);
    vm.counters(last).count(Cause::ALL[Cause::COUNT - 1]);
    for passed in [0, 1, 63 * Cause::COUNT, 64 * Cause::COUNT - 1] {
        let (looked_at, counted) = vm.next_count(passed).unwrap();
        assert_eq!((looked_at, counted.vcpu), (64 * Cause::COUNT, last));
    }
    assert!(vm.next_count(64 * Cause::COUNT).is_none());
}

#[test]
fn a_vcpu_s_interrupts_are_its_own_and_the_lowest_ones() {
    const GICD: u64 = platform::GIC_DIST.get();
    let mut vm = running(2);
    let pending = |vm: &Fixture, n| -> Vec<u32> {
        let all = vm.vm.pending_interrupts(VcpuId::new(n));
        assert!(all.iter().all(|one| one.vcpu == Some(VcpuId::new(n))));
        all.iter().map(|one| one.id.get()).collect()
    };
    assert_eq!(
        (pending(&vm, 0), pending(&vm, 1)),
        (std::vec![], std::vec![])
    );
    // One that is on its way still, one that is not enabled, and an SPI of the first vCPU's.
    sgi(&mut vm, 0, 5 << 24 | 0b10);
    let posted = vm.vm.post_group1_sgi(&vm.machine, VCPUS[0], 6 << 24 | 0b10);
    assert_eq!(posted, Attempt::Done);
    sgi(&mut vm, 1, 7 << 24 | 0b01);
    put(&mut vm, 0, private(1, 0x180), 1 << 9);
    sgi(&mut vm, 0, 9 << 24 | 0b10);
    put(&mut vm, 1, GICD + 0x204, 1 << 8);
    assert_eq!(pending(&vm, 0), [7, 40]);
    assert_eq!(pending(&vm, 1), [5, 6, 9]);
    put(&mut vm, 1, GICD + 0x204, u32::MAX);
    put(&mut vm, 1, GICD + 0x208, u32::MAX);
    let shown: Vec<_> = [7].into_iter().chain(32..63).collect();
    assert_eq!(pending(&vm, 0), shown, "as many as are shown");
}
