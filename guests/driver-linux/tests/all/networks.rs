//! Frames between a client's rings and an interface, for which a pair of sockets stands.

use crate::common::{Chance, Side};
use hanok_driver_linux::memory::Memory;
use hanok_driver_linux::network::{LONGEST, Port};
use hanok_driver_linux::ring::own::Own;
use hanok_driver_linux::ring::vmm::Vmm;
use hanok_driver_linux::ring::{NETWORK, Ring};
use hanok_driver_linux::words::Words;
use std::os::unix::net::UnixDatagram;

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn port() -> (Port, UnixDatagram) {
    let (tap, outside) = UnixDatagram::pair().unwrap();
    tap.set_nonblocking(true).unwrap();
    outside.set_nonblocking(true).unwrap();
    (
        Port::new(tap.into(), OWN, Words::new("test".to_owned())),
        outside,
    )
}

fn frame(from: [u8; 6], kind: [u8; 2], data: &[u8]) -> Vec<u8> {
    [&OTHER[..], &from, &kind, data].concat()
}

/// What the client gives: twelve bytes, and the frame.
fn sent(frame: &[u8]) -> Vec<Vec<u8>> {
    vec![vec![0; 12], frame.to_vec()]
}

fn both(memory: Memory, number: usize) -> [Box<dyn Fn() -> Box<dyn Both>>; 2] {
    let layout = NETWORK[number];
    [
        Box::new(move || Box::new(Vmm::new(memory, layout).unwrap())),
        Box::new(move || Box::new(Own::new(memory, layout).unwrap())),
    ]
}

trait Both {
    fn send(&mut self, port: &mut Port) -> usize;
    fn receive(&mut self, port: &mut Port) -> usize;
    fn forget(&mut self, port: &mut Port);
}

impl<R: Ring> Both for R {
    fn send(&mut self, port: &mut Port) -> usize {
        port.send(self).unwrap()
    }

    fn receive(&mut self, port: &mut Port) -> usize {
        port.receive(self).unwrap()
    }

    fn forget(&mut self, port: &mut Port) {
        port.forget(self).unwrap();
    }
}

#[test]
fn a_client_s_frames_get_out_and_no_forged_ones() {
    for which in 0..2 {
        let memory = Memory::made_up(crate::common::BASE);
        let mut ring = both(memory, 1)[which]();
        let (mut port, outside) = port();
        let mut side = Side::new(memory, NETWORK[1]);
        let good = frame(OWN, [8, 0], &Chance(1).bytes(1500));
        let frames = [
            frame(OTHER, [8, 0], b"forged"),
            frame(OWN, [0x81, 0], b"tagged"),
            frame(OWN, [0x88, 0xa8], b"tagged twice"),
            frame(OWN, [8, 0], &[0; 1501]),
            OWN.to_vec(),
            good.clone(),
        ];
        for (head, frame) in (0..).zip(&frames) {
            side.give(head, &sent(frame), &[]);
        }
        assert_eq!(ring.send(&mut port), 6);
        for head in 0..6 {
            assert_eq!(side.answer(), Some((head, 0)));
        }
        let mut bytes = [0; 2000];
        let count = outside.recv(&mut bytes).unwrap();
        assert_eq!(bytes[..count], good);
        assert!(outside.recv(&mut bytes).is_err(), "no other one gets out");
    }
}

#[test]
fn what_comes_gets_to_the_client() {
    for which in 0..2 {
        let memory = Memory::made_up(crate::common::BASE);
        let mut ring = both(memory, 0)[which]();
        let (mut port, outside) = port();
        let mut side = Side::new(memory, NETWORK[0]);
        let whole = frame(OTHER, [8, 0], &Chance(2).bytes(LONGEST - 14));
        outside.send(&whole).unwrap();
        // Without a request it waits.
        assert_eq!(ring.receive(&mut port), 0);
        assert!(port.wanted().is_none());
        let at = side.give(0, &[], &[12, 1518]);
        assert_eq!(ring.receive(&mut port), 2);
        assert_eq!(side.answer(), Some((0, 12 + LONGEST as u32)));
        let found = side.load(at, 12 + LONGEST);
        assert_eq!(found[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(found[12..], whole);
        // One that is too large is no frame; a request without room has nothing; a reset of the client takes all back.
        outside.send(&[0; LONGEST + 1]).unwrap();
        side.give(1, &[], &[100]);
        ring.receive(&mut port);
        assert_eq!(side.answer(), None);
        outside.send(&whole).unwrap();
        ring.receive(&mut port);
        assert_eq!(side.answer(), Some((1, 0)));
        side.give(2, &[], &[1530]);
        ring.receive(&mut port);
        assert!(port.wanted().is_some());
        side.give(3, &[], &[1530]);
        ring.forget(&mut port);
        assert_eq!((side.answer(), side.answer()), (Some((2, 0)), Some((3, 0))));
        assert!(port.wanted().is_none());
    }
}
