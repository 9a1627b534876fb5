//! One vCPU's monitor.

use crate::answer::{Answer, Trap};
use crate::code::Code;
use crate::decoded::Decoded;
use crate::device_pages::DevicePages;
use crate::displaced::Displaced;
use crate::host::Host;
use crate::page::{LastPage, PageState};
use crate::row::Row;
use crate::siblings::{Change, Member};
use crate::slot::Ticket;
use crate::spaces::OwnSpaces;
use crate::translation::{privilege, regime};
use crate::window::Place;
use hanok_cpu32::{
    Destination, Identity, Interrupt, Lines, Mode, Registers, SystemRegister, VirtualCpu,
};
use hanok_decode::Psr;
use hanok_hal::{AccessError, Mutex, TableMemory};
use hanok_paging::shadow::{
    AsidPool, Filled, Forgetting, FrameLoss, GuestSpace, HardwareRoot, Invalidation, Owed,
    Progress, Shadow,
};
use hanok_paging::short::ShortRegime;
use hanok_types::{GuestPage, Hpa};

/// The monitor of one vCPU: its virtual CPU, its shadow tables, and what it is doing. `ROOTS` and
/// `TABLES` are those of [`Shadow`].
#[derive(Debug)]
pub struct Monitor<M, const ROOTS: usize, const TABLES: usize> {
    /// The virtual CPU.
    pub cpu: VirtualCpu,
    /// The registers of the guest in User mode.
    pub registers: Registers,
    pub(crate) shadow: Shadow<M, ROOTS, TABLES>,
    /// Where the window is.
    pub(crate) window: Place,
    /// The first-level descriptor of the window.
    pub(crate) descriptor: u32,
    /// The page that the kernel is confined to.
    pub(crate) confined: Option<GuestPage>,
    /// The one entry of shadow tables by which a confined page can be executed, or the slot: the space it is in,
    /// and its address.
    pub(crate) open: Option<(GuestSpace, u32)>,
    /// A frame for an instruction that cannot be executed where it is, and the one that is to be executed there.
    pub(crate) slot: Hpa,
    pub(crate) displaced: Option<Displaced>,
    /// The PC and the state for which that entry was found to be right.
    pub(crate) settled: (u32, Psr),
    /// What has to be invalidated in the TLB before the guest is entered.
    pub(crate) owed: Owed,
    /// What was found for the abort that comes to [`Self::serve`], if that is known.
    pub(crate) found: Option<(Filled, Option<GuestPage>)>,
    /// Whether an entry was made since the guest was entered, in the root that it is to go on by.
    pub(crate) made: bool,
    /// What TPIDRURO held when the kernel last ran.
    pub(crate) foreseen: u32,
    /// The address of the last data abort, for an external abort that the core answers.
    pub fault_address: u32,
    /// The A32 word at the PC of the exception that comes to [`Self::serve`], if the backend has fetched it.
    pub fetched: Option<u32>,
    pub(crate) decoded: Decoded,
    pub(crate) page: PageState,
    /// The spaces between which the kernel may change by itself.
    pub(crate) spaces: OwnSpaces,
    /// A frame of which the shadow tables say too much.
    pub(crate) forgetting: Option<Forgetting>,
    /// The page that is protected then.
    pub(crate) protecting: Option<(GuestPage, Ticket)>,
    /// The page whose translation the guest invalidated last.
    pub(crate) last_page: LastPage,
    /// Where its kernel has devices.
    pub(crate) devices: DevicePages,
    /// Stores to pages that hold code.
    pub(crate) row: Row,
    /// The vCPU among its siblings.
    pub(crate) member: Member,
}

