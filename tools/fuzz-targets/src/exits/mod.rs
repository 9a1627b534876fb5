//! A VM under any exits of its vCPUs, with what a backend and its board do in between.

mod check;
mod choose;

use crate::bytes::Bytes;
use check::{empty, fits, named, unchanged};
use hanok_hal::fake::FakeListRegisters;
use hanok_types::{GicVersion, IntId, Ipa, MAX_VCPUS, Regs, VcpuId, Width, platform};
use hanok_vm::fake::{EL1H, ENTRY, FIRST_CPU, Fixture};
use hanok_vm::{
    Action, DataAbort, Ending, Exit, Instruction, MmioAccess, Vcpu, Wait, Wish, function,
};

/// Turns after which pCPUs that still kick each other never stop.
const TURNS: usize = 64;
/// The counter goes no further: at a tick every 16 ns, that is longer than a board lasts.
const LAST_TICK: u64 = 1 << 54;

struct World {
    vm: Fixture,
    present: Vec<bool>,
}

/// An exit ends in an action of its kind, and changes no register but those that the
/// instruction names; who is to act upon it is told so, and nobody else; everybody comes to
/// rest, and what is over stays over until somebody begins it again.
pub fn exits(data: &[u8]) {
    let mut input = Bytes(data);
    let version = input.gic_version();
    let vcpus = 1 + input.byte() % MAX_VCPUS as u8;
    let lists = 1 + usize::from(input.byte()) % 16;
    let mut world = World {
        vm: Fixture::with_gic(vcpus, version),
        present: (0..vcpus).map(|n| n == 0).collect(),
    };
    let list = |list: &mut FakeListRegisters| *list = FakeListRegisters::new(lists);
    world.vm.lists.iter_mut().for_each(list);
    if input.flag() {
        *world.vm.machine.vectors.borrow_mut() = Some([u128::MAX / 3; 32]);
    }
    world.vm.machine.id_register.set(input.number());
    // Much of what a guest sets up first, so that events meet vCPUs with live interrupts.
    if input.flag() {
        world.set_up();
    }
    for _ in 0..512 {
        if input.is_empty() {
            break;
        }
        let acted = world.step(&mut input);
        world.settle();
        world.check(acted);
    }
}

impl World {
    /// All vCPUs run, every interrupt is enabled, and the SPIs go to all in turn.
    fn set_up(&mut self) {
        let vcpus = self.present.len();
        for n in 1..vcpus {
            let call = [function::CPU_ON | function::SMC64, n as u32];
            self.vm.regs[0].x[..2].copy_from_slice(&call.map(u64::from));
            self.vm.regs[0].x[2..4].copy_from_slice(&[ENTRY, 0]);
            assert_eq!(self.vm.handle(0, Exit::Hypercall), Action::Resume);
            assert_eq!(self.vm.regs[0].x[0], 0, "it was off");
            self.settle();
        }
        let shared = platform::GIC_DIST.get();
        self.put(0, shared, Width::Word, 0x13);
        for word in 0..=u64::from(platform::SPIS / 32) {
            for n in 0..vcpus {
                let redistributor = n as u64 * platform::GIC_REDIST_STRIDE + 0x1_0000;
                let private = match self.vm.vm.gic_version() {
                    GicVersion::V2 => shared,
                    GicVersion::V3 => platform::GIC_REDIST.get() + redistributor,
                };
                // IGROUPR and ISENABLER; of the first word each vCPU has its own.
                let frame = if word == 0 { private } else { shared };
                self.put(n, frame + 0x80 + word * 4, Width::Word, u64::MAX);
                self.put(n, frame + 0x100 + word * 4, Width::Word, u64::MAX);
            }
        }
        for spi in 0..platform::SPIS.into() {
            let n = spi % vcpus as u64;
            match self.vm.vm.gic_version() {
                GicVersion::V2 => self.put(0, shared + 0x820 + spi, Width::Byte, 1 << n),
                GicVersion::V3 => {
                    self.put(0, shared + 0x6000 + 8 * (32 + spi), Width::Double, n);
                }
            }
        }
        self.settle();
    }

