//! Attacks on a device's registers: features, status, queues' places, widths, resets.

use super::client_attack::After::{Any, Broken, Live};
use super::client_attack::{Attack, Place, attack};
use super::memory::{AREA, DATA, HEADER};
use super::requests::{Outcome, wrong_if};
use super::transport::{
    ACKNOWLEDGE, CONFIG, DEVICE_FEATURES_SELECT, DRIVER, DRIVER_FEATURES, DRIVER_FEATURES_SELECT,
    DRIVER_OK, Device, FEATURES_OK, INDIRECT, INTERRUPT_ACK, QUEUE_NOTIFY, QUEUE_PLACES,
    QUEUE_READY, QUEUE_SELECT, QUEUE_SIZE, QUEUE_SIZE_MAX, SIZE, STATUS, VERSION_1, reads, writes,
};
use crate::mmio::{read8, read16, read32, write8, write16};

/// All of them.
pub const ALL: &[Attack] = &[
    attack("features not offered", Any, all_features),
    attack("features without VERSION_1", Any, old_features),
    attack("features after FEATURES_OK", Live, late_features),
    attack("DRIVER_OK before FEATURES_OK", Broken, early_driver),
    attack("a status that goes backwards", Broken, status_backwards),
    attack("unknown bits of the status", Any, status_bits),
    attack("a queue that is not there", Live, absent_queue),
    attack("sizes that a queue cannot have", Any, sizes),
    attack("a queue that moves", Live, moved),
    attack("a queue that is dropped", Live, dropped),
    attack("a queue that is made late", Any, made_late),
    attack("notifications for no queue", Live, notifications),
    attack("notifications before DRIVER_OK", Any, early_notifications),
    attack("registers by other widths", Live, widths),
    attack("all registers, stored to", Any, stores),
    attack("a configuration beyond its end", Live, configuration),
    attack("acknowledged for nothing", Live, acknowledged),
    attack("resets in flight", Any, resets_in_flight),
    attack("a reset behind each step", Any, resets_between),
];

fn all_features(device: &mut Device, _: &Place) -> Outcome {
    let agreed = device.agree(u64::MAX)?;
    device.make_queues(None);
    device.go();
    wrong_if(
        agreed || device.read(STATUS) & DRIVER_OK != 0,
        "the device agrees on what it does not offer",
    )
}

fn old_features(device: &mut Device, _: &Place) -> Outcome {
    wrong_if(
        device.agree(device.offered() & !VERSION_1)?,
        "the device agrees without VERSION_1",
    )
}

fn late_features(device: &mut Device, _: &Place) -> Outcome {
    device.choose(u64::MAX);
    device.choose(0);
    Ok(())
}

fn early_driver(device: &mut Device, _: &Place) -> Outcome {
    device.reset()?;
    device.make_queues(None);
    device.write(STATUS, ACKNOWLEDGE | DRIVER | DRIVER_OK);
    match device.read(STATUS) & DRIVER_OK {
        0 => Ok(()),
        _ => Err("the driver is ready without features"),
    }
}

fn status_backwards(device: &mut Device, _: &Place) -> Outcome {
    device.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
    Ok(())
}

fn status_bits(device: &mut Device, _: &Place) -> Outcome {
    for value in [0xff, 0x80, 0x10, !0, !0xff | 0xf, 0x40] {
        device.write(STATUS, value);
    }
    Ok(())
}

fn absent_queue(device: &mut Device, _: &Place) -> Outcome {
    for index in [device.queues(), 4, 5, 0x100, 0x8000_0000, u32::MAX] {
        if device.largest(index) != 0 || device.make_queue(index, 4, Device::places(0)) {
            return Err("there is one more queue");
        }
    }
    device.write(QUEUE_SELECT, 0);
    Ok(())
}

fn sizes(device: &mut Device, place: &Place) -> Outcome {
    let beyond = device.largest(place.queue) * 2;
    for size in [0, 3, 5, beyond, 0xffff, 0x1_0000, 0x1_0004, u32::MAX] {
        device.agree(VERSION_1)?;
        if device.make_queue(place.queue, size, Device::places(place.queue)) {
            return Err("a queue has a size that it cannot have");
        }
        device.go();
        device.notify(place.queue);
    }
    Ok(())
}

/// A queue that is ready stays where it is.
fn moved(device: &mut Device, place: &Place) -> Outcome {
    device.make_queue(place.queue, 2, [0x0900_0000; 3]);
    device.make_queue(place.queue, 2, [u64::MAX; 3]);
    Ok(())
}

