//! Disks as a client has them, by a ring as the hypervisor makes it.

mod common;
mod directories;
mod images;
mod lies;
mod networks;
mod requests;
