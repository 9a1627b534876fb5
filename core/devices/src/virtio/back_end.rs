//! The registers of a back end (`hanok_abi::back_end`): what a driver VM says of a device that it serves.

use super::queue::Places;
use super::ring::{Layout, Ring};
use super::transport::{MAX_QUEUES, half, set_half};
use crate::{Access, Unknown};
use hanok_abi::back_end::{
    MAX_CONFIG, MAX_QUEUE_SIZE, SMALL, VERSION, client, control, mode, register,
};
use hanok_types::Width;

/// The first and the last register of a queue.
const FIRST_OF_QUEUE: u64 = register::TABLE;
const LAST_OF_QUEUE: u64 = register::SLOT_DESCRIPTORS;
const CONFIG_END: u64 = register::CONFIG + MAX_CONFIG as u64;

/// What somebody else has to do after a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Wanted {
    /// Nothing.
    Nothing,
    /// The device is to be offered.
    Offer,
    /// The device is to be withdrawn.
    Withdraw,
    /// There may be requests of this queue that are done.
    Look(usize),
    /// The client is to have the configuration as it is now.
    Answer,
    /// So many bytes of the client's memory are to be copied.
    Fetch(u32),
}

/// What never changes of a back end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nature {
    pub(super) device: u32,
    pub(super) queues: usize,
    /// The bits of `register::MODE` that it may have.
    pub(super) modes: u32,
}

/// The registers.
#[derive(Clone, Debug)]
pub(super) struct BackEnd {
    nature: Nature,
    mode: u32,
    pub(super) control: u32,
    pub(super) features: u64,
    queue_size: u32,
    config_size: u32,
    /// How many bytes of what the driver VM may read of a request are copied in each mode.
    pub(super) head: u32,
    /// How often the client was reset.
    pub(super) resets: u32,
    pub(super) config: [u8; MAX_CONFIG],
    /// `register::STORED` and `register::VALUE`.
    pub(super) stored: [u32; 2],
    /// `register::FETCH_FROM` and `register::FETCH_TO`.
    pub(super) fetch: [u64; 2],
    /// `register::FETCH`.
    pub(super) left: u32,
    /// `register::AGAIN` of each queue.
    pub(super) again: [u16; MAX_QUEUES],
    selected: usize,
    layouts: [Layout; MAX_QUEUES],
    /// The rings, while the device is offered.
    pub(super) rings: [Option<Ring>; MAX_QUEUES],
    pub(super) interrupts: u32,
    pub(super) unknown: Unknown,
}

impl BackEnd {
    /// A back end that offers nothing.
    pub(super) fn new(nature: Nature) -> Self {
        Self {
            nature,
            mode: 0,
            control: control::WITHDRAW,
            features: 0,
            queue_size: 0,
            config_size: 0,
            head: 0,
            resets: 0,
            config: [0; MAX_CONFIG],
            stored: [0; 2],
            fetch: [0; 2],
            left: 0,
            again: [0; MAX_QUEUES],
            selected: 0,
            layouts: [Layout::default(); MAX_QUEUES],
            rings: [None; MAX_QUEUES],
            interrupts: 0,
            unknown: Unknown::default(),
        }
    }

    /// Resets it. Its counters go on, and so does what the client has stored.
    pub(super) fn reset(&mut self) {
        let (unknown, resets) = (self.unknown, self.resets);
        let (config, stored) = (self.config, self.stored);
        *self = Self::new(self.nature);
        (self.unknown, self.resets) = (unknown, resets);
        (self.config, self.stored) = (config, stored);
    }

    /// Whether the device is offered.
    pub(super) fn is_offered(&self) -> bool {
        self.control == control::OFFER
    }

    /// Whether larger buffers are named by their addresses on the board.
    pub(super) fn is_direct(&self) -> bool {
        self.mode & mode::DIRECT != 0
    }

    /// Whether the client's stores to its configuration are told.
    pub(super) fn has_stores(&self) -> bool {
        self.mode & mode::STORES != 0
    }

    /// Whether the driver VM leaves the slots' descriptors as they are.
    pub(super) fn keeps(&self) -> bool {
        self.mode & mode::KEEPS != 0
    }

    /// The size of each queue; `None` if there can be none of this size.
    pub(super) fn queue_size(&self) -> Option<u16> {
        let size = u16::try_from(self.queue_size).ok()?;
        (size.is_power_of_two() && size <= MAX_QUEUE_SIZE).then_some(size)
    }

    /// The configuration of the device.
    pub(super) fn config(&self) -> &[u8] {
        let size = self.config_size as usize;
        self.config.get(..size).unwrap_or(&self.config)
    }

    /// Makes the rings as the registers say; none is made if one of them cannot be.
    pub(super) fn make_rings(&mut self) -> Option<()> {
        let size = self.queue_size()?;
        let mut rings = [None; MAX_QUEUES];
        let layouts = self.layouts.iter().take(self.nature.queues);
        for (ring, layout) in rings.iter_mut().zip(layouts) {
            *ring = Some(Ring::new(size, *layout)?);
        }
        self.rings = rings;
        Some(())
    }

    /// Ends what was offered, with this value of `register::CONTROL`.
    pub(super) fn end(&mut self, control: u32) {
        self.rings = [None; MAX_QUEUES];
        self.control = control;
    }

    /// Interrupts the driver VM for these reasons.
    pub(super) fn tell(&mut self, reasons: u32) {
        if self.is_offered() {
            self.interrupts |= reasons;
        }
    }

