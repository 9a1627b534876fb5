//! What /proc tells of threads.

use alloc::format;
use alloc::vec::Vec;

use super::{path, text_of};
use crate::machine::Thread;
use hanok_syscalls::file::{self, Access};

/// The thread of this number.
pub fn thread(number: i32) -> Option<Thread> {
    let stat = text_of(&format!("/proc/{number}/stat")).ok()?;
    let status = text_of(&format!("/proc/{number}/status")).ok()?;
    // The name, which may hold anything, ends at the last parenthesis; the state follows, which is the third value.
    let (_, behind) = stat.rsplit_once(')')?;
    let start = behind.split_ascii_whitespace().nth(22 - 3)?;
    let value = |key| status.lines().find_map(|line| line.strip_prefix(key));
    let process = value("Tgid:")?.trim();
    let user = value("Uid:")?.split_ascii_whitespace().next()?;
    Some(Thread {
        number,
        process: process.parse().ok()?,
        user: user.parse().ok()?,
        start: start.parse().ok()?,
    })
}

/// The number of CPUs, those included on which this program may not be.
pub fn cpus() -> Option<usize> {
    let online = text_of("/sys/devices/system/cpu/online").ok()?;
    let last = online.trim().rsplit([',', '-']).next()?;
    last.parse::<usize>().ok()?.checked_add(1)
}

/// The CPU that a thread was on last.
pub fn last_cpu(number: i32) -> Option<usize> {
    let stat = text_of(&format!("/proc/{number}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_ascii_whitespace().nth(39 - 3)?.parse().ok()
}

/// The CPU time of a thread in nanoseconds.
pub fn used(number: i32) -> Option<u64> {
    let process = thread(number)?.process;
    let statistics = text_of(&format!("/proc/{process}/task/{number}/schedstat")).ok()?;
    statistics.split_ascii_whitespace().next()?.parse().ok()
}

/// All processes of this name.
pub fn programs(name: &str) -> Vec<i32> {
    let mut found = Vec::new();
    let Ok(folder) = file::open(c"/proc", Access::Folder) else {
        return found;
    };
    // A folder that cannot be read to its end has told a part.
    let _ = folder.names(|entry| {
        if let Some(number) = entry
            .to_str()
            .ok()
            .and_then(|entry| entry.parse::<i32>().ok())
        {
            let of = file::read(&path(&format!("/proc/{number}/comm")), &mut [0; 64])
                .map(|bytes| bytes.trim_ascii() == name.as_bytes());
            if of == Ok(true) {
                found.push(number);
            }
        }
        true
    });
    found
}
