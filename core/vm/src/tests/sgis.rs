//! SGIs by a GICv2's GICD_SGIR: the fast path, by posted SGIs, and the slow path, which all others take.

use super::requests::{get, private, put, running, settle, sgi, show_posted};
use super::store;
use crate::fake::Fixture;
use crate::{Action, Attempt, PostedSgis, Relay};
use hanok_types::{GicVersion, VcpuId, Width, platform};
use std::vec::Vec;

const GICD: u64 = platform::GIC_DIST.get();
/// GICD_SGIR (IHI 0048, 4.3.15): the SGI in bits 3:0, targets in 23:16, a filter in 25:24.
const SGIR: u64 = 0xf00;

/// Five vCPUs with a GICv2, which forwards interrupts to all.
fn gicv2() -> Fixture {
    let mut vm = Fixture::with_gic(5, GicVersion::V2);
    put(&mut vm, 0, GICD, 1);
    settle(&mut vm);
    vm
}

/// The SGIs that are on their way to vCPU `n`, and who sent them; they are gone then.
fn posted(vm: &Fixture, n: u8) -> std::vec::Vec<(u16, VcpuId)> {
    let id = VcpuId::new(n);
    let requests = vm.vm.requests(id);
    requests.take_interrupts();
    requests.take_posted_sgis().lanes(id).collect()
}

/// The SGIs that are pending in the interrupt controller for vCPU `n`.
fn pending(vm: &Fixture, n: u8) -> std::vec::Vec<u32> {
    let all = vm.vm.pending_interrupts(VcpuId::new(n));
    all.iter().map(|one| one.id.get()).collect()
}

/// Every target list, filter and sender: what names a single other vCPU that is there takes the short
/// way where one of the receiver's three lanes is its sender's, and nothing else does anything.
#[test]
fn what_is_for_one_other_vcpu_is_posted() {
    let vm = gicv2();
    for (from, filter, targets) in (0..5).flat_map(|from| {
        (0..4).flat_map(move |filter| (0..256).map(move |list| (from, filter, list)))
    }) {
        let id = (targets ^ from) & 0xf;
        let value = filter << 24 | targets << 16 | 1 << 15 | id;
        let sender = VcpuId::new(from as u8);
        let accepted = vm.vm.post_sgir(&vm.machine, GicVersion::V2, sender, value) == Attempt::Done;
        let target = targets.trailing_zeros();
        let others = (0..5).filter(|other| *other != target);
        let lane = others.take_while(|other| *other != from).count();
        let single = filter == 0 && targets.count_ones() == 1 && target < 5 && target != from;
        let wanted = single && lane < 3;
        assert_eq!(accepted, wanted, "{from} {filter} {targets:#x}");
        let kicked = vm.machine.kicked();
        for n in 0..5 {
            let to = wanted && target == n;
            assert_eq!(kicked.contains(&(n as usize)), to);
            let sent = posted(&vm, n as u8);
            if to {
                assert_eq!(sent, [(1 << id, sender)])
            } else {
                assert_eq!(sent, [])
            }
        }
    }
}

#[test]
fn a_gicv3_has_no_such_register() {
    let mut vm = running(2);
    let value = 0b10 << 16 | 3;
    let sent = vm
        .vm
        .post_sgir(&vm.machine, vm.vm.gic_version(), VcpuId::new(0), value);
    assert_eq!(sent, Attempt::Untouched);
    put(&mut vm, 0, GICD + SGIR, value);
    assert_eq!(
        (posted(&vm, 1), pending(&vm, 1)),
        (std::vec![], std::vec![])
    );
    assert!(vm.machine.kicked().is_empty());
}

#[test]
fn a_guest_s_store_leaves_it_as_mail_and_nothing_else() {
    let mut vm = gicv2();
    put(&mut vm, 3, GICD + SGIR, 0b10 << 16 | 7);
    assert_eq!(vm.machine.kicked(), [1]);
    assert_eq!(posted(&vm, 1), [(1 << 7, VcpuId::new(3))]);
    assert_eq!(pending(&vm, 1), [], "it was taken");
}

