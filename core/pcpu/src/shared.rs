//! Work for devices that are shared: what a client has asked for, and what a driver VM has given back.
//!
//! It is done in the turn of whichever vCPU asked for it by an access, in pieces. After each piece interrupts are looked for, and
//! if one is pending the vCPU makes its access again when its turn comes, which does the next piece.

use crate::{After, Board, Host, Local, Vcpu, VmUnit};
use hanok_config::DeviceKind;
use hanok_devices::Slot;
use hanok_devices::virtio::{BETWEEN, BoardMemory, Lines, Served, SharedDevice};
use hanok_hal::sync::atomic::Ordering;
use hanok_hal::{AccessError, Backend, End, VmMemory, pass_by};
use hanok_types::{Address, Hpa, Ipa};
use hanok_vm::Clock;

impl<B: Backend> BoardMemory for VmUnit<B> {
    fn on_board(&self, at: Ipa, bytes: u32) -> Option<Hpa> {
        // Of a space that is not fixed, pages move.
        let (ram, host) = (self.ram.ipa(), self.ram.host());
        let offset = ram.offset_of(at).filter(|_| self.is_fixed)?;
        let inside = u64::from(bytes) <= ram.len() - offset;
        inside.then(|| host.checked_add(offset))?
    }

    fn at_board(&self, at: Hpa, bytes: u32) -> Option<Ipa> {
        let memory = &self.ram;
        let offset = at.get().checked_sub(memory.host().get())?;
        let there = memory.ipa().start().checked_add(offset)?;
        (self.on_board(there, bytes) == Some(at)).then_some(there)
    }

    fn pass(
        &self,
        at: Ipa,
        (to, there): (&Self, Ipa),
        bytes: u32,
    ) -> Result<u32, (End, AccessError)> {
        // Most memory stays where it is for ever.
        if let (Some(from), Some(into)) = (self.settled(), to.settled())
            && from.pass(at, (into, there), bytes).is_ok()
        {
            return Ok(bytes);
        }
        pass_by::<BETWEEN>((self, at), (to, there), bytes)
    }
}

/// A shared device with its two VMs.
struct Ends<B: Backend> {
    device: &'static SharedDevice,
    client: (&'static VmUnit<B>, usize),
    /// `None` if the hypervisor serves the device.
    driver: Option<(&'static VmUnit<B>, usize)>,
    /// Whether the vCPU that makes the access is the driver VM's.
    for_driver: bool,
}

impl<B: Host> Board<B> {
    /// [`hanok_vm::Vm::let_go`], of which the VM at the other end is told.
    #[cold]
    #[inline(never)]
    pub(crate) fn let_go(&self, unit: &VmUnit<B>, index: usize) -> Option<bool> {
        let free = unit.vm.let_go(index)?;
        let peer = unit.vm.slot(index).and_then(Slot::peer);
        if let Some((peer, other)) =
            peer.and_then(|peer| Some((peer, self.vms.get(peer.vm.index())?)))
        {
            other.vm.show_line(self, peer.slot.into());
        }
        Some(free)
    }

    /// The two ends of the device at slot `index` of `unit`.
    fn ends(&'static self, unit: &'static VmUnit<B>, index: usize) -> Option<Ends<B>> {
        let slot = unit.vm.slot(index)?;
        let (device, own) = (slot.shared()?, (unit, index));
        let peer = slot.peer();
        let peer = peer.and_then(|peer| Some((self.vms.get(peer.vm.index())?, peer.slot.into())));
        let for_driver = slot.kind() == DeviceKind::BackEnd;
        let (client, driver) = if for_driver {
            (peer?, Some(own))
        } else {
            (own, peer)
        };
        Some(Ends {
            device,
            client,
            driver,
            for_driver,
        })
    }
}

impl<B: Host> Vcpu<B> {
    /// Carries out [`hanok_vm::Action::Serve`].
    #[inline(never)]
    pub(crate) fn served(&mut self, local: &mut Local<B>, esr: u64, slot: u8, next: bool) -> After {
        let Some(ends) = local.board.ends(self.unit, slot.into()) else {
            return After::Resume;
        };
        let served = serve(local.board, &ends);
        self.show_lines(local, &ends);
        match served {
            Served::All => {
                if next {
                    self.advance(esr);
                }
                match local.has_posted() {
                    true if local.board.machine.interrupt_is_pending() => posts_later(local),
                    true => After::Reconsider,
                    false => After::Resume,
                }
            }
            // It is the guest's own page, or its driver VM's.
            Served::Absent(_) => {
                self.core.serve_again(slot);
                After::Yield
            }
            Served::Some => {
                self.core.serve_again(slot);
                if local.has_posted() {
                    return posts_later(local);
                }
                After::Resume
            }
        }
    }

    /// Brings the interrupt lines of both VMs up to date.
    fn show_lines(&mut self, local: &Local<B>, ends: &Ends<B>) {
        let board = local.board;
        let Lines { client, driver } = ends.device.show();
        let of_client = (client, ends.client);
        let of_driver = ends.driver.map(|end| (driver, end));
        let (own, other) = match of_driver.filter(|_| ends.for_driver) {
            Some(of_driver) => (of_driver, Some(of_client)),
            None => (of_client, of_driver),
        };
        if let Some((true, (unit, slot))) = other {
            // A kick of this pCPU would be one more exit: whoever has it finds what is noted.
            local.post(unit.vm.show_line_at(board, slot, local.id));
        }
        if let (true, (_, slot)) = own {
            crate::service::guest(self, board, &mut board.machine.lists()).show_line(slot);
        }
    }
}

/// What is noted for this pCPU is found in an exit of its own.
fn posts_later<B: Host>(local: &Local<B>) -> After {
    local.board.machine.kick(local.id);
    After::Resume
}

/// Does pieces of what there is to do, until an interrupt is pending.
fn serve<B: Host>(board: &Board<B>, ends: &Ends<B>) -> Served {
    let client = ends.client.0;
    if ends.driver.is_none() && !client.vm.random_suffices() {
        // What can be guessed is not given as random: the guest waits, as for a source that gathers.
        return Served::All;
    }
    let driver = ends.driver.map(|(unit, _)| unit);
    loop {
        let fill = |bytes: &mut [u8]| {
            let jitter = board.jitter.load(Ordering::Relaxed);
            let _ = client.vm.fill_random(bytes, board.counter(), jitter);
        };
        let memories = (client, driver, board.vms);
        let served = ends.device.serve(memories, ends.for_driver, fill);
        if served != Served::Some || board.machine.interrupt_is_pending() {
            return served;
        }
    }
}
