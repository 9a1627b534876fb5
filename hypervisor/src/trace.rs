//! The memory of the board's trace.

use crate::arena::Arena;
use crate::fatal::refuse;
use core::sync::atomic::AtomicUsize;
use hanok_abi::trace::{AARCH32, AARCH64, area_size};
use hanok_config::SystemView;
use hanok_pcpu::Traces;
use hanok_trace::{Area, Choice, Facts};
use hanok_types::PAGE_SIZE;
use hanok_vm::Names;

/// The trace of a board with so many CPUs, whose counter has this frequency; one without memory if the description gives
/// it none.
pub fn set_up(
    system: &SystemView<'_>,
    (rings, frequency): (usize, u64),
    names: &'static Names,
    arena: &mut Arena,
) -> Traces {
    let records = system.trace.records as usize;
    if records == 0 {
        return Traces::default();
    }
    let bytes = area_size(rings, records).next_multiple_of(PAGE_SIZE as usize);
    let Ok(memory) = arena.free.allocate(bytes as u64, PAGE_SIZE) else {
        refuse(format_args!(
            "no memory for the trace, {} KiB: give it smaller rings, or the VMs less memory",
            bytes >> 10
        ))
    };
    // SAFETY: free RAM, mapped one to one for ever, which is handed out here alone; any bytes are atomic words.
    let words: &'static [AtomicUsize] = unsafe {
        let start = memory.start().get() as *const AtomicUsize;
        core::slice::from_raw_parts(start, bytes / size_of::<usize>())
    };
    let facts = Facts {
        rings,
        records,
        frequency,
        architecture: if cfg!(target_arch = "aarch64") {
            AARCH64
        } else {
            AARCH32
        },
        names,
    };
    let Some(area) = Area::lay(words, facts) else {
        refuse(format_args!(
            "{records} records of a trace are not a power of two"
        ))
    };
    let tracers = (0..rings).filter_map(|index| area.tracer(index));
    let Some(tracers) = arena.put_all(rings, tracers) else {
        refuse(format_args!("no memory for the CPUs' tracers"))
    };
    let choice = Choice {
        classes: system.trace.classes,
        vms: u64::MAX,
    };
    Traces::new(area, memory, tracers, choice)
}