/// No store to another register, and none of another width, sends anything.
#[test]
fn nothing_but_a_word_to_the_register_sends_one() {
    let mut vm = gicv2();
    let value = 0b10 << 16 | 7;
    let words = (0..platform::GIC_V2_DIST_SIZE).step_by(4);
    let words = words.filter(|offset| *offset != SGIR);
    let others = words.map(|offset| (offset, Width::Word));
    let narrow = (0..4).map(|offset| (SGIR + offset, Width::Byte));
    let half = [0, 2].map(|offset| (SGIR + offset, Width::Half));
    for (offset, width) in others
        .chain(narrow)
        .chain(half)
        .chain([(SGIR, Width::Double)])
    {
        // What makes others pending, or enables and routes them.
        if offset < 0x880 || (0xf10..0xf30).contains(&offset) {
            continue;
        }
        vm.regs[0].x[9] = value;
        let action = vm.handle(0, store(GICD + offset, width, 9));
        assert_eq!(action, Action::Next, "{offset:#x}");
        assert_eq!(posted(&vm, 1), [], "{offset:#x} {width:?}");
    }
    assert_eq!(pending(&vm, 1), []);
    // What else is stored there arrives: GICD_ISENABLER1 and GICD_IPRIORITYR10.
    for (offset, stored) in [(0x104, 0b10_0000), (0x428, 0b10_0000)] {
        put(&mut vm, 0, GICD + offset, value as u32 & !0xf | 0b10_0000);
        assert_ne!(get(&mut vm, 0, GICD + offset) & stored, 0, "{offset:#x}");
    }
    assert_eq!(posted(&vm, 1), []);
}

/// From a vCPU without a lane, to the sender itself, to no vCPU: the sender puts the SGI into the interrupt
/// controller.
#[test]
fn what_is_not_posted_is_put_in_by_its_sender() {
    let sgi = |vm: &mut Fixture, from, target: u32| {
        put(vm, from, GICD + SGIR, 1 << (16 + target) | 7);
        vm.machine.kicked()
    };
    let mut vm = gicv2();
    assert_eq!(sgi(&mut vm, 4, 0), [0]);
    assert_eq!(
        (posted(&vm, 0), pending(&vm, 0)),
        (std::vec![], std::vec![7])
    );
    assert_eq!(vm.shown(0), [], "it looks once it was kicked");
    assert_eq!(sgi(&mut vm, 2, 2), [], "one's own");
    assert_eq!(vm.shown(2), [7]);
    assert_eq!(sgi(&mut vm, 2, 5), [], "there is no such vCPU");
    // It is pending, but no group is forwarded: no vCPU has to be kicked.
    let mut vm = gicv2();
    put(&mut vm, 0, GICD, 0);
    vm.machine.kicked();
    assert_eq!(sgi(&mut vm, 4, 0), []);
    assert_eq!(sgi(&mut vm, 2, 2), []);
    assert_eq!(
        (pending(&vm, 0), pending(&vm, 2)),
        (std::vec![7], std::vec![7])
    );
    assert_eq!((vm.shown(0), vm.shown(2)), (std::vec![], std::vec![]));
}

