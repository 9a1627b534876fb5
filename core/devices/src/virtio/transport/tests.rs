//! The registers, as drivers use and abuse them.

use super::*;
use hanok_types::Ipa;
use proptest::prelude::*;

const IDENTITY: Identity = Identity {
    device: 4,
    features: feature::VERSION_1 | feature::EVENT_INDEX | 1 << 3,
    queues: 2,
    queue_size: 64,
};
const BASE: u64 = 0x0a00_0000;

fn store(transport: &mut Transport, offset: u64, value: u32) -> Event {
    let access = Access::store(Ipa::new(BASE + offset), Width::Word, value.into());
    let (loaded, event) = transport.access(offset, access, &[]);
    assert_eq!(loaded, 0);
    event
}

fn load(transport: &mut Transport, offset: u64) -> u32 {
    let access = Access::load(Ipa::new(BASE + offset), Width::Word);
    let (value, event) = transport.access(offset, access, &[1, 2, 3, 4, 5, 6]);
    assert_eq!(event, Event::None);
    value as u32
}

/// What a driver does up to the choice of features (3.1.1), and the status that it then reads.
fn choose(transport: &mut Transport, features: u64) -> u32 {
    for bits in [0, 1, 3] {
        let event = store(transport, STATUS, bits);
        let wanted = if bits == 0 { Event::Reset } else { Event::None };
        assert_eq!(event, wanted);
    }
    for half in 0..2 {
        let _ = store(transport, DRIVER_FEATURES_SELECT, half);
        let _ = store(transport, DRIVER_FEATURES, (features >> (32 * half)) as u32);
    }
    let _ = store(transport, STATUS, 3 | 8);
    load(transport, STATUS)
}

fn set_up(transport: &mut Transport, index: u32, size: u32, places: [u64; 3]) {
    let _ = store(transport, QUEUE_SELECT, index);
    let _ = store(transport, QUEUE_SIZE, size);
    for (register, place) in [QUEUE_DESCRIPTORS, QUEUE_DRIVER, QUEUE_DEVICE]
        .iter()
        .zip(places)
    {
        let _ = store(transport, *register, place as u32);
        let _ = store(transport, *register + 4, (place >> 32) as u32);
    }
    let _ = store(transport, QUEUE_READY, 1);
}

const PLACES: [u64; 3] = [0x1_4000_0000, 0x1_4000_1000, 0x1_4000_2000];

fn live() -> Transport {
    let mut transport = Transport::new(IDENTITY);
    assert_eq!(choose(&mut transport, IDENTITY.features), 11);
    set_up(&mut transport, 1, 32, PLACES);
    assert_eq!(load(&mut transport, QUEUE_READY), 1);
    assert!(
        transport.queue(1).is_none(),
        "not before the driver is ready"
    );
    assert_eq!(store(&mut transport, STATUS, 15), Event::Ready);
    transport
}

#[test]
fn a_driver_finds_the_device_and_sets_it_up() {
    let mut transport = Transport::new(IDENTITY);
    let words = [MAGIC_VALUE, VERSION, DEVICE_ID, QUEUE_SIZE_MAX];
    let read = words.map(|offset| load(&mut transport, offset));
    assert_eq!(read, [0x7472_6976, 2, 4, 64]);
    let _ = store(&mut transport, QUEUE_SELECT, 2);
    assert_eq!(load(&mut transport, QUEUE_SIZE_MAX), 0, "no third queue");
    let offered = [0, 1, 2].map(|half| {
        let _ = store(&mut transport, DEVICE_FEATURES_SELECT, half);
        load(&mut transport, DEVICE_FEATURES)
    });
    assert_eq!(offered, [1 << 29 | 8, 1, 0]);

    let mut transport = live();
    let [descriptors, driver, device] = PLACES;
    let places = Places {
        descriptors,
        driver,
        device,
    };
    let wanted = Queue::new(32, places, IDENTITY.features).unwrap();
    assert_eq!(transport.queue(1), Some(&mut { wanted }));
    assert_eq!(transport.queue(0), None);
    assert_eq!(store(&mut transport, QUEUE_NOTIFY, 1), Event::Notified(1));
    assert_eq!(store(&mut transport, QUEUE_NOTIFY, 0), Event::None);
    assert_eq!(store(&mut transport, QUEUE_NOTIFY, u32::MAX), Event::None);
    transport.tell_used();
    assert!(transport.level());
    assert_eq!(load(&mut transport, INTERRUPT_STATUS), 1);
    let _ = store(&mut transport, INTERRUPT_ACK, 1);
    assert!(!transport.level());
    assert_eq!(store(&mut transport, STATUS, 0), Event::Reset);
    assert!(transport.queue(1).is_none());
    assert_eq!(transport.unknown(), Unknown::default());
}

