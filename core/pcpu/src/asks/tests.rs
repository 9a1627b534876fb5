//! Questions of guests, on a machine that exists on the PC alone.

use super::*;
use crate::begin_all;
use crate::fake::{FakeBoard, FakePromise};
use crate::sleep::tests::settings;
use hanok_config::Ask;
use hanok_types::GicVersion;
use std::vec;

#[test]
fn times_are_converted_to_the_tick() {
    let megahertz = 62_500_000;
    let found = interface([1_000_000, 500_000, 0], megahertz);
    assert_eq!(found, Interface::periodic(62_500, 31_250).ok());
    let hour = interface([MAX_PERIOD, 1, 0], megahertz).unwrap();
    assert_eq!(hour.period(), 3_600 * megahertz);
    for wrong in [
        [MAX_PERIOD + 1, 1, 0],
        [0, 0, 0],
        [1_000_000, 0, 0],
        [1_000_000, 1_000_001, 0],
        [1_000_000, 5, 2_000_000],
        [u64::MAX, 1_000, 0],
        [u64::MAX, u64::MAX, u64::MAX],
        [15, 1, 0],
        [1_000_000, 1_000_000, 999_999],
    ] {
        assert_eq!(interface(wrong, megahertz), None, "{wrong:?}");
    }
}

/// Two VMs that may ask for half of a CPU, which they have a third and a fifth of. A tick is a microsecond.
fn board() -> FakeBoard {
    let promise = |vm, budget| FakePromise {
        cpu: 0,
        vm,
        period: 10_000,
        budget,
    };
    let promises = [promise(0, 3_000), promise(1, 2_000)];
    let vms = [vec![0], vec![0]];
    let fake = FakeBoard::with_promises(settings(), &vms, GicVersion::V2, &promises);
    begin_all(fake.board);
    for vcpu in fake.pcpus[0].vcpus() {
        let (vm, id) = (&vcpu.unit.vm, vcpu.core.id);
        let ask = Ask {
            limit: 32_768,
            shortest: 1_000_000,
        };
        vm.set_granted(
            id,
            Granted {
                ask,
                ..vm.granted(id)
            },
        );
    }
    fake
}

/// A call by a VM's vCPU, which asks for this budget in each 10 ms.
fn call(fake: &mut FakeBoard, vm: usize, budget: u64) -> (i32, u64) {
    let crate::Pcpu { local, vcpus, .. } = &mut fake.pcpus[0];
    let mut all = vcpus.iter_mut().flatten();
    let vcpu = all.find(|vcpu| vcpu.unit.vm.id().index() == vm).unwrap();
    let call = [schedule::ASK.into(), 10_000_000, budget, 0];
    vcpu.context.regs.x[..4].copy_from_slice(&call);
    assert!(!vcpu.schedule_call(local));
    let [answer, low, high, ..] = vcpu.context.regs.x;
    (answer as i64 as i32, low | high << 32)
}

/// Who asks for a budget that is over before its guest has executed anything could never ask again: it keeps what it has.
#[test]
fn nobody_asks_for_too_little_to_ask_again() {
    let mut fake = board();
    for budget in [1, LEAST_BUDGET - 1] {
        assert_eq!(
            call(&mut fake, 0, budget),
            (status::REFUSED, refusal::HOPELESS.into())
        );
    }
    assert_eq!(call(&mut fake, 0, LEAST_BUDGET).0, status::PENDING);
}

/// A guest that rests for long between the pieces of a question, and begins the next one with the answer, always
/// has one under way. Its neighbour has an answer all the same, in an eighth of a second, a second, and its own question.
#[test]
fn who_always_asks_keeps_no_neighbour_from_an_answer() {
    let mut fake = board();
    let (mut budget, mut rests_until, mut asks_from, mut waits) = (3_000_000, 0, 0, 0);
    let mut answers = [0; 2];
    for now in 0..20_000 {
        fake.board.machine.advance(1_000);
        fake.pcpus[0].schedule();
        if now >= rests_until {
            let mut answer = call(&mut fake, 0, budget).0;
            if answer == status::DONE {
                (answers[0], budget) = (answers[0] + 1, budget ^ 4_096);
                answer = call(&mut fake, 0, budget).0;
            }
            if answer == status::PENDING {
                rests_until = now + 60;
            }
        }
        waits += 1;
        assert!(
            waits < 1_250,
            "{now} ms: no answer for {waits} ms; {answers:?}"
        );
        if now >= asks_from {
            match call(&mut fake, 1, 2_000_000 + 1_000 * (now & 64)) {
                (status::PENDING, _) => {}
                (status::LATER, nanos) => {
                    assert!(nanos <= 20_000_000, "{nanos}");
                    asks_from = now + nanos.div_ceil(1_000_000);
                }
                (answer, _) => {
                    assert_eq!(answer, status::DONE);
                    (answers[1], waits) = (answers[1] + 1, 0);
                }
            }
        }
    }
    assert!(answers[0] > 10 && answers[1] > 10, "{answers:?}");
}
