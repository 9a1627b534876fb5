//! A VM's memory, as the executive reads, fills, takes and gives it.
//!
//! The lock of a VM's address space is held while one of its pages that may be taken is read or written. So
//! a frame is never touched after it was given to another owner. A space that is fixed loses no page, and its
//! memory is read and written without the lock. The lock of the frames' owners is taken by itself, before a
//! page is given and after one was taken: in the list of owners a frame that a VM can reach is always the VM's.

use crate::{Board, Host, Vcpu, VmUnit};
use core::ops::Range;
use hanok_config::VmConfig;
use hanok_hal::sync::atomic::{AtomicU64, Ordering};
use hanok_hal::{AccessError, Backend, GuestMemory, Tlb, VmMemory};
use hanok_memory::{
    Absence, AddressSpace, MAX_REGIONS, Owner, OwnerError, Page, PageError, Region, RegionKind,
    Taken,
};
use hanok_types::{Address, GuestPage, Hpa, Ipa, PAGE_SIZE, Span, platform};

/// An access to one page of a VM. Its arguments are the page's memory, the address of the first byte, and
/// the range of these bytes in the whole access.
type Access<'a, B> =
    dyn FnMut(&<B as Backend>::Memory, Ipa, Range<usize>) -> Result<(), AccessError> + 'a;

/// Why a page is not taken or given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFault {
    /// The VM's space refuses.
    Space(PageError),
    /// The frame does not belong to the expected owner.
    Owner(OwnerError),
}

/// The regions of a VM's address space: its RAM, its firmware, a GICv2's virtual CPU interface, the page
/// of its stolen time, its channels' memory, which is at `channels`, its real devices that are mapped. `None` if a device's registers exceed the address space, or there are too many regions.
pub fn regions_of(
    config: &VmConfig,
    ram: Hpa,
    firmware: Option<(Span<Ipa>, Hpa)>,
    gicv: Option<Hpa>,
    stolen: Option<Hpa>,
    channels: &[Hpa],
) -> Option<heapless::Vec<Region, MAX_REGIONS>> {
    let mut regions = heapless::Vec::new();
    // This is called through a pointer, so that the compiler makes one copy of it.
    let add: &mut dyn FnMut(Span<Ipa>, Hpa, RegionKind) -> Option<()> =
        &mut |span, host, kind| regions.push(Region { span, host, kind }).ok();
    add(config.memory, ram, RegionKind::Ram)?;
    if let Some((span, host)) = firmware {
        add(span, host, RegionKind::Rom)?;
    }
    if let Some(gicv) = gicv {
        let span = Span::new(platform::GIC_V2_CPU, platform::GIC_V2_CPU_SIZE)?;
        add(span, gicv, RegionKind::Device)?;
    }
    if let Some(page) = stolen {
        add(
            Span::new(platform::STOLEN, PAGE_SIZE)?,
            page,
            RegionKind::Rom,
        )?;
    }
    for (end, host) in config.channels.iter().zip(channels) {
        let (writable, cached) = (!end.read_only, end.cached);
        add(end.memory, *host, RegionKind::Shared { writable, cached })?;
    }
    let mapped = config.devices.iter().filter(|device| !device.trapped);
    for registers in mapped.flat_map(|device| &device.registers) {
        add(registers.guest_span()?, registers.host, RegionKind::Device)?;
    }
    Some(regions)
}

/// The TLBs, as far as they hold translations of one VM's present boot. No vCPU runs under the VMID of a former
/// boot before the rollover has emptied all TLBs. The VMID of the present boot is read after the descriptor
/// was made invalid: a boot that begins later finds the descriptor invalid.
struct SpaceTlb<'a, B> {
    machine: &'a B,
    space: &'a AtomicU64,
}

impl<B: Backend> Tlb<Ipa> for SpaceTlb<'_, B> {
    fn invalidate(&mut self, range: Span<Ipa>) {
        match self.space.load(Ordering::SeqCst) {
            // The VM has never run.
            0 => {}
            space => self.machine.invalidate_range(space, range),
        }
    }
}

impl<B: Backend> VmUnit<B> {
    /// The region at `at`.
    pub fn page(&self, at: Ipa) -> Page {
        self.memory.lock().page(at)
    }

    /// The VM's RAM or flash, whichever holds all of `span`.
    fn region(&self, span: &Span<Ipa>) -> Result<&B::Memory, AccessError> {
        let mut regions = core::iter::once(&self.ram).chain(&self.flash);
        let found = regions.find(|region| region.ipa().covers(span));
        found.ok_or(AccessError::NoMemory(span.start()))
    }

    /// The VM's RAM, if all of it is there for as long as the VM exists: most accesses need no more.
    #[inline]
    pub(crate) fn settled(&self) -> Option<&B::Memory> {
        self.is_fixed.then_some(&self.ram)
    }