#[test]
fn the_device_agrees_to_what_it_offers_alone() {
    let mut transport = Transport::new(IDENTITY);
    let offered = IDENTITY.features;
    assert_eq!(choose(&mut transport, offered), 11);
    assert_eq!(choose(&mut transport, feature::VERSION_1), 11);
    for wrong in [0, offered ^ feature::VERSION_1, offered | 1 << 4, u64::MAX] {
        assert_eq!(choose(&mut transport, wrong), 3, "{wrong:x}");
        assert_eq!(transport.features(), 0);
    }
    assert_eq!(choose(&mut transport, offered), 11);
    let _ = store(&mut transport, DRIVER_FEATURES, 0);
    assert_eq!(transport.features(), offered, "nothing changes after that");
}

/// What a driver must not do, and what then happens: the device does nothing more, and the driver is told.
#[test]
fn a_driver_that_breaks_a_rule_has_a_broken_device() {
    for goes_back in [7, 11, 8, 1] {
        let mut transport = live();
        let _ = store(&mut transport, STATUS, goes_back);
        assert_eq!(load(&mut transport, STATUS), 15 | 64, "{goes_back}");
        assert_eq!(load(&mut transport, INTERRUPT_STATUS), 2);
        assert!(transport.queue(1).is_none());
        assert_eq!(store(&mut transport, STATUS, 79), Event::None);
        assert!(!transport.is_live());
    }
    let mut early = Transport::new(IDENTITY);
    assert_eq!(store(&mut early, STATUS, 7), Event::None);
    assert_eq!(load(&mut early, STATUS), 3 | 64);
    let [descriptors, driver, device] = PLACES;
    for (size, places) in [
        (0, PLACES),
        (3, PLACES),
        (128, PLACES),
        (65_536 + 32, PLACES),
        (32, [descriptors + 8, driver, device]),
        (32, [descriptors, driver + 1, device]),
        (32, [descriptors, driver, device + 2]),
        (32, [u64::MAX - 15, driver, device]),
        (32, [descriptors, u64::MAX - 1, device]),
        (32, [descriptors, driver, u64::MAX - 3]),
    ] {
        let mut transport = Transport::new(IDENTITY);
        assert_eq!(choose(&mut transport, IDENTITY.features), 11);
        set_up(&mut transport, 0, size, places);
        assert_eq!(load(&mut transport, QUEUE_READY), 0, "{size} {places:x?}");
        assert_eq!(load(&mut transport, STATUS), 11 | 64);
    }
}

#[test]
fn a_queue_in_use_stays_where_it_is() {
    let mut transport = live();
    let before = *transport.queue(1).unwrap();
    set_up(&mut transport, 1, 64, PLACES.map(|place| place + 0x1_0000));
    assert_eq!(transport.queue(1), Some(&mut { before }));
    assert_eq!(transport.unknown().writes, 7);
    // It ends with the device's reset alone: its requests may be under way.
    let _ = store(&mut transport, QUEUE_READY, 0);
    assert_eq!(transport.queue(1), Some(&mut { before }));
    assert_eq!(store(&mut transport, STATUS, 0), Event::Reset);
    assert_eq!(load(&mut transport, QUEUE_READY), 0);
}

#[test]
fn the_configuration_is_read_with_any_width() {
    let mut transport = Transport::new(IDENTITY);
    let bytes = [1, 2, 3, 4, 5, 6];
    let mut read = |offset, width| {
        let access = Access::load(Ipa::new(BASE + CONFIG + offset), width);
        transport.access(CONFIG + offset, access, &bytes).0
    };
    assert_eq!(read(5, Width::Byte), 6);
    assert_eq!(read(3, Width::Half), 0x504);
    assert_eq!(read(0, Width::Word), 0x403_0201);
    assert_eq!(read(3, Width::Word), 0, "not in whole");
    assert_eq!(read(0, Width::Double), 0);
    assert_eq!(transport.unknown().reads, 2);
    let access = Access::store(Ipa::new(BASE + CONFIG + 4), Width::Half, 0x12_3456);
    let (offset, width, value) = (4, Width::Half, 0x3456);
    let event = Event::Config {
        offset,
        width,
        value,
    };
    assert_eq!(transport.access(CONFIG + 4, access, &bytes), (0, event));
}

proptest! {
    /// Whatever is stored in whatever order: no panic, and a queue that can be used is one that fits.
    #[test]
    fn any_stores(stores in prop::collection::vec((0_u64..0x48, prop_oneof![0_u32..16, any::<u32>()]), 0..200)) {
        let mut transport = live();
        for (number, value) in stores {
            let before = transport.unknown();
            let event = store(&mut transport, number * 4, value);
            let _ = load(&mut transport, number * 4);
            let live = transport.is_live();
            for index in 0..MAX_QUEUES {
                prop_assert!(live || transport.queue(index).is_none());
                prop_assert!(index < 2 || transport.queue(index).is_none());
            }
            if let Event::Notified(index) = event {
                prop_assert!(transport.queue(index).is_some());
            }
            prop_assert!(transport.unknown().writes >= before.writes);
        }
    }
}
