//! Memory for rings: a huge page, which is contiguous and stays where it is, so that its address in the VM can be told to the
//! hypervisor.
//!
//! It is a file of a hugetlbfs, which no process has to hold: when this program is killed, the hypervisor goes on writing requests there for
//! a while, and the page must not have become anybody else's. The next one finds the same file.
//!
//! Linux moves a huge page only out of the way of its contiguous allocator (CMA). A pin for long (that of io_uring's buffers) moves the
//! page out of that allocator's area at once, and for good.

use crate::memory::{Memory, SIZE};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, ftruncate, open, statfs};
use rustix::io::Errno;
use rustix::io_uring::{
    IoringRegisterOp, io_uring_params, io_uring_register, io_uring_setup, iovec,
};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::mount::{MountFlags, mount};
use std::ffi::c_void;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Mutex;

const FOLDER: &str = "/run/hanok-driver";
const COUNT: &str = "/proc/sys/vm/nr_hugepages";
/// What statfs(2) says of a hugetlbfs.
const HUGETLBFS: u32 = 0x958458f6;
/// Bits of an entry of /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst): the number of the page, and that it is in memory.
const NUMBER: u64 = (1 << 55) - 1;
const PRESENT: u64 = 1 << 63;

/// A huge page. It stays mapped.
#[derive(Debug)]
pub struct Page {
    /// Its memory, by addresses of the VM.
    pub memory: Memory,
    /// The file is locked as long as it is open.
    _file: OwnedFd,
    _pin: OwnedFd,
}

impl Page {
    /// The page of the back end whose registers are at this address. It is as the program before has left it.
    ///
    /// # Errors
    /// There is no huge page, its address is not told, or another program uses it.
    pub fn open(registers: u64) -> Result<Self, String> {
        let path = format!("{FOLDER}/{registers:x}");
        let says = |what: &str, error: Errno| format!("{path}: {what}: {error}");
        prepare().map_err(|error| says("hugetlbfs (CONFIG_HUGETLBFS is needed)", error))?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = open(&path, flags, Mode::RUSR | Mode::WUSR);
        let file = file.map_err(|error| says("open", error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| format!("{path}: another program serves this device"))?;
        ftruncate(&file, SIZE as u64).map_err(|error| says("size", error))?;
        let place = take(|| map(&file));
        let remedy = "there is no huge page of 2 MiB: give the VM more memory";
        let place = place.map_err(|error| format!("{path}: {error}: {remedy}"))?;
        let pin =
            pin(place).map_err(|error| says("io_uring (CONFIG_IO_URING is needed)", error))?;
        let address = address(place)?;
        Ok(Self {
            // SAFETY: it is mapped for ever, and this program has no references to shared memory.
            memory: unsafe { Memory::new(place.cast(), address) },
            _file: file,
            _pin: pin,
        })
    }
}

/// Mounts the file system, unless it is.
fn prepare() -> Result<(), Errno> {
    fs::create_dir_all(FOLDER)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if statfs(FOLDER)?.f_type as u32 == HUGETLBFS {
        return Ok(());
    }
    mount(
        "none",
        FOLDER,
        "hugetlbfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        c"pagesize=2M,mode=700",
    )
}

/// Maps a page, for which Linux sets one more aside if it has none that is free. Threads do so one after the other: else one
/// would take what was set aside for another.
fn take<T>(map: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    match map() {
        Err(Errno::NOMEM) => {}
        other => return other,
    }
    let count = fs::read_to_string(COUNT).ok();
    let count = count.and_then(|text| text.trim().parse::<u64>().ok());
    let count = count.ok_or(Errno::NOMEM)?;
    fs::write(COUNT, (count + 1).to_string()).map_err(|_| Errno::NOMEM)?;
    map()
}

/// Maps the page, which is in memory then.
fn map(file: &OwnedFd) -> Result<NonNull<c_void>, Errno> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: it is a new mapping, at a place that Linux chooses.
    let place = unsafe { mmap(std::ptr::null_mut(), SIZE, protection, flags, file, 0)? };
    NonNull::new(place).ok_or(Errno::FAULT)
}

/// Pins the page for as long as what it returns is open.
fn pin(place: NonNull<c_void>) -> Result<OwnedFd, Errno> {
    let buffer = iovec {
        iov_base: place.as_ptr(),
        iov_len: SIZE,
    };
    // SAFETY: nothing is ever asked of this ring: it only holds the buffer, which stays mapped.
    unsafe {
        let ring = io_uring_setup(1, &mut io_uring_params::default())?;
        let buffers = std::ptr::from_ref(&buffer).cast();
        io_uring_register(&ring, IoringRegisterOp::RegisterBuffers, buffers, 1)?;
        Ok(ring)
    }
}

/// The page's address in the VM.
fn address(place: NonNull<c_void>) -> Result<u64, String> {
    let map = Path::new("/proc/self/pagemap");
    let small = rustix::param::page_size() as u64;
    let mut entry = [0; 8];
    let read = |map: File| map.read_exact_at(&mut entry, place.addr().get() as u64 / small * 8);
    File::open(map)
        .and_then(read)
        .map_err(|error| format!("{}: {error}", map.display()))?;
    let entry = u64::from_le_bytes(entry);
    if entry & PRESENT == 0 || entry & NUMBER == 0 {
        let why = "does not tell the page's address: this program needs root";
        return Err(format!("{} {why}", map.display()));
    }
    Ok((entry & NUMBER) * small)
}
