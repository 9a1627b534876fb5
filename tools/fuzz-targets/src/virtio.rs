//! A target for a virtio device's registers and queues, whose driver keeps no rule.

use crate::bytes::Bytes;
use hanok_devices::Access;
use hanok_devices::virtio::{
    Chain, Event, Fail, Fault, Identity, LONGEST, Queue, Transport, feature,
};
use hanok_hal::fake::FakeGuestMemory;
use hanok_hal::{AccessError, GuestMemory};
use hanok_types::{Ipa, PAGE_SIZE, Width};

const RAM: u64 = 0x4000_0000;
const PAGES: u64 = 8;

/// Stores by which a driver that keeps the rules sets up queue 0, with 16 places: registers and values.
const SET_UP: [(u64, u32); 14] = [
    (0x70, 3),
    (0x24, 0),
    (0x20, (feature::INDIRECT | feature::EVENT_INDEX) as u32),
    (0x24, 1),
    (0x20, 1),
    (0x70, 11),
    (0x30, 0),
    (0x38, 16),
    (0x80, RAM as u32),
    (0x90, RAM as u32 + 0x400),
    // Its index is in another page than its entries.
    (0xa0, RAM as u32 + 0x1ffc),
    (0x44, 1),
    (0x70, 15),
    (0x50, 0),
];

fn store(transport: &mut Transport, offset: u64, value: u32) -> Event {
    let access = Access::store(Ipa::new(offset), Width::Word, value.into());
    transport.access(offset, access, &[]).1
}

/// Walks a chain whose buffers lie in the address space, one after the other, those to write last.
fn walk(chain: &mut Chain, memory: &FakeGuestMemory) -> Result<(), Fault> {
    let (mut count, mut bytes, mut writes) = (0, 0_u64, false);
    loop {
        let before = *chain;
        match chain.next(memory) {
            Ok(Some(buffer)) => {
                count += 1;
                bytes += u64::from(buffer.bytes);
                assert!(buffer.at.get().checked_add(buffer.bytes.into()).is_some());
                assert!(buffer.write || !writes);
                writes = buffer.write;
                assert!(count <= LONGEST);
                assert_eq!(u64::from(chain.bytes()), bytes);
            }
            Ok(None) => return Ok(()),
            Err(fault) => {
                assert_eq!(*chain, before);
                return Err(fault);
            }
        }
    }
}

/// Serves one chain of a queue. What fails for want of memory has changed nothing.
fn serve(queue: &mut Queue, memory: &FakeGuestMemory, tell: &mut bool) -> Result<(), Fault> {
    let Some(head) = queue.peek(memory)? else {
        return Ok(());
    };
    let mut chain = queue.chain(head);
    walk(&mut chain, memory)?;
    let before = *queue;
    queue.finish(memory, head, chain.bytes()).inspect_err(|_| {
        assert_eq!(*queue, before);
    })?;
    queue.advance();
    *tell |= queue.has_to_tell(memory)?;
    Ok(())
}

/// A driver that stores anything to registers and memory meets a device that serves it.
pub fn virtio(data: &[u8]) {
    let mut input = Bytes(data);
    let mut transport = Transport::new(Identity {
        device: 4,
        features: feature::VERSION_1 | feature::INDIRECT | feature::EVENT_INDEX,
        queues: 2,
        queue_size: 64,
    });
    let memory = FakeGuestMemory::new(Ipa::new(RAM), (PAGES * PAGE_SIZE) as usize);
    for (offset, value) in SET_UP {
        let event = store(&mut transport, offset, value);
        assert_eq!(event == Event::Notified(0), offset == 0x50);
    }
    while !input.is_empty() {
        match input.byte() % 8 {
            0 => {
                let (offset, value) = (u64::from(input.byte()) * 4, input.word());
                let live = transport.is_live();
                let event = store(&mut transport, offset, value);
                assert!(!matches!(event, Event::Notified(_)) || live);
            }
            1 => {
                let (offset, width) = (input.number(), input.width());
                let access = Access::load(Ipa::new(offset), width);
                let (value, _) = transport.access(offset, access, &[7; 12]);
                assert_eq!(value & !width.mask(), 0);
            }
            2 => {
                let page = Ipa::new(RAM + u64::from(input.byte()) % PAGES * PAGE_SIZE);
                memory.take_page(page);
                if input.flag() {
                    memory.give_page(page);
                }
            }
            3 => {
                // A descriptor, near the rules.
                let at = RAM + u64::from(input.byte() % 16) * 16;
                let place = match input.byte() % 4 {
                    0 => input.number(),
                    _ => RAM + u64::from(input.half()) % (PAGES * PAGE_SIZE),
                };
                let bytes = u64::from(input.byte()) * 16;
                let flags = u64::from(input.byte() % 8) << 32 | u64::from(input.byte() % 17) << 48;
                let words = [place.to_le_bytes(), (bytes | flags).to_le_bytes()];
                let _ = memory.write(Ipa::new(at), &words.concat());
            }
            4 => {
                let at = RAM + u64::from(input.half()) % (PAGES * PAGE_SIZE);
                let _ = memory.write(Ipa::new(at), &input.word().to_le_bytes());
            }
            5 => {
                // One more chain.
                let index = memory.load_half(Ipa::new(RAM + 0x402)).unwrap_or(0);
                let entry = RAM + 0x404 + u64::from(index % 16) * 2;
                let _ = memory.store_half(Ipa::new(entry), (input.byte() % 17).into());
                let _ = memory.store_half(Ipa::new(RAM + 0x402), index.wrapping_add(1));
            }
            _ => {
                let index = usize::from(input.byte() % 4);
                let (mut tell, wants) = (false, input.flag());
                let served = transport.queue(index).map(|queue| {
                    serve(queue, &memory, &mut tell)?;
                    queue.listen(&memory, wants).map(|_| ())
                });
                if tell {
                    transport.tell_used();
                    assert!(transport.level());
                }
                match served {
                    Some(Err(Fault { cause, .. }))
                        if !matches!(cause, Fail::Memory(AccessError::Absent(_))) =>
                    {
                        transport.break_down();
                        assert!(transport.queue(index).is_none());
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Set-ups with requests of each kind, for a fuzzer to begin with.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let descriptor = |index: u8, flags: u8, next: u8| vec![3, index, 1, 0, 0x40, 2, flags, next];
    let request = vec![5, 0, 6, 0, 1];
    let one = [descriptor(0, 0, 0), request.clone()].concat();
    let chain = [
        descriptor(0, 1, 1),
        descriptor(1, 3, 2),
        descriptor(2, 2, 0),
        request.clone(),
    ]
    .concat();
    let circle = [descriptor(0, 1, 0), request.clone()].concat();
    let table = [descriptor(0, 4, 0), request, vec![0, 0x1c, 0, 0, 0, 0]].concat();
    vec![one, chain, circle, table]
}
