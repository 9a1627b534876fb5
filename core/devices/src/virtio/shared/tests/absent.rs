//! Requests in memory of which pages are absent for a while.

use super::*;
use hanok_types::PAGE_SIZE;

/// Serves until nothing is left or a page is absent. The answer is whether that was so.
fn is_stopped(world: &World, for_driver: bool) -> bool {
    let both = (&world.client, Some(&world.driver), &world.memories[..]);
    for _ in 0..1000 {
        match world.device.serve(both, for_driver, |_| {}) {
            Served::Some => {}
            ended => return ended != Served::All,
        }
    }
    panic!("it never ends");
}

/// One request goes there and back, while the page at `at` of the client's or of the driver VM's memory is absent on one of
/// the two ways. The answer is whether it waited for the page.
fn waits(places: Places, of_driver: bool, at: Ipa, on_way_back: bool) -> bool {
    let mut world = World::ready_at(places, false);
    let memory = if of_driver {
        world.driver.clone()
    } else {
        world.client.clone()
    };
    let serve_without = |world: &World, for_driver| {
        memory.0.take_page(at);
        let stopped = is_stopped(world, for_driver);
        memory.0.give_page(at);
        stopped
    };
    // More than are described in one step, each copied, and of several pages.
    let headers = (0..7).map(|index| (BUFFERS + 0x400 * index, 16, false));
    let buffers: Vec<Buffer> = headers.chain([(BUFFERS + 0x2100, 700, true)]).collect();
    for (index, (at, ..)) in (0..7).zip(&buffers) {
        world.client.write(Ipa::new(*at), &[index; 16]).unwrap();
    }
    world.make(3, &buffers);
    let there = !on_way_back && serve_without(&world, false);
    world.serve(false);
    let (head, parts) = world.take().expect("a request");
    assert_eq!((head, world.take(), parts.len()), (3, None, 8));
    for (index, (at, ..)) in (0..7).zip(&parts) {
        assert_eq!(bytes(&world.driver, *at, 16), [index; 16]);
    }
    let answer: Vec<u8> = (0..700).map(|byte| byte as u8).collect();
    world.driver.write(Ipa::new(parts[7].0), &answer).unwrap();
    world.give(3, 700);
    let back = on_way_back && serve_without(&world, true);
    world.serve(true);
    assert_eq!((world.see(), world.see()), (Some((3, 700)), None));
    assert_eq!(bytes(&world.client, BUFFERS + 0x2100, 700), answer);
    // Nobody has broken a rule: the next request is served.
    assert_eq!(world.back(register::CONTROL), control::OFFER);
    world.make(3, &buffers);
    world.serve(false);
    assert!(world.take().is_some());
    world.give(3, 700);
    world.serve(true);
    assert_eq!((world.see(), world.see()), (Some((3, 700)), None));
    there || back
}

/// How many pages a request waits for: of the client's memory, there and back, and of the driver VM's.
fn counts(places: Places) -> [[usize; 2]; 2] {
    [false, true].map(|of_driver| {
        [false, true].map(|on_way_back| {
            let pages = (0..RAM_SIZE / PAGE_SIZE).map(|page| Ipa::new(RAM + page * PAGE_SIZE));
            pages
                .filter(|at| waits(places, of_driver, *at, on_way_back))
                .count()
        })
    })
}

/// Whichever page is absent, of either VM: the request waits, goes on once the page is there, and is given once.
#[test]
fn a_request_waits_for_any_page() {
    // The client's queue, its table, and the pages of its buffers; its queue, its table and the page with the answer. The driver VM's ring and slots.
    assert_eq!(counts(PLACES), [[4, 3], [2, 2]]);
}

/// So it does where the last words of both rings, by which each side says what it wants to be told of, are in pages of their own.
#[test]
fn a_request_waits_for_pages_with_the_ends_of_rings() {
    let places = Places {
        driver: RAM + 0x1000 - 4 - 2 * u64::from(SIZE),
        device: RAM + 0x4000 - 4 - 8 * u64::from(SIZE),
        ..PLACES
    };
    // For what the driver VM wants to be told of nobody waits: it is told.
    assert_eq!(counts(places), [[5, 4], [2, 3]]);
}
