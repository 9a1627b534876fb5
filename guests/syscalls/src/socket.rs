//! Sockets between programs of one machine, by a path.

use core::ffi::CStr;

use crate::error::{Errno, Result};
use crate::file::Descriptor;
use crate::raw;

const UNIX: usize = 1;
const STREAM: usize = 1;
const CLOSE_ON_EXEC: usize = 0o2_000_000;
const NON_BLOCKING: usize = 0o4000;
/// SOL_SOCKET and SO_PEERCRED.
const OF_SOCKET: usize = 1;
const PEER: usize = 17;
/// MSG_DONTWAIT and MSG_NOSIGNAL: an end that is gone is an error, not a signal.
const AT_ONCE: usize = 0x40;
const NO_SIGNAL: usize = 0x4000;

/// struct sockaddr_un.
#[repr(C)]
struct Address {
    family: u16,
    path: [u8; 108],
}

impl Address {
    fn new(path: &CStr) -> Result<Self> {
        let mut address = Self {
            family: UNIX as u16,
            path: [0; 108],
        };
        let bytes = path.to_bytes_with_nul();
        let place = address.path.get_mut(..bytes.len()).ok_or(Errno::INVAL)?;
        place.copy_from_slice(bytes);
        Ok(address)
    }
}

/// Who is at the other end of a socket, as Linux knows it (struct ucred).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The process.
    pub process: i32,
    /// Its user.
    pub user: u32,
    /// Its group.
    pub group: u32,
}

fn socket(more: usize) -> Result<Descriptor> {
    let arguments = [UNIX, STREAM | CLOSE_ON_EXEC | more, 0, 0, 0, 0];
    // SAFETY: it reads and writes nothing.
    unsafe { raw::checked(raw::SOCKET, arguments) }.map(Descriptor::new)
}

fn at(number: usize, socket: &Descriptor, path: &CStr) -> Result<()> {
    let address = Address::new(path)?;
    let place = &raw const address as usize;
    let arguments = [
        socket.number() as usize,
        place,
        size_of::<Address>(),
        0,
        0,
        0,
    ];
    // SAFETY: it reads the address.
    unsafe { raw::checked(number, arguments) }.map(|_| ())
}

/// Listens at `path`. [`accept`] answers at once, also if nobody has come.
pub fn listen(path: &CStr) -> Result<Descriptor> {
    let socket = socket(NON_BLOCKING)?;
    at(raw::BIND, &socket, path)?;
    // SAFETY: it reads and writes nothing.
    unsafe { raw::checked(raw::LISTEN, [socket.number() as usize, 64, 0, 0, 0, 0]) }?;
    Ok(socket)
}

/// Whoever came to `listener`; its socket answers at once, too.
pub fn accept(listener: &Descriptor) -> Result<Descriptor> {
    let flags = CLOSE_ON_EXEC | NON_BLOCKING;
    let arguments = [listener.number() as usize, 0, 0, flags, 0, 0];
    // SAFETY: it reads and writes nothing.
    unsafe { raw::checked(raw::ACCEPT, arguments) }.map(Descriptor::new)
}

/// Goes to whoever listens at `path`. Reads wait for an answer.
pub fn connect(path: &CStr) -> Result<Descriptor> {
    let socket = socket(0)?;
    at(raw::CONNECT, &socket, path)?;
    Ok(socket)
}

/// Who is at the other end.
pub fn peer(socket: &Descriptor) -> Result<Peer> {
    let mut peer = Peer::default();
    let mut length = size_of::<Peer>() as u32;
    let [place, length] = [&raw mut peer as usize, &raw mut length as usize];
    let arguments = [socket.number() as usize, OF_SOCKET, PEER, place, length, 0];
    // SAFETY: it writes the peer, of this length, and the length.
    unsafe { raw::checked(raw::GETSOCKOPT, arguments) }?;
    Ok(peer)
}

/// Sends as many of the bytes as the other end's buffer takes at once: how many.
pub fn send(socket: &Descriptor, bytes: &[u8]) -> Result<usize> {
    let [place, length] = [bytes.as_ptr() as usize, bytes.len()];
    let arguments = [
        socket.number() as usize,
        place,
        length,
        AT_ONCE | NO_SIGNAL,
        0,
        0,
    ];
    // SAFETY: it reads the slice.
    unsafe { raw::checked(raw::SEND, arguments) }
}
