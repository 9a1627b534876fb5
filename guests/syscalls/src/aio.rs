//! Transfers of a file that go on while the program does: Linux' asynchronous input and output (io_submit(2)).
//!
//! Each transfer that can be under way has a buffer of its own, which nobody else sees. So whatever Linux writes there, and
//! whenever, no other value of the program changes.

use crate::error::{Errno, Result};
use crate::file::Descriptor;
use crate::memory::Mapping;
use crate::raw;

/// The most transfers that can be under way.
pub const MOST: usize = 32;

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the file (IOCB_CMD_PREAD).
    Read = 0,
    /// To the file (IOCB_CMD_PWRITE).
    Write = 1,
}

/// struct iocb (include/uapi/linux/aio_abi.h), on a little-endian machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Control {
    data: u64,
    key: u32,
    flags: u32,
    operation: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: u64,
    reserved: u64,
    more_flags: u32,
    event: u32,
}

/// struct io_event, of the same file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    data: u64,
    control: u64,
    answer: i64,
    answer_2: i64,
}

/// Transfers of one file, all of one length.
#[derive(Debug)]
pub struct Transfers<'a> {
    file: &'a Descriptor,
    context: usize,
    buffers: Mapping,
    bytes: usize,
    controls: [Control; MOST],
    /// Which ones are Linux', from [`Self::prepare`] on.
    under_way: [bool; MOST],
    /// Those that [`Self::submit`] gives to Linux.
    ready: [usize; MOST],
    count: usize,
}

impl<'a> Transfers<'a> {
    /// Up to [`MOST`] transfers of `bytes` bytes each.
    pub fn new(file: &'a Descriptor, bytes: usize) -> Result<Self> {
        let buffers = Mapping::new(bytes * MOST)?;
        let mut context = 0_usize;
        let arguments = [MOST, (&raw mut context) as usize, 0, 0, 0, 0];
        // SAFETY: it writes the context.
        unsafe { raw::checked(raw::IO_SETUP, arguments) }?;
        Ok(Self {
            file,
            context,
            buffers,
            bytes,
            controls: [Control::default(); MOST],
            under_way: [false; MOST],
            ready: [0; MOST],
            count: 0,
        })
    }

    /// The data of transfer `index`, unless it is under way.
    pub fn data(&mut self, index: usize) -> Option<&mut [u8]> {
        if *self.under_way.get(index)? {
            return None;
        }
        let start = self.buffers.start();
        // SAFETY: the mapping has `bytes` bytes for each transfer, and Linux uses those of transfers under way alone.
        let data = unsafe { start.add(index * self.bytes) };
        // SAFETY: the same; the slice borrows this value, so that no transfer begins meanwhile.
        Some(unsafe { core::slice::from_raw_parts_mut(data.as_ptr(), self.bytes) })
    }

    /// Makes transfer `index` ready, which must not be under way, from or to `offset` of the file.
    pub fn prepare(&mut self, index: usize, direction: Direction, offset: u64) -> Result<()> {
        let buffer = self.buffers.start().as_ptr() as u64 + (index * self.bytes) as u64;
        let control = self.controls.get_mut(index).ok_or(Errno::INVAL)?;
        *self.under_way.get_mut(index).ok_or(Errno::INVAL)? = true;
        *control = Control {
            data: index as u64,
            operation: direction as u16,
            file: self.file.number() as u32,
            buffer,
            bytes: self.bytes as u64,
            offset,
            ..Control::default()
        };
        let ready = self.ready.get_mut(self.count).ok_or(Errno::INVAL)?;
        *ready = (&raw mut *control) as usize;
        self.count += 1;
        Ok(())
    }

    /// Gives all that are ready to Linux.
    pub fn submit(&mut self) -> Result<()> {
        let mut given = 0;
        while given < self.count {
            let list = self.ready.as_ptr() as usize + given * size_of::<usize>();
            let arguments = [self.context, self.count - given, list, 0, 0, 0];
            // SAFETY: it reads the list and what that names, and transfers to and from buffers of this value, which ends
            // all transfers before it ends.
            given += unsafe { raw::checked(raw::IO_SUBMIT, arguments) }?;
        }
        self.count = 0;
        Ok(())
    }

    /// Waits until a transfer is done, and calls `each` with the index of each that is.
    ///
    /// # Errors
    /// Linux' own, of a transfer as of the call; a transfer that is not whole is [`Errno::INVAL`].
    pub fn wait(&mut self, mut each: impl FnMut(usize)) -> Result<()> {
        let mut done = [Done::default(); MOST];
        let arguments = [self.context, 1, MOST, done.as_mut_ptr() as usize, 0, 0];
        // SAFETY: it writes no more than the list has places.
        let count = unsafe { raw::checked(raw::IO_GETEVENTS, arguments) }?;
        for one in done.iter().take(count) {
            if let Some(under_way) = self.under_way.get_mut(one.data as usize) {
                *under_way = false;
            }
            if one.answer < 0 {
                return Err(Errno(one.answer.unsigned_abs() as u16));
            }
            if one.answer as usize != self.bytes {
                return Err(Errno::INVAL);
            }
            each(one.data as usize);
        }
        Ok(())
    }
}

impl Drop for Transfers<'_> {
    fn drop(&mut self) {
        // SAFETY: it ends all transfers, or waits for them.
        unsafe { raw::call(raw::IO_DESTROY, [self.context, 0, 0, 0, 0, 0]) };
    }
}