    /// The part of `span` that lies in its first page, and the memory where that page is now.
    fn first(
        region: &B::Memory,
        space: &AddressSpace<B::Tables>,
        span: &Span<Ipa>,
    ) -> Result<(B::Memory, Span<Ipa>), AccessError> {
        let at = span.start();
        let here = space.find(at)?;
        let len = span.len().min(PAGE_SIZE - at.get() % PAGE_SIZE);
        let part = Span::new(at, len).ok_or(AccessError::NoMemory(at))?;
        Ok((region.part(part, here), part))
    }

    /// The first part of `span` whose frames lie one after the other, and its memory: all of `span` where
    /// the VM's space is fixed, else what lies in the first page. It must be called while no page is taken:
    /// between [`AddressSpace::begin_making`] and [`AddressSpace::end_making`]. It is kept out of line, as
    /// each of its callers would have a copy.
    #[inline(never)]
    pub(crate) fn part(&self, span: Span<Ipa>) -> Result<(B::Memory, Span<Ipa>), AccessError> {
        let region = self.region(&span)?;
        let space = self.memory.lock();
        if space.is_fixed() {
            return Ok((region.part(region.ipa(), region.host()), span));
        }
        Self::first(region, &space, &span)
    }

    /// Calls `access` for each page of `len` bytes at `at`, with the page's memory, the address of the
    /// first of its bytes, and the range of these bytes in the `len` bytes. If one of the pages is absent,
    /// it is called for none.
    fn each(&self, at: Ipa, len: usize, access: &mut Access<'_, B>) -> Result<(), AccessError> {
        let none = AccessError::NoMemory(at);
        let whole = Span::new(at, len as u64).ok_or(none)?;
        let region = self.region(&whole)?;
        let space = self.memory.lock();
        if space.is_fixed() {
            drop(space);
            return access(region, at, 0..len);
        }
        let mut page = at.align_down(PAGE_SIZE);
        while page < whole.end() {
            space.find(page)?;
            page = page.checked_add(PAGE_SIZE).ok_or(none)?;
        }
        let mut done = 0;
        while done < whole.len() {
            let start = at.checked_add(done).ok_or(none)?;
            let rest = Span::new(start, whole.len() - done).ok_or(none)?;
            let (memory, part) = Self::first(region, &space, &rest)?;
            let from = done as usize;
            access(&memory, start, from..from + part.len() as usize)?;
            done += part.len();
        }
        Ok(())
    }

    /// An access to memory that is not settled. Kept out of line, as are those below: what is settled needs no place on the stack then.
    #[inline(never)]
    fn read_parts(&self, at: Ipa, into: &mut [u8]) -> Result<(), AccessError> {
        self.each(at, into.len(), &mut |memory, at, range| {
            memory.read(at, into.get_mut(range).unwrap_or_default())
        })
    }

    #[inline(never)]
    fn write_parts(&self, at: Ipa, from: &[u8]) -> Result<(), AccessError> {
        self.each(at, from.len(), &mut |memory, at, range| {
            memory.write(at, from.get(range).unwrap_or_default())
        })
    }

    #[inline(never)]
    fn load_part(&self, at: Ipa) -> Result<u16, AccessError> {
        let mut value = 0;
        let load = &mut |memory: &B::Memory, at, _| memory.load_half(at).map(|half| value = half);
        self.each(at, size_of::<u16>(), load).map(|()| value)
    }

    #[inline(never)]
    fn store_part(&self, at: Ipa, value: u16) -> Result<(), AccessError> {
        let store = &mut |memory: &B::Memory, at, _| memory.store_half(at, value);
        self.each(at, size_of::<u16>(), store)
    }
}

impl<B: Backend> GuestMemory for VmUnit<B> {
    fn read(&self, at: Ipa, into: &mut [u8]) -> Result<(), AccessError> {
        let settled = self.settled().and_then(|ram| ram.read(at, into).ok());
        settled.map_or_else(|| self.read_parts(at, into), Ok)
    }

    fn write(&self, at: Ipa, from: &[u8]) -> Result<(), AccessError> {
        let settled = self.settled().and_then(|ram| ram.write(at, from).ok());
        settled.map_or_else(|| self.write_parts(at, from), Ok)
    }

    fn load_half(&self, at: Ipa) -> Result<u16, AccessError> {
        let settled = self.settled().and_then(|ram| ram.load_half(at).ok());
        settled.map_or_else(|| self.load_part(at), Ok)
    }

    fn store_half(&self, at: Ipa, value: u16) -> Result<(), AccessError> {
        let settled = self
            .settled()
            .and_then(|ram| ram.store_half(at, value).ok());
        settled.map_or_else(|| self.store_part(at, value), Ok)
    }
}

