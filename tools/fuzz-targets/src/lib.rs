//! What a fuzzer does with bytes: a function for each parser, decoder and device model
//! that takes what comes from outside.
//!
//! They are ordinary functions in an ordinary crate so that two callers share them: the
//! libFuzzer programs in fuzz/, which need a nightly compiler, and this crate's own test,
//! which runs each over damaged real inputs on every `cargo test`. A target panics where
//! something that is promised does not hold; that nothing panics is only the least of it.
//!
//! [`TARGETS`] is the list; fuzz/README.md says what each one looks for.

#![forbid(unsafe_code)]

mod aarch32;
mod back_end;
mod bytes;
mod cli;
mod console;
mod decode;
mod devices;
mod exits;
mod memory;
pub mod mutate;
mod paging;
mod previrt;
mod runs;
mod schedule;
mod system;
mod trees;
mod vgic;
mod virtio;

pub use aarch32::aarch32;
pub use back_end::back_end;
pub use cli::{apt_packages, apt_sources, demultiplexer, run_script, scenario};
pub use console::console;
pub use decode::{load_store, syndrome};
pub use devices::{bus, pl011, pl031};
pub use exits::exits;
pub use memory::memory;
pub use paging::paging;
pub use previrt::{previrt_file, previrt_side, previrt_unpack};
pub use schedule::schedule;
pub use system::{board_file, description, hypervisor_binary, kernel_image};
pub use trees::{board_tree, guest_tree, system_tree};
pub use vgic::vgic;
pub use virtio::virtio;

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is also its function's and its program's.
    pub name: &'static str,
    /// Runs the target with one input.
    pub run: fn(&[u8]),
    /// Valid inputs with which a fuzzer begins.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds }
}

/// Every target.
pub const TARGETS: [Target; 29] = [
    target("system_tree", system_tree, trees::system_seeds),
    target("board_tree", board_tree, trees::board_seeds),
    target("guest_tree", guest_tree, mutate::noise),
    target("description", description, system::description_seeds),
    target("schedule", schedule, schedule::seeds),
    target("board_file", board_file, system::board_seeds),
    target("kernel_image", kernel_image, system::kernel_seeds),
    target("hypervisor_binary", hypervisor_binary, system::binary_seeds),
    target("syndrome", syndrome, decode::syndrome_seeds),
    target("load_store", load_store, decode::load_store_seeds),
    target("aarch32", aarch32, aarch32::seeds),
    target("vgic", vgic, mutate::noise),
    target("pl011", pl011, mutate::noise),
    target("pl031", pl031, mutate::noise),
    target("bus", bus, mutate::noise),
    target("virtio", virtio, virtio::seeds),
    target("back_end", back_end, back_end::seeds),
    target("paging", paging, mutate::noise),
    target("memory", memory, mutate::noise),
    target("exits", exits, mutate::noise),
    target("console", console, mutate::noise),
    target("apt_sources", apt_sources, cli::sources_seeds),
    target("apt_packages", apt_packages, cli::packages_seeds),
    target("run_script", run_script, cli::script_seeds),
    target("scenario", scenario, cli::scenario_seeds),
    target("demultiplexer", demultiplexer, mutate::noise),
    target("previrt_file", previrt_file, previrt::file_seeds),
    target("previrt_side", previrt_side, previrt::side_seeds),
    target("previrt_unpack", previrt_unpack, previrt::unpack_seeds),
];
