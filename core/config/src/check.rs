//! The rules that a system must keep. The tool and the board use the same list.

mod channels;
mod devices;
mod promises;
mod slots;

use crate::model::{
    Blob, BlobKind, HOST_ADDRESS_STRIDE, MAX_MEMORY, SLICES, SystemView, TRACE_RECORDS, Trace,
    VmConfig,
};
use crate::slot::{DeviceKind, FIRMWARE_SIZE, NOR, NOR_STORED};
use hanok_sched::{InterfaceError, MAX_ENTITIES};
use hanok_types::{
    Address, CpuId, GICV2_CPUS, GicVersion, IntId, Ipa, MAX_CPUS, PAGE_SIZE, Span, VcpuId, platform,
};
use thiserror::Error;

/// A rule that a system breaks. VMs, blobs, slots and devices are named by their index, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The system has no VM.
    #[error("the system has no VM")]
    NoVm,
    /// A VM without a name, or with one that cannot be printed.
    #[error("vm {vm}: its name is empty or not printable ASCII")]
    Name {
        /// The VM.
        vm: usize,
    },
    /// Two VMs have the same name.
    #[error("vm {vm} has the name of an earlier one")]
    SameName {
        /// The later VM.
        vm: usize,
    },
    /// A VM without a vCPU.
    #[error("vm {vm} has no vCPU")]
    NoVcpu {
        /// The VM.
        vm: usize,
    },
    /// A pCPU whose number is higher than that of any board.
    #[error("vm {vm}: pCPU {cpu} is past the last one, {}", MAX_CPUS - 1)]
    NoSuchCpu {
        /// The VM.
        vm: usize,
        /// The pCPU.
        cpu: CpuId,
    },
    /// More vCPUs than a GICv2 has CPU interfaces.
    #[error("vm {vm} has more vCPUs than a GICv2 has CPU interfaces, {GICV2_CPUS}")]
    ManyVcpusOnGicv2 {
        /// The VM.
        vm: usize,
    },
    /// More vCPUs and groups on one pCPU than a policy can manage.
    #[error("pCPU {cpu} has more than {MAX_ENTITIES} vCPUs and groups")]
    TooManyVcpus {
        /// The pCPU.
        cpu: CpuId,
    },
    /// A pool that does not begin with its lowest pCPU, has too many of them, or has two orders.
    #[error("pCPU {cpu} is in {NO_POOL}")]
    Pool {
        /// The pCPU.
        cpu: CpuId,
    },
    /// A VM in a pool that has what cannot move: a device of the board, a share of what is left, a group.
    #[error("vm {vm} is in a pool, and has a device of the board, or no promise of its own")]
    Pooled {
        /// The VM.
        vm: usize,
    },
    /// A time slice that is too short or too long.
    #[error("a time slice of {slice} us is not from {} to {}", SLICES.start(), SLICES.end())]
    Slice {
        /// The slice in microseconds.
        slice: u32,
    },
    /// A trace whose rings have too few or too many records, or whose number is no power of two.
    #[error(
        "{records} records of a trace are no power of two from {} to {}",
        TRACE_RECORDS.start(),
        TRACE_RECORDS.end()
    )]
    Trace {
        /// The number.
        records: u32,
    },
    /// A promise to a vCPU that the VM does not have, or a second promise to the same vCPU.
    #[error("vm {vm}: a promise is for no vCPU of its own, or for one that has another")]
    MisplacedPromise {
        /// The VM.
        vm: usize,
    },
    /// A promise that no server can keep.
    #[error("the promise to vCPU {vcpu} of vm {vm}: {error}")]
    Promise {
        /// The VM.
        vm: usize,
        /// The vCPU.
        vcpu: VcpuId,
        /// The reason.
        error: InterfaceError,
    },
    /// A promise whose period is too long.
    #[error("the promise to vCPU {vcpu} of vm {vm} has a period of more than an hour")]
    Period {
        /// The VM.
        vm: usize,
        /// The vCPU.
        vcpu: VcpuId,
    },
    /// A group in one that does not come before it, or on a pCPU that enforces no promises, or that no server can
    /// have, or one too many.
    #[error("group {group} of pCPU {cpu} is misplaced, or no server can keep what it is promised")]
    Group {
        /// The pCPU.
        cpu: CpuId,
        /// The group.
        group: usize,
    },
    /// A vCPU without a promise on a pCPU that enforces promises, or with one on a pCPU whose vCPUs run in turn.
    #[error("vCPU {vcpu} of vm {vm} is promised CPU time and its core takes turns, or the reverse")]
    PromiseMismatch {
        /// The VM.
        vm: usize,
        /// The vCPU.
        vcpu: VcpuId,
    },
    /// Memory that the virtual platform does not have.
    #[error(
        "vm {vm}: memory must begin at {}, be whole pages, and be at most {} GiB",
        platform::RAM,
        MAX_MEMORY >> 30
    )]
    Memory {
        /// The VM.
        vm: usize,
    },
    /// An entry that is neither in memory nor in the firmware.
    #[error("vm {vm}: entry {entry} is not a word inside its memory or firmware")]
    Entry {
        /// The VM.
        vm: usize,
        /// The entry.
        entry: Ipa,
    },
    /// An empty blob.
    #[error("blob {blob} of vm {vm} is empty")]
    Empty {
        /// The VM.
        vm: usize,
        /// The blob.
        blob: usize,
    },
    /// A blob whose source is not in the payload, or not at a multiple of 8 bytes.
    #[error("blob {blob} of vm {vm}: its source is not inside the payload")]
    OutsidePayload {
        /// The VM.
        vm: usize,
        /// The blob.
        blob: usize,
    },
    /// A second firmware.
    #[error("blob {blob} of vm {vm} is a second firmware")]
    SecondFirmware {
        /// The VM.
        vm: usize,
        /// The later blob.
        blob: usize,
    },
    /// A firmware that is not at the start of the first bank of flash.
    #[error("blob {blob} of vm {vm}, a firmware, is not at {} or more than {} MiB", platform::FLASH, FIRMWARE_SIZE >> 20)]
    Firmware {
        /// The VM.
        vm: usize,
        /// The blob.
        blob: usize,
    },
    /// Variables of a VM that has no flash for them, or that are not at its start, or too long.
    #[error("blob {blob} of vm {vm}, variables, has no flash, or is not at {NOR} or more than {} KiB", NOR_STORED >> 10)]
    Variables {
        /// The VM.
        vm: usize,
        /// The blob.
        blob: usize,
    },
    /// A blob whose destination is outside of memory, or not at a multiple of 8 bytes.
    #[error("blob {blob} of vm {vm} does not lie inside the VM's memory")]
    OutsideMemory {
        /// The VM.
        vm: usize,
        /// The blob.
        blob: usize,
    },
    /// Two blobs whose destinations overlap.
    #[error("blob {blob} of vm {vm} overlaps an earlier one in memory")]
    Overlap {
        /// The VM.
        vm: usize,
        /// The later blob.
        blob: usize,
    },
    /// A seed or the place for the host address that is outside of its blob, or in a blob that is
    /// no device tree.
    #[error("blob {blob} of vm {vm}: a seed or host address is not inside a device tree")]
    Seed {
        /// The VM.
        vm: usize,
        /// The blob.
        blob: usize,
    },
    /// A device of the virtual platform whose registers are empty, overlap another slot's, or lie
    /// where the interrupt controller, devices that are passed through, or RAM are.
    #[error("slot {slot} of vm {vm}: its registers are not at a free place")]
    SlotRegion {
        /// The VM.
        vm: usize,
        /// The later slot.
        slot: usize,
    },
    /// An interrupt of a device of the virtual platform that is not free for it.
    #[error("slot {slot} of vm {vm}: interrupt {line} is not free for it")]
    SlotLine {
        /// The VM.
        vm: usize,
        /// The later slot.
        slot: usize,
        /// The interrupt.
        line: IntId,
    },
    /// A second serial port or variables' flash: a VM has one line on the console, and one memory for variables.
    #[error("slot {slot} of vm {vm} is a second device of a kind of which a VM has one")]
    SecondOfItsKind {
        /// The VM.
        vm: usize,
        /// The later slot.
        slot: usize,
    },
    /// A device that two VMs share, without its other end, or a device that has one and is not shared.
    #[error("slot {slot} of vm {vm}: its other end is missing, or is not the end of such a device")]
    Peer {
        /// The VM.
        vm: usize,
        /// The slot.
        slot: usize,
    },
    /// An end of a channel that is not in the window of channels, whose registers are no slot of the VM or another one's, or
    /// that contradicts those of other members; a channel without a peer or without a member that may write; or too many peers.
    #[error(
        "channel {channel} of vm {vm}: its number, index or memory contradicts other members, or it has no peer"
    )]
    Channel {
        /// The VM.
        vm: usize,
        /// The end of the channel.
        channel: usize,
    },
    /// A device without a name, or with one that cannot be printed.
    #[error("device {device} of vm {vm}: its name is empty or not printable ASCII")]
    DeviceName {
        /// The VM.
        vm: usize,
        /// The device.
        device: usize,
    },
    /// A device without registers.
    #[error("device {device} of vm {vm} has no registers")]
    NoRegisters {
        /// The VM.
        vm: usize,
        /// The device.
        device: usize,
    },
    /// Registers that are no whole pages, or whose guest addresses are outside of the region that the virtual
    /// platform has for devices that are passed through.
    #[error(
        "device {device} of vm {vm}: registers that are not whole pages, or not in {} to {}",
        platform::PASS_THROUGH,
        PASS_THROUGH_END
    )]
    Registers {
        /// The VM.
        vm: usize,
        /// The device.
        device: usize,
    },
    /// Two ranges of registers that overlap in a VM.
    #[error("device {device} of vm {vm}: its registers overlap others of the VM")]
    RegistersOverlap {
        /// The VM.
        vm: usize,
        /// The later device.
        device: usize,
    },
    /// A page of registers of the board that two devices have.
    #[error("device {device} of vm {vm}: its registers on the board are given twice")]
    RegistersTwice {
        /// The later VM.
        vm: usize,
        /// The later device.
        device: usize,
    },
    /// An interrupt id that is not one for devices that are passed through, or that the VM
    /// has already.
    #[error("device {device} of vm {vm}: interrupt {line} is not free for it")]
    GuestLine {
        /// The VM.
        vm: usize,
        /// The later device.
        device: usize,
        /// The guest's id of the interrupt.
        line: IntId,
    },
    /// An interrupt of the board that is no SPI.
    #[error("device {device} of vm {vm}: the board's interrupt {line} is not a shared one (SPI)")]
    BoardLine {
        /// The VM.
        vm: usize,
        /// The device.
        device: usize,
        /// The board's id of the interrupt.
        line: IntId,
    },
    /// An interrupt of the board that two devices have.
    #[error("device {device} of vm {vm}: the board's interrupt {line} is given twice")]
    BoardLineTwice {
        /// The later VM.
        vm: usize,
        /// The later device.
        device: usize,
        /// The board's id of the interrupt.
        line: IntId,
    },
    /// A system that was built for the other interrupt controller.
    #[error(
        "it was built for a {system}, and the board has a {board}: build it with a `board` that has one"
    )]
    OtherGic {
        /// The version for which the system was built.
        system: GicVersion,
        /// The version that the board has.
        board: GicVersion,
    },
    /// The description names more pCPUs than the board has.
    #[error(
        "it needs {needed} CPUs and the board has {most}: start it with more, or give its VMs fewer"
    )]
    TooFewCpus {
        /// The number that the system needs.
        needed: usize,
        /// The number that the board has.
        most: usize,
    },
    /// A device that the hypervisor uses itself, or RAM.
    #[error("device {device} of vm {vm} is memory, or one that the hypervisor has itself")]
    OwnDevice {
        /// The VM.
        vm: usize,
        /// The device.
        device: usize,
    },
}