impl<B: Host> Board<B> {
    /// Takes a page of a VM's RAM away. Its frame belongs to the hypervisor afterwards. See
    /// [`AddressSpace::take`].
    pub fn take_page(
        &self,
        unit: &VmUnit<B>,
        page: GuestPage,
        why: Absence,
    ) -> Result<Taken, PageFault> {
        let mut tlb = self.tlb_of(unit);
        let taken = unit.memory.lock().take(&mut tlb, page, why);
        let taken = taken.map_err(PageFault::Space)?;
        if let Taken::Frame(frame) = taken
            && let Err(error) = self.hand_over(frame, Owner::Vm(unit.vm.id()), Owner::Hypervisor)
        {
            // The frame still belongs to the VM, and no vCPU may wait for ever.
            self.map_page(unit, page, frame)?;
            return Err(error);
        }
        Ok(taken)
    }

    /// Gives an absent page a frame, which was the hypervisor's, and wakes the vCPUs that wait for the page.
    /// The caller has cleaned the frame's bytes to the point of coherency.
    pub fn give_page(
        &self,
        unit: &VmUnit<B>,
        page: GuestPage,
        frame: Hpa,
    ) -> Result<(), PageFault> {
        let vm = Owner::Vm(unit.vm.id());
        self.hand_over(frame, Owner::Hypervisor, vm)?;
        // The frame may have held other code.
        self.machine.invalidate_instruction_caches();
        let given = self.map_page(unit, page, frame);
        if given.is_err() {
            self.hand_over(frame, vm, Owner::Hypervisor)?;
        }
        given
    }

    /// Gives an absent page a frame that is the VM's, and wakes the vCPUs that wait for the page.
    fn map_page(&self, unit: &VmUnit<B>, page: GuestPage, frame: Hpa) -> Result<(), PageFault> {
        let mut tlb = self.tlb_of(unit);
        let given = unit.memory.lock().give(&mut tlb, page, frame);
        given.map_err(PageFault::Space)?;
        unit.vm.kick_all(self);
        Ok(())
    }

    /// Lets a vCPU wait for a page that its access needs.
    #[inline(always)]
    pub(crate) fn page_is_missed(&self) {
        #[cfg(feature = "selftest")]
        self.count_missed_page();
    }

    fn hand_over(&self, frame: Hpa, from: Owner, to: Owner) -> Result<(), PageFault> {
        let span = Span::new(frame, PAGE_SIZE).unwrap_or_default();
        let done = self.owners.lock().hand_over(span, from, to);
        done.map_err(PageFault::Owner)
    }

    fn tlb_of<'a>(&'a self, unit: &'a VmUnit<B>) -> SpaceTlb<'a, B> {
        let (machine, space) = (&self.machine, &unit.space);
        SpaceTlb { machine, space }
    }
}

impl<B: Host> Vcpu<B> {
    /// Finds out whether the page that the vCPU waits for is present. The pCPU that gives a page kicks all
    /// vCPUs of the VM afterwards.
    #[cold]
    #[inline(never)]
    pub(crate) fn update_page(&mut self) {
        let absent = |page: GuestPage| {
            let page = self.unit.page(page.start());
            matches!(page, Page::Absent | Page::GivenBack)
        };
        if !self.page.is_some_and(absent) {
            self.page = None;
            self.waiting = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeBoard, RAM};
    use hanok_hal::fake::Settings;
    use hanok_types::{GicVersion, VmId};
    use std::vec;

    /// If the list of owners is full, nothing changes: otherwise the page would be lost, as no VM would
    /// have it and the hypervisor could not give it back.
    #[test]
    fn a_page_that_cannot_change_its_owner_stays() {
        let settings = Settings {
            cpus: 1,
            this_cpu: || 0,
            pause: || {},
            asleep: || {},
            lists: 4,
        };
        let FakeBoard { board, .. } =
            FakeBoard::new(settings, &[vec![0], vec![0], vec![0]], GicVersion::V2);
        // Take every second page of the other VMs, and then of the first one, except for the page that is
        // taken below.
        let pages = [1, 2, 0].into_iter().flat_map(|vm| {
            let vm = Owner::Vm(VmId::new(vm));
            let spans: vec::Vec<_> = board.owners.lock().of(vm).collect();
            let second = (spans[0].start().get() + 17 * PAGE_SIZE..spans[0].end().get())
                .step_by(2 * PAGE_SIZE as usize);
            second.map(move |at| (Hpa::new(at), vm))
        });
        let mut done = pages.map(|(at, vm)| board.hand_over(at, vm, Owner::Hypervisor));
        let full = done
            .find(Result::is_err)
            .expect("pages enough to fill the list");
        let refused = Err(PageFault::Owner(OwnerError::TooManySpans));
        assert_eq!(full, refused);
        let unit = &board.vms[0];
        let page = GuestPage::of(Ipa::new(RAM.get() + 8 * PAGE_SIZE)).expect("a page");
        let before = unit.page(page.start());
        let taken = loop {
            match board.take_page(unit, page, Absence::Taken) {
                Ok(Taken::Split) => {}
                taken => break taken.map(|_| ()),
            }
        };
        assert_eq!(taken, refused);
        assert_eq!(unit.page(page.start()), before);
    }
}
