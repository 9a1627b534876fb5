//! The source of random bytes (virtio 1.2, 5.4), which the hypervisor serves by itself.

use super::Fault;
use super::queue::{Listening, Queue};
use hanok_hal::GuestMemory;

/// The most bytes that a request is given. A driver asks again if it wants more.
pub(super) const MOST: usize = 32;

/// Answers the next request with bytes of `fill`, or asks to be notified of it. The answer is whether there may be another one.
pub(super) fn serve(
    queue: &mut Queue,
    memory: &impl GuestMemory,
    fill: impl FnOnce(&mut [u8]),
) -> Result<bool, Fault> {
    let Some(head) = queue.peek(memory)? else {
        return Ok(queue.listen(memory, true)? == Listening::More);
    };
    // The first buffer is one to write, as all are (5.4.6.1).
    let buffer = queue
        .chain(head)
        .next(memory)?
        .filter(|buffer| buffer.write);
    let mut bytes = [0; MOST];
    let count = buffer.map_or(0, |buffer| buffer.bytes.min(MOST as u32));
    let given = bytes.get_mut(..count as usize).unwrap_or_default();
    if let Some(buffer) = buffer {
        fill(given);
        memory.write(buffer.at, given)?;
    }
    queue.finish(memory, head, count)?;
    queue.advance();
    Ok(true)
}
