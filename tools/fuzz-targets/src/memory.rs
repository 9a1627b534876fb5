//! Targets for the map of free and allocated memory.

use crate::bytes::Bytes;
use hanok_memory::FrameMap;
use hanok_types::{Address, Hpa, Ipa, PAGE_SIZE, Span};

fn spans(input: &mut Bytes<'_>) -> Vec<Span<Hpa>> {
    let count = input.byte() % 8;
    let span = |_| Span::new(Hpa::new(input.number()), input.number());
    (0..count).filter_map(span).collect()
}

/// No memory is lost, given twice, or given outside of RAM.
pub fn memory(data: &[u8]) {
    let mut input = Bytes(data);
    let (ram, reserved) = (spans(&mut input), spans(&mut input));
    let Ok(mut map) = FrameMap::new(&ram, &reserved) else {
        return;
    };
    let (total, before) = (map.free_bytes(), map.free_spans().to_vec());
    let mut allocated = Vec::new();
    while !input.is_empty() {
        step(&mut map, &mut allocated, &mut input);
        check(&map, &ram, &reserved);
        let lent: u64 = allocated.iter().map(Span::len).sum();
        assert_eq!(map.free_bytes() + lent, total);
    }
    for span in allocated {
        assert_eq!(map.free(span), Ok(()));
    }
    assert_eq!(map.free_spans(), before);
}

fn step(map: &mut FrameMap, allocated: &mut Vec<Span<Hpa>>, input: &mut Bytes<'_>) {
    let untouched = map.free_spans().to_vec();
    let same = |map: &FrameMap| assert_eq!(untouched, map.free_spans());
    match input.byte() % 4 {
        0 => {
            let len = input.number();
            let align = if input.flag() {
                1 << (input.byte() % 64)
            } else {
                input.number()
            };
            match map.allocate(len, align) {
                Ok(got) => {
                    assert!(got.start().is_aligned(align.max(PAGE_SIZE)));
                    assert_eq!(got.len(), len.next_multiple_of(PAGE_SIZE));
                    allocated.push(got);
                }
                Err(_) => same(map),
            }
        }
        1 => {
            let (len, ipa) = (input.number(), Ipa::new(input.number() & !(PAGE_SIZE - 1)));
            match map.allocate_for_guest(len, ipa) {
                Ok(got) => {
                    assert_eq!(got.len(), len.next_multiple_of(PAGE_SIZE));
                    allocated.push(got);
                }
                Err(_) => same(map),
            }
        }
        2 => {
            let which = usize::from(input.byte());
            if !allocated.is_empty() {
                let span = allocated.swap_remove(which % allocated.len());
                assert_eq!(map.free(span), Ok(()));
                assert!(map.free(span).is_err(), "freed twice");
            }
        }
        _ => {
            if let Some(span) = Span::new(Hpa::new(input.number()), input.number())
                && !allocated.iter().any(|all| all.covers(&span))
            {
                assert!(map.free(span).is_err());
                same(map);
            }
        }
    }
}

fn check(map: &FrameMap, ram: &[Span<Hpa>], reserved: &[Span<Hpa>]) {
    let (all, free) = (map.all_spans(), map.free_spans());
    for list in [all, free] {
        assert!(list.windows(2).all(|pair| pair[0].end() < pair[1].start()));
    }
    for span in free {
        assert!(!span.is_empty() && all.iter().any(|all| all.covers(span)));
    }
    for span in all {
        assert!(reserved.iter().all(|hole| !hole.overlaps(span)));
        assert!(ram.iter().any(|bank| bank.contains(span.start())));
    }
}
