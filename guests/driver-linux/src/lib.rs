//! A driver VM on a stock Linux: a program that serves virtio devices of other VMs (`hanok_abi::back_end`) with what Linux has.
//! Disks are images in its file systems, networks are tap interfaces, directories are its own.
//!
//! It trusts neither its clients, whose requests may be anything, nor needs it to be trusted: the hypervisor copies what a
//! request names. The rings are in a huge page, whose address it knows, and which outlives it: whoever kills it leaves the hypervisor nothing to
//! write to but that page. It answers a request only when what was written is safe on its disk. So a
//! program that is killed, or a VM that is reset, has answered nothing that is lost; the rest is given again.
//!
//! | module | |
//! |---|---|
//! | `nodes` | what is to be served, from the device tree |
//! | `registers` | a back end's registers, by /dev/mem |
//! | `pages` | memory for rings: a huge page, with its address in the VM |
//! | `bell` | the interrupt of a back end, as an input event |
//! | `memory` | what is in it, by addresses of the VM |
//! | `ring` | the requests in it, and the offer |
//! | `block` | the requests of a disk |
//! | `pieces` | the bytes of a request |
//! | `directory` | the requests of a directory: 9P2000.L |
//! | `network`, `tap` | the frames of a network, and the interface behind it |
//! | `image` | what is on a disk: a raw file or qcow2 |
//! | `service` | a device from the offer on, in a thread of its own |
//! | `heart` | whether all goes on, for whoever restarts the program if not |
//! | `words` | what is told, and how often |

pub mod bell;
pub mod block;
pub mod directory;
pub mod heart;
pub mod image;
pub mod memory;
pub mod network;
pub mod nodes;
pub mod pages;
pub mod pieces;
pub mod registers;
pub mod ring;
pub mod service;
pub mod tap;
pub mod words;