/// As with a GICv3, whose SGIs have no sender.
#[test]
fn one_that_was_shown_before_is_shown_again() {
    let mut vm = gicv2();
    let to = VcpuId::new(1);
    for (round, from) in [3, 3, 0].into_iter().enumerate() {
        let sent = vm.vm.post_sgir(
            &vm.machine,
            GicVersion::V2,
            VcpuId::new(from),
            0b10 << 16 | 9,
        );
        assert_eq!(sent, Attempt::Done);
        assert_eq!(vm.machine.kicked(), [1]);
        let lr = show_posted(&mut vm, round > 0);
        assert_eq!(
            *lr >> 32 & 7,
            from.into(),
            "GICH_LR.PhysicalID: who sent it"
        );
        // The guest takes and ends it.
        *lr &= !(3 << 62);
    }
    // Neither none nor two are one.
    for posted in [PostedSgis::default(), both(to)] {
        let shown = vm
            .vm
            .show_posted_sgis(to, posted, GicVersion::V2, &mut vm.lists[1]);
        assert_eq!(shown, Attempt::Untouched);
        assert!(vm.shown(1).is_empty());
    }
    let enabled = get(&mut vm, 1, GICD + 0x100);
    assert_eq!(enabled & 0xffff, 0xffff, "a GICv2's SGIs are, always");
}

/// Two SGIs.
fn both(to: VcpuId) -> PostedSgis {
    let requests = crate::Requests::default();
    for id in [9, 10] {
        let _ = requests.post(PostedSgis::signed(id, VcpuId::new(0), to).unwrap());
    }
    requests.take_posted_sgis()
}

/// An SGI for 63 others is pending at all of them at once; eight are told in the same exit, and the others in
/// exits of their own, which the sender's pCPU makes by kicks of itself.
#[test]
fn those_that_an_sgi_for_all_reaches_are_told_in_pieces() {
    const ALL: u8 = 64;
    let mut vm = running(ALL);
    for vcpu in 0..ALL {
        put(&mut vm, 0, private(vcpu.into(), 0x80), 1 << 5);
        put(&mut vm, 0, private(vcpu.into(), 0x100), 1 << 5);
    }
    let told = |vm: &Fixture| -> Vec<u8> {
        let all = (0..ALL).filter(|vcpu| vm.vm.requests(VcpuId::new(*vcpu)).take_interrupts());
        all.collect()
    };
    told(&vm);
    sgi(&mut vm, 0, 5 << 24 | 1 << 40);
    let pending = |vm: &Fixture, n: u8| !vm.vm.pending_interrupts(VcpuId::new(n)).is_empty();
    assert!((1..ALL).all(|vcpu| pending(&vm, vcpu)) && !pending(&vm, 0));
    assert_eq!(told(&vm), (1..9).collect::<Vec<_>>());
    let relay = |vm: &Fixture, n| vm.vm.relay(&vm.machine, VcpuId::new(n));
    assert_eq!(relay(&vm, 9), Relay::NotAsked, "it is the sender's work");
    assert!(!vm.vm.may_run(VcpuId::new(0)), "not before it has done it");
    for piece in [9..41, 41..ALL] {
        assert_eq!(relay(&vm, 0), Relay::Done);
        assert_eq!(told(&vm), piece.collect::<Vec<_>>());
    }
    assert_eq!(relay(&vm, 0), Relay::NotAsked);
    assert!(vm.vm.may_run(VcpuId::new(0)));
}

/// The end of a VM of 64 vCPUs is known to each of them at once; their pCPUs are kicked in pieces.
#[test]
fn all_pcpus_of_a_vm_that_ends_are_kicked_in_pieces() {
    const ALL: u8 = 64;
    let vm = running(ALL);
    vm.machine.kicked();
    vm.vm.kick_all(&vm.machine);
    assert!((0..ALL).all(|vcpu| vm.vm.requests(VcpuId::new(vcpu)).take_attention()));
    let kicked = |vm: &Fixture| vm.machine.kicked().into_iter();
    assert!(kicked(&vm).eq(0..9), "and who kicks the others");
    assert_eq!(vm.vm.relay(&vm.machine, VcpuId::new(8)), Relay::Done);
    assert!(kicked(&vm).eq(8..41));
    assert_eq!(vm.vm.relay(&vm.machine, VcpuId::new(40)), Relay::Done);
    assert!(kicked(&vm).eq(40..64));
}
