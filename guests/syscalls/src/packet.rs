//! Frames of a network interface, as they are on the wire: packet(7).

use crate::error::Result;
use crate::file::Descriptor;
use crate::raw;

const PACKET: usize = 17;
const RAW: usize = 3;
const CLOSE_ON_EXEC: usize = 0o2_000_000;
/// SOL_SOCKET and SO_RCVTIMEO, whose time is of two longs.
const OF_SOCKET: usize = 1;
const PATIENCE: usize = 20;

/// struct sockaddr_ll.
#[repr(C)]
#[derive(Default)]
struct Address {
    family: u16,
    protocol: u16,
    interface: i32,
    hardware: u16,
    kind: u8,
    length: u8,
    address: [u8; 8],
}

/// A socket that sends frames by interface number `interface` and receives those of this EtherType, one by each write and read. A read
/// waits `seconds` seconds at the most, and ends in [`crate::Errno::AGAIN`] then; a write waits while too many frames are under way.
pub fn open(interface: i32, ether_type: u16, seconds: usize) -> Result<Descriptor> {
    let protocol = ether_type.to_be();
    let kind = RAW | CLOSE_ON_EXEC;
    // SAFETY: it reads and writes nothing.
    let number = unsafe { raw::checked(raw::SOCKET, [PACKET, kind, protocol.into(), 0, 0, 0]) }?;
    let socket = Descriptor::new(number);
    let time = [seconds, 0];
    let place = time.as_ptr() as usize;
    let arguments = [number, OF_SOCKET, PATIENCE, place, size_of_val(&time), 0];
    // SAFETY: it reads the time.
    unsafe { raw::checked(raw::SETSOCKOPT, arguments) }?;
    let address = Address {
        family: PACKET as u16,
        protocol,
        interface,
        ..Address::default()
    };
    let place = &raw const address as usize;
    // SAFETY: it reads the address.
    unsafe { raw::checked(raw::BIND, [number, place, size_of::<Address>(), 0, 0, 0]) }?;
    Ok(socket)
}