/// Whether the guest can be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ready {
    /// It can, with this first-level table.
    Yes(HardwareRoot),
    /// There is work to be done first; the call is to be made again.
    Again,
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// The monitor of a vCPU that is off. `None` if `memory` has not enough frames for the tables.
    ///
    /// `descriptor` is the first-level descriptor of the window, and `member` the vCPU among those of its VM.
    pub fn new(identity: Identity, memory: M, descriptor: u32, member: Member) -> Option<Self> {
        let window = Place::FIRST;
        let mut shadow = Shadow::new(memory, window.window(descriptor))?;
        let page = PageState::new(shadow.memory_mut().allocate(1)?);
        let slot = shadow.memory_mut().allocate(1)?;
        Some(Self {
            window,
            descriptor,
            cpu: VirtualCpu::new(identity),
            registers: Registers::default(),
            shadow,
            confined: None,
            open: None,
            slot,
            displaced: None,
            settled: (0, Psr::new()),
            owed: Owed::Nothing,
            found: None,
            made: false,
            foreseen: 0,
            fault_address: 0,
            fetched: None,
            decoded: Decoded::new(),
            page,
            spaces: OwnSpaces::NONE,
            forgetting: None,
            protecting: None,
            last_page: LastPage::default(),
            devices: DevicePages::NONE,
            row: Row::default(),
            member,
        })
    }

    /// Resets the virtual CPU, and forgets all translations. It begins at `entry`, with these values in
    /// R0 to R2.
    pub fn boot(&mut self, entry: u32, arguments: [u32; 3]) {
        self.page.reset();
        self.cpu.boot(&mut self.registers, entry, arguments);
        self.forget_all();
    }

    /// Forgets all translations.
    pub fn forget_all(&mut self) {
        self.confined = None;
        self.open = None;
        self.displaced = None;
        self.forgetting = None;
        self.protecting = None;
        self.devices = DevicePages::NONE;
        self.owe(Owed::Everything);
        self.shadow.clear();
    }

    pub(crate) fn owe(&mut self, owed: Owed) {
        self.owed = core::mem::replace(&mut self.owed, Owed::Nothing).and(owed);
    }

    /// Serves an exception of the guest, whose registers are [`Self::registers`]; the PC is that of the
    /// instruction.
    pub fn serve(&mut self, trap: Trap, code: &Mutex<Code>, host: &impl Host) -> Answer {
        if let Trap::DataAbort { address, .. } = trap {
            self.fault_address = address;
        }
        let answer = match trap {
            Trap::Undefined | Trap::SupervisorCall => {
                let answer = if trap == Trap::Undefined {
                    self.undefined(code, host)
                } else {
                    self.call(code, host)
                };
                if answer == Answer::Resume {
                    self.follow_out(code, host);
                }
                answer
            }
            Trap::PrefetchAbort { status, address } => {
                self.prefetch_abort(status, address, code, host)
            }
            Trap::DataAbort { status, address } => self.data_abort(status, address, code, host),
        };
        (self.fetched, self.found) = (None, None);
        self.settle(code);
        answer
    }

    /// Takes the value that a timer's register was read with.
    pub fn finish_timer(&mut self, to: Destination, value: u64) {
        self.registers.fill(to, value);
    }

    /// Delivers an interrupt that waits, if it is not masked.
    pub fn deliver(
        &mut self,
        lines: Lines,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Option<Interrupt> {
        self.cpu.set_lines(lines);
        if self.cpu.deliverable().is_none() || !self.leave_trampoline(code, host) {
            return None;
        }
        self.cpu.deliver(&mut self.registers)
    }

    /// The frame of the virtual CPU's page.
    pub fn page(&self) -> Hpa {
        self.page.frame
    }

    /// Where the window is.
    pub fn window(&self) -> Place {
        self.window
    }

    /// The space that the guest is in, confined or not.
    pub(crate) fn space(&self) -> GuestSpace {
        self.space_of(self.cpu.mode())
    }

    /// The space that the guest would be in, in another mode.
    pub(crate) fn space_of(&self, mode: Mode) -> GuestSpace {
        let regime = regime(&self.cpu);
        let kernel = mode.is_privileged();
        let dacr = if kernel {
            self.kernel_domains(regime.dacr)
        } else {
            regime.dacr
        };
        GuestSpace {
            regime: ShortRegime { dacr, ..regime },
            asid: self.cpu.system(SystemRegister::Contextidr) as u8,
            confined: self.confined.is_some() && kernel,
        }
    }

    /// The table with which the guest, whose memory is `host`, is to be entered, on the CPU with these ASIDs. It has to be
    /// entered then, with [`Self::registers`].
    pub fn ready(&mut self, asids: &mut AsidPool, host: &impl Host) -> Ready {
        if self.forgetting.is_some() || !self.catch_up() {
            return Ready::Again;
        }
        self.settle_again();
        let space = self.space();
        self.close_doorbells(&space);
        let kept = self.shadow.check_kept(&space, |at| host.words(at).ok());
        if kept == Progress::Again {
            return Ready::Again;
        }
        self.show_page();
        match self.shadow.enter(&space, privilege(self.cpu.mode()), asids) {
            Progress::Again => Ready::Again,
            Progress::Done(root) if !self.member.enter() => {
                self.owe(root.owed);
                Ready::Again
            }
            Progress::Done(root) => {
                self.made = false;
                let owed = core::mem::replace(&mut self.owed, Owed::Nothing).and(root.owed);
                if let Some(displaced) = &mut self.displaced {
                    displaced.enter(&mut self.registers);
                }
                Ready::Yes(HardwareRoot { owed, ..root })
            }
        }
    }

    /// Begins the search for entries of a page's frame that say too much.
    pub(crate) fn begin_forgetting(
        &mut self,
        host: &impl Host,
        page: GuestPage,
        loss: FrameLoss,
    ) -> Result<(), AccessError> {
        let frame = host.frame(page.start())?;
        self.forgetting = Some(Forgetting::new(frame, loss));
        Ok(())
    }

    /// Goes on with the search. Answers whether it has ended.
    pub fn go_on_forgetting(&mut self, code: &Mutex<Code>) -> bool {
        if let Some(search) = &mut self.forgetting {
            if self.shadow.forget(search) == Progress::Again {
                return false;
            }
            self.forgetting = None;
        }
        if let Some((page, ticket)) = self.protecting.take() {
            code.lock().protected(page, ticket);
        }
        true
    }

    /// Makes a change that a sibling has left. Answers whether there was none.
    fn catch_up(&mut self) -> bool {
        match self.member.take() {
            None => return true,
            Some(Change::Invalidate(what)) => self.invalidate_here(what),
            Some(Change::Forget(frame, loss)) => {
                self.forgetting = Some(Forgetting::new(frame, loss));
            }
            Some(Change::Everything) => {
                self.devices = DevicePages::NONE;
                self.shadow.clear();
            }
        }
        false
    }

    /// Invalidates in the tables of this vCPU.
    #[inline(never)]
    pub(crate) fn invalidate_here(&mut self, what: Invalidation) {
        self.devices = DevicePages::NONE;
        let owed = self.shadow.invalidate(what);
        self.owe(owed);
    }
}