/// Whether vCPUs can move among the pCPUs of a pool. Without the feature `pools` and in a 32-bit hypervisor they cannot,
/// and the compiler leaves out what serves pools.
pub const POOLS: bool = cfg!(all(feature = "pools", target_pointer_width = "64"));

/// What a pool is that cannot be.
const NO_POOL: &str = if POOLS {
    "no pool that can be: of at most 8 pCPUs, named by the lowest"
} else {
    "a pool, and this hypervisor is built without its feature `pools`"
};

/// The largest number of pCPUs of a pool.
pub const MAX_POOL: usize = 8;

/// The end of the region of devices that are passed through.
const PASS_THROUGH_END: Ipa = Ipa::new(platform::PASS_THROUGH.get() + platform::PASS_THROUGH_SIZE);

impl SystemView<'_> {
    /// Verifies that the system keeps every rule. `payload_len` is the length in bytes of the
    /// payload that its blobs are in.
    pub fn check(&self, payload_len: u64) -> Result<(), Fault> {
        if self.vms.is_empty() {
            return Err(Fault::NoVm);
        }
        if !SLICES.contains(&self.slice) {
            return Err(Fault::Slice { slice: self.slice });
        }
        let Trace { records, .. } = self.trace;
        if records != 0 && !(TRACE_RECORDS.contains(&records) && records.is_power_of_two()) {
            return Err(Fault::Trace { records });
        }
        self.check_names()?;
        self.check_cpus()?;
        for (index, vm) in self.vms.iter().enumerate() {
            vm.check(index, payload_len)?;
            slots::check(self, index, vm)?;
        }
        channels::check(self)?;
        promises::check(self)?;
        devices::check(self)
    }

    fn check_names(&self) -> Result<(), Fault> {
        for (index, vm) in self.vms.iter().enumerate() {
            if vm.name.is_empty() || !vm.name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(Fault::Name { vm: index });
            }
            if self
                .vms
                .iter()
                .take(index)
                .any(|other| other.name == vm.name)
            {
                return Err(Fault::SameName { vm: index });
            }
        }
        Ok(())
    }

    fn check_cpus(&self) -> Result<(), Fault> {
        let mut counts = [0; MAX_CPUS];
        for (vm, config) in self.vms.iter().enumerate() {
            if config.cpus.is_empty() {
                return Err(Fault::NoVcpu { vm });
            }
            if self.gic == GicVersion::V2 && config.cpus.len() > GICV2_CPUS {
                return Err(Fault::ManyVcpusOnGicv2 { vm });
            }
            for &cpu in &config.cpus {
                if cpu.index() >= MAX_CPUS {
                    return Err(Fault::NoSuchCpu { vm, cpu });
                }
                let count = counts.get_mut(self.counted_at(cpu));
                let count = count.ok_or(Fault::NoSuchCpu { vm, cpu })?;
                *count += 1;
                if *count > MAX_ENTITIES {
                    return Err(Fault::TooManyVcpus { cpu });
                }
            }
        }
        Ok(())
    }
}