fn dropped(device: &mut Device, place: &Place) -> Outcome {
    device.write(QUEUE_SELECT, place.queue);
    device.write(QUEUE_READY, 0);
    match device.read(QUEUE_READY) {
        1 => Ok(()),
        _ => Err("a queue in use ends without a reset"),
    }
}

fn made_late(device: &mut Device, place: &Place) -> Outcome {
    device.agree(VERSION_1)?;
    device.make_queues(Some(place.queue));
    device.go();
    device.notify(place.queue);
    device.make_queue(place.queue, SIZE.into(), Device::places(place.queue));
    device.submit(place.queue, &[reads(HEADER, 16)]);
    Ok(())
}

fn notifications(device: &mut Device, _: &Place) -> Outcome {
    for queue in [
        device.queues(),
        4,
        63,
        64,
        0xffff,
        0x1_0000,
        1 << 31,
        u32::MAX,
    ] {
        device.notify(queue);
    }
    Ok(())
}

fn early_notifications(device: &mut Device, _: &Place) -> Outcome {
    device.agree(VERSION_1)?;
    device.make_queues(None);
    for queue in 0..4 {
        device.publish(queue, 0);
        device.notify(queue);
    }
    Ok(())
}

/// Registers are of 32 bits.
fn widths(device: &mut Device, _: &Place) -> Outcome {
    for at in (device.at..device.at + CONFIG).step_by(4) {
        let read = read8(at) | read8(at + 3) | read16(at) as u8 | read16(at + 2) as u8;
        if read != 0 {
            return Err("a register can be read by halves");
        }
        for value in [0, 0xff] {
            write8(at, value);
            write8(at + 1, value);
            write16(at, value.into());
            write16(at + 2, value.into());
        }
    }
    Ok(())
}

fn stores(device: &mut Device, _: &Place) -> Outcome {
    for value in [u32::MAX, 0x8000_0001, 1, 0] {
        for register in (0..CONFIG)
            .step_by(4)
            .filter(|register| *register != STATUS)
        {
            device.write(register, value);
            device.read(register);
        }
    }
    Ok(())
}

/// Few stores: a back end may have to answer each.
fn configuration(device: &mut Device, _: &Place) -> Outcome {
    let end = device.at + 0x200;
    for at in (device.at + CONFIG..end).step_by(4) {
        read8(at);
        read16(at);
        read32(at);
    }
    write8(end - 1, 0xff);
    write16(end - 2, 0xffff);
    for register in [CONFIG, CONFIG + 4, CONFIG + 0x80, CONFIG + 0xfc] {
        device.write(register, u32::MAX);
    }
    Ok(())
}

fn acknowledged(device: &mut Device, _: &Place) -> Outcome {
    for value in [u32::MAX, 0, 1, 2, 3] {
        device.write(INTERRUPT_ACK, value);
    }
    Ok(())
}

/// Requests of all queues are under way.
fn resets_in_flight(device: &mut Device, _: &Place) -> Outcome {
    for _ in 0..8 {
        device.set_up()?;
        for queue in 0..device.queues() {
            for _ in 0..3 {
                device.submit(queue, &[reads(HEADER, 16), writes(DATA, 256)]);
            }
        }
    }
    device.reset()
}

/// The device is reset, then all steps up to one more each time are done, and then it is reset again.
fn resets_between(device: &mut Device, place: &Place) -> Outcome {
    for steps in 0..8 {
        device.write(STATUS, 0);
        if steps > 0 {
            device.write(STATUS, ACKNOWLEDGE | DRIVER);
        }
        if steps > 1 {
            device.choose(VERSION_1 | INDIRECT);
        }
        if steps > 2 {
            device.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
        }
        if steps > 3 {
            device.make_queues(Some(place.queue));
        }
        if steps > 4 {
            device.make_queues(None);
        }
        if steps > 5 {
            device.go();
        }
        if steps > 6 {
            device.submit(place.queue, &[reads(HEADER, 16)]);
        }
        device.reset()?;
    }
    AREA.fill(DATA, 16, 0);
    Ok(())
}

/// The registers to which chance stores: those that matter, and any other.
pub const TARGETS: [u64; 14] = [
    DEVICE_FEATURES_SELECT,
    DRIVER_FEATURES,
    DRIVER_FEATURES_SELECT,
    QUEUE_SELECT,
    QUEUE_SIZE_MAX,
    QUEUE_SIZE,
    QUEUE_READY,
    QUEUE_NOTIFY,
    INTERRUPT_ACK,
    STATUS,
    QUEUE_PLACES[0] + 4,
    QUEUE_PLACES[1],
    QUEUE_PLACES[2],
    CONFIG - 4,
];