    /// A load of the interrupt's reasons, or an access that clears them: the value of a load, or zero, and whether it clears. `None`, and
    /// nothing has changed, for another register.
    #[inline]
    pub(super) fn interrupts_at_once(
        &mut self,
        offset: u64,
        stored: Option<u32>,
    ) -> Option<(u32, bool)> {
        match (offset, stored) {
            (register::INTERRUPT, None) => Some((self.interrupts, false)),
            (register::TAKE, None) => Some((core::mem::take(&mut self.interrupts), true)),
            (register::ACKNOWLEDGE, Some(bits)) => {
                self.interrupts &= !bits;
                Some((0, true))
            }
            _ => None,
        }
    }

    /// A load or store at `offset`; `live` says whether the client's driver is ready, which has accepted `accepted`.
    pub(super) fn access(
        &mut self,
        offset: u64,
        access: Access,
        (live, accepted): (bool, u64),
    ) -> (u64, Wanted) {
        let known = access.width == Width::Word && offset.is_multiple_of(4);
        let stored = access.write.then_some(access.value as u32);
        if known && let Some((value, _)) = self.interrupts_at_once(offset, stored) {
            return (value.into(), Wanted::Nothing);
        }
        if access.write {
            let wanted = known
                .then(|| self.store(offset, access.value as u32))
                .flatten();
            if wanted.is_none() {
                self.unknown.write();
            }
            return (0, wanted.unwrap_or(Wanted::Nothing));
        }
        let value = known.then(|| self.load(offset, live, accepted)).flatten();
        (
            value.unwrap_or_else(|| self.unknown.read()).into(),
            Wanted::Nothing,
        )
    }

    /// The register at `offset`; `None` if there is none.
    fn load(&self, offset: u64, live: bool, accepted: u64) -> Option<u32> {
        Some(match offset {
            register::ID => register::MAGIC,
            register::VERSION => VERSION,
            register::DEVICE => self.nature.device,
            register::QUEUES => self.nature.queues as u32,
            register::CLIENT => (self.resets << 1) | (u32::from(live) * client::LIVE),
            register::MODE => self.mode,
            register::MODES => self.nature.modes,
            register::CONTROL => self.control,
            register::ACCEPTED => half(accepted, 0),
            _ if offset == register::ACCEPTED + 4 => half(accepted, 1),
            register::QUEUE_SIZE => self.queue_size,
            register::CONFIG_SIZE => self.config_size,
            register::HEAD => self.head,
            register::STORED => self.stored[0],
            register::VALUE => self.stored[1],
            register::AGAIN => (*self.again.get(self.selected)?).into(),
            register::FETCH => self.left,
            register::CONFIG..CONFIG_END => {
                let from = (offset - register::CONFIG) as usize;
                u32::from_le_bytes(*self.config.get(from..)?.first_chunk()?)
            }
            _ => return None,
        })
    }

    /// Stores to the register at `offset`; `None` if none there can be stored to.
    fn store(&mut self, offset: u64, value: u32) -> Option<Wanted> {
        match offset {
            register::CONTROL if value == control::OFFER => return Some(Wanted::Offer),
            register::CONTROL => return Some(Wanted::Withdraw),
            register::NOTIFY => return Some(Wanted::Look(value as usize)),
            register::QUEUE => self.selected = value as usize,
            register::ANSWER if self.has_stores() && self.is_offered() => {
                return Some(Wanted::Answer);
            }
            register::FETCH_FROM..register::FETCH => {
                let index = (offset - register::FETCH_FROM) as usize / 8;
                set_half(self.fetch.get_mut(index)?, (offset & 4) as u32 / 4, value);
            }
            register::FETCH => return Some(Wanted::Fetch(value)),
            register::CONFIG_SIZE | register::CONFIG..CONFIG_END
                if self.has_stores() || !self.is_offered() =>
            {
                self.store_config(offset, value)?;
            }
            // What is offered stays as it is.
            _ if self.is_offered() => return None,
            register::MODE => self.mode = value & self.nature.modes,
            register::FEATURES => set_half(&mut self.features, 0, value),
            _ if offset == register::FEATURES + 4 => set_half(&mut self.features, 1, value),
            register::QUEUE_SIZE => self.queue_size = value,
            register::HEAD => self.head = value.min(SMALL),
            FIRST_OF_QUEUE..=LAST_OF_QUEUE => self.store_layout(offset, value)?,
            _ => return None,
        }
        Some(Wanted::Nothing)
    }

    /// A store to the configuration, or to its size.
    fn store_config(&mut self, offset: u64, value: u32) -> Option<()> {
        match offset.checked_sub(register::CONFIG) {
            Some(from) => {
                let word = self.config.get_mut(from as usize..)?.first_chunk_mut()?;
                *word = value.to_le_bytes();
            }
            None => self.config_size = value,
        }
        Some(())
    }

    /// A store to a register of the selected queue.
    fn store_layout(&mut self, offset: u64, value: u32) -> Option<()> {
        let own = self.selected < self.nature.queues;
        let layout = self.layouts.get_mut(self.selected).filter(|_| own)?;
        let Layout { places, slots, .. } = layout;
        let Places {
            descriptors,
            driver,
            device,
        } = places;
        let long = match offset & !4 {
            register::TABLE => descriptors,
            register::AVAILABLE => driver,
            register::USED => device,
            register::SLOTS => slots,
            _ => {
                if offset == register::SLOT_SIZE {
                    layout.slot_size = value;
                } else {
                    layout.descriptors = u16::try_from(value).unwrap_or(0);
                }
                return Some(());
            }
        };
        set_half(long, (offset & 4) as u32 / 4, value);
        Some(())
    }
}