impl VmConfig {
    fn check(&self, vm: usize, payload_len: u64) -> Result<(), Fault> {
        let len = self.memory.len();
        if self.memory.start() != platform::RAM
            || len == 0
            || !len.is_multiple_of(PAGE_SIZE)
            || len > MAX_MEMORY
        {
            return Err(Fault::Memory { vm });
        }
        let entry = self.entry;
        let firmware = self.firmware().and_then(Blob::span);
        let inside = self.memory.contains(entry) || firmware.is_some_and(|at| at.contains(entry));
        // As in PSCI's CPU_ON, bit 0 says that AArch32 code begins in T32.
        let word = entry.is_aligned(4) || self.aarch32 && entry.get() & 1 == 1;
        if !inside || !word {
            return Err(Fault::Entry { vm, entry });
        }
        self.check_blobs(vm, payload_len)
    }

    fn check_blobs(&self, vm: usize, payload_len: u64) -> Result<(), Fault> {
        for (index, blob) in self.blobs.iter().enumerate() {
            let span = blob.check((vm, index), payload_len, self.channels.len())?;
            match blob.kind {
                BlobKind::Firmware => self.check_firmware(vm, index, &span)?,
                BlobKind::Variables => {
                    let there = Span::new(NOR, NOR_STORED).is_some_and(|all| all.covers(&span));
                    if !there || span.start() != NOR || !self.has(DeviceKind::Nor) {
                        return Err(Fault::Variables { vm, blob: index });
                    }
                }
                _ if !self.memory.covers(&span) => {
                    return Err(Fault::OutsideMemory { vm, blob: index });
                }
                _ => {}
            }
            let mut earlier = self.blobs.iter().take(index).filter_map(Blob::span);
            if earlier.any(|other| other.overlaps(&span)) {
                return Err(Fault::Overlap { vm, blob: index });
            }
        }
        Ok(())
    }

