//! A channel to another VM (`channel=NAME` on the command line), by the crate `hanok-channel`.
//!
//! After each of its jobs the task `sensor` publishes a sample in the first half of the memory, and rings the other VM. In the second
//! half that one sends set points, one word each, which the task `control` takes after its jobs. Neither ever waits for the other VM.
//! What is printed of them is a line for each set point.

use crate::state::Once;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use hanok_channel::{Channel, Mapped, Publisher, Receiver, Refused, find, words};
use hanok_guest_runtime::tree::Machine;

/// A channel that was found.
struct Open {
    channel: Channel<Mapped>,
    memory: &'static [AtomicU32],
    /// The index of the other VM.
    other: usize,
}

static OPEN: Once<Open> = Once::new();
/// The set point that came last.
static SET_POINT: AtomicU32 = AtomicU32::new(0);

/// Finds the channel, and says that this VM is there.
pub fn open(machine: &Machine, name: &str) -> Result<(), &'static str> {
    let area = machine.tree;
    // SAFETY: the runtime read the tree there, and nobody changes it.
    let tree = unsafe { core::slice::from_raw_parts(area.start as *const u8, area.size as usize) };
    let found = find(tree, name).ok_or("the device tree has none")?;
    // SAFETY: the runtime maps all that is below RAM as devices, for ever.
    let (registers, memory) = unsafe {
        (
            Mapped::new(found.registers as *mut u32),
            words(found.memory as *mut u8, found.len as usize),
        )
    };
    let channel = Channel::new(registers).ok_or("something else is there")?;
    if channel.is_read_only() {
        return Err("this VM may not write to it");
    }
    let other = usize::from(channel.index() == 0);
    println!(
        "rtos: channel {name}, {} bytes, member {} of {}",
        channel.size(),
        channel.index(),
        channel.members()
    );
    channel.set_state(1);
    OPEN.set(Open {
        channel,
        memory,
        other,
    });
    Ok(())
}

/// What the task with this name does after its job with this number.
pub fn job(task: &str, job: u32) {
    let Some(open) = OPEN.get() else { return };
    let (samples, set_points) = open.memory.split_at(open.memory.len() / 2);
    match task {
        "sensor" => {
            let Some(mut publisher) = Publisher::new(samples) else {
                return;
            };
            let sample = [job, SET_POINT.load(Relaxed)].map(u32::to_le_bytes);
            publisher.publish(sample.as_flattened());
            open.channel.ring(open.other);
        }
        "control" => take_set_points(set_points),
        _ => {}
    }
}

/// Takes a set point, if there is one: one in a job, so that the other VM does not decide how long a job takes.
fn take_set_points(memory: &[AtomicU32]) {
    let mut buffer = [0; 4];
    let Some(mut receiver) = Receiver::new(memory) else {
        return;
    };
    match receiver.receive(&mut buffer) {
        Ok(&[a, b, c, d]) => {
            let value = u32::from_le_bytes([a, b, c, d]);
            SET_POINT.store(value, Relaxed);
            println!("rtos: set point {value}");
        }
        Ok(_) | Err(Refused::TooLong | Refused::Broken) => println!("rtos: no set point"),
        Err(Refused::Later) => {}
    }
}
