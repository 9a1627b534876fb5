//! Disks, networks and directories as a client has them, by rings as the hypervisor makes them.

mod common;
mod directories;
mod images;
mod lies;
mod networks;
mod requests;
mod words;