    fn check_firmware(&self, vm: usize, blob: usize, span: &Span<Ipa>) -> Result<(), Fault> {
        let mut earlier = self.blobs.iter().take(blob);
        if earlier.any(|other| other.kind == BlobKind::Firmware) {
            return Err(Fault::SecondFirmware { vm, blob });
        }
        if span.start() != platform::FLASH || span.len() > FIRMWARE_SIZE {
            return Err(Fault::Firmware { vm, blob });
        }
        Ok(())
    }
}

impl Blob {
    /// The blob's range in the VM's memory or flash; `None` if it exceeds the address space.
    pub fn span(&self) -> Option<Span<Ipa>> {
        Span::new(self.load, self.len)
    }

    fn check(
        &self,
        (vm, blob): (usize, usize),
        payload_len: u64,
        channels: usize,
    ) -> Result<Span<Ipa>, Fault> {
        if self.len == 0 {
            return Err(Fault::Empty { vm, blob });
        }
        let end = self.offset.checked_add(self.len);
        if end.is_none_or(|end| end > payload_len) || !self.offset.is_multiple_of(8) {
            return Err(Fault::OutsidePayload { vm, blob });
        }
        let inside =
            |&(offset, len): &(u32, u32)| len > 0 && u64::from(offset) + u64::from(len) <= self.len;
        // One of RAM, and one of each channel's memory.
        let len = 8 + channels as u32 * HOST_ADDRESS_STRIDE;
        let address = self.host_address.map(|offset| (offset, len));
        let mut patched = self.seeds.iter().chain(&address);
        let plain = self.seeds.is_empty() && address.is_none();
        if !patched.all(inside) || !(plain || self.kind == BlobKind::DeviceTree) {
            return Err(Fault::Seed { vm, blob });
        }
        self.span()
            .filter(|span| span.start().is_aligned(8))
            .ok_or(Fault::OutsideMemory { vm, blob })
    }
}