    fn put(&mut self, n: usize, ipa: u64, width: Width, value: u64) {
        self.vm.regs[n].x[9] = value;
        let access = MmioAccess {
            width,
            register: 9,
            sign_extend: false,
            wide: true,
        };
        let abort = DataAbort {
            ipa: Ipa::new(ipa),
            write: true,
            walk: false,
            access: Some(access),
            instruction: Instruction::Unknown,
        };
        assert_eq!(self.vm.handle(n, Exit::Data(abort)), Action::Next);
    }

    /// Returns the vCPU whose guest changed its list registers.
    fn step(&mut self, input: &mut Bytes<'_>) -> Option<usize> {
        let operation = input.byte() % 32;
        let n = usize::from(input.byte()) % self.present.len();
        if operation >= 26 {
            self.board(operation, input);
            return None;
        }
        if !self.present[n] || !self.vm.vm.may_run(id(n)) {
            return None;
        }
        match operation {
            0..=19 => self.exit(n, input),
            20 | 21 => self.guest_acts(n, input.byte().into()),
            22 => self.vm.guest(n).virtual_timer(platform::TIMER_VIRTUAL_IRQ),
            23 => self.vm.guest(n).maintenance(),
            24 => self.refresh(n),
            _ => self.switch(n),
        }
        Some(n).filter(|_| matches!(operation, 20 | 21))
    }

    /// What comes from outside of the guest.
    fn board(&mut self, operation: u8, input: &mut Bytes<'_>) {
        let Fixture { vm, machine, .. } = &self.vm;
        match operation {
            26 => {
                let now = machine.now.get().saturating_add(input.number());
                machine.now.set(now.min(LAST_TICK));
            }
            27 => {
                let room = vm.receive_room();
                let mut byte = Some(input.byte());
                let _ = vm.receive(machine, || byte.take());
                let taken = byte.is_none();
                assert_eq!(taken, room > 0);
                assert_eq!(vm.receive_room(), room - usize::from(taken));
            }
            28 => {
                machine.line.borrow_mut().room = usize::from(input.byte() % 20);
                vm.transmit(machine);
            }
            29 => {
                let number = input.byte();
                let (irq, physical) = (IntId::spi(112 + u32::from(number % 64)), number);
                vm.device_interrupt(machine, irq, IntId::spi(physical.into()));
            }
            30 => drop(vm.set_paused(machine, input.byte().is_multiple_of(8))),
            _ => match input.byte() % 16 {
                0 => _ = vm.restart(machine),
                1 if vm.stop(machine) == Wish::Deserted => self.carry_out(Ending::Off),
                _ => {}
            },
        }
    }

    /// The guest takes what a list register shows, or ends it (IHI 0069H 4.8).
    fn guest_acts(&mut self, n: usize, which: usize) {
        let lists = &mut self.vm.lists[n].lr;
        let which = which % lists.len();
        let lr = &mut lists[which];
        // Pending, then active, then nothing; pending and active, then pending.
        let (pending, active) = (*lr >> 62 & 1, *lr >> 63);
        let state = if active == 1 { pending } else { pending << 1 };
        *lr = *lr & !(3 << 62) | state << 62;
    }

    fn refresh(&mut self, n: usize) {
        self.vm.guest(n).refresh();
        let now = self.vm.machine.now.get();
        let deadline = self.vm.guest(n).deadline();
        assert!(
            deadline.is_none_or(|deadline| deadline > now),
            "a deadline that has passed comes again and again"
        );
    }

    /// Another vCPU had the pCPU for a while.
    fn switch(&mut self, n: usize) {
        let Fixture {
            vm, machine, lists, ..
        } = &mut self.vm;
        vm.switch_out(machine, id(n), &mut lists[n]);
        empty(&lists[n]);
        vm.requests(id(n)).ask_interrupts();
        self.refresh(n);
    }

    fn exit(&mut self, n: usize, input: &mut Bytes<'_>) {
        let exit = self.any_exit(n, input);
        let before = self.vm.regs[n];
        let mut action = self.vm.handle(n, exit);
        if let Exit::Data(DataAbort { access: None, .. }) = exit {
            // An instruction of several pieces is resumed for each: four, for two Q registers.
            for _ in 1..4 {
                if action == Action::Resume {
                    action = self.vm.handle(n, exit);
                }
            }
        }
        assert!(fits(exit, action), "{exit:?} -> {action:?}");
        let may_change = match action {
            Action::Inject(_) | Action::Block(Wait::Page(_)) => 0,
            _ => named(exit),
        };
        unchanged(&before, &self.vm.regs[n], may_change);
        if let (Action::Next, Exit::Data(abort)) = (action, exit)
            && let Some(access) = abort.access.filter(|access| !access.sign_extend)
            && !abort.write
        {
            let value = self.vm.regs[n].get(access.register);
            assert_eq!(value & !access.width.mask(), 0, "{access:?}");
        }
        if action == Action::Reconsider {
            let runs = self.vm.vm.life().is_running() && self.vm.vm.power(id(n)).is_on();
            assert!(!runs, "{exit:?} ends nothing");
            self.reconsider(n);
        }
    }

    /// What a pCPU does with its vCPU when it is to look at it again.
    fn reconsider(&mut self, n: usize) {
        self.vm.vm.requests(id(n)).take_attention();
        let running = self.vm.vm.life().is_running();
        let power = self.vm.vm.power(id(n));
        if self.present[n] && !(running && power.is_on()) {
            self.go_out(n);
        }
        let Fixture { vm, vcpus, .. } = &mut self.vm;
        if n == 0 && vm.life().is_loading() {
            (0..vm.vcpus()).for_each(|vcpu| vm.reset_vcpu(id(vcpu)));
            assert!(vm.begin(), "nobody gave the loading up");
        }
        if !self.present[n] && vm.power(id(n)).is_pending() && vm.life().enter() {
            let entry = vm.power(id(n)).take_start().expect("a start is asked for");
            self.present[n] = true;
            vcpus[n] = Vcpu::new(id(n));
            self.vm.regs[n] = Regs {
                pc: entry.pc,
                pstate: EL1H,
                ..Regs::default()
            };
        }
        if self.present[n] {
            self.refresh(n);
        }
    }

    fn go_out(&mut self, n: usize) {
        let Fixture {
            vm, machine, lists, ..
        } = &mut self.vm;
        vm.take_back_interrupts(machine, id(n), &mut lists[n]);
        empty(&lists[n]);
        self.present[n] = false;
        match vm.life().leave() {
            (0, None) if vm.stop_if_all_off() => self.carry_out(Ending::Stopped),
            (0, Some(ending)) => self.carry_out(ending),
            (left, _) => assert_eq!(left as usize, self.here()),
        }
    }

    fn here(&self) -> usize {
        self.present.iter().filter(|here| **here).count()
    }

    fn carry_out(&mut self, ending: Ending) {
        assert_eq!(self.here(), 0, "somebody is in it");
        let Fixture { vm, machine, .. } = &self.vm;
        match ending {
            Ending::Reset => {
                assert!(vm.life().begin_again(), "nobody turns it off");
                vm.kick_first(machine);
            }
            Ending::Off | Ending::Stopped => vm.end(),
        }
    }

    /// Every pCPU that was kicked looks at its vCPU, and no other does.
    fn settle(&mut self) {
        for _ in 0..TURNS {
            let kicked = self.vm.machine.kicks.take();
            if kicked.is_empty() {
                return;
            }
            for cpu in kicked {
                let n = cpu.index().checked_sub(FIRST_CPU.into());
                let n = n.filter(|n| *n < self.present.len());
                self.reconsider(n.expect("one of the VM's own pCPUs"));
            }
        }
        panic!("pCPUs kick each other without end");
    }
}

fn id(n: usize) -> VcpuId {
    VcpuId::new(n as u8)
}
