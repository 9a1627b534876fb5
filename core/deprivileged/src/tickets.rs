//! Tests of what a vCPU ends late with a page: what it has begun was ended by a sibling meanwhile, and begun anew.

extern crate std;

use crate::code::{Code, CodePage, CodePages, Proven, Released};
use crate::fake::FakePage;
use crate::slot::{Ended, Slot, Ticket, place};
use hanok_decode::aarch32::ItState;
use hanok_types::{GuestPage, Ipa, PAGE_SIZE, Span};
use std::boxed::Box;
use std::vec;

/// MRS R0, CPSR, which is doubtful, and B to itself.
const CODE: [u32; 2] = [0xe10f_0000, 0xeaff_fffe];

/// A VM with one page of memory, which begins with [`CODE`].
struct Vm {
    memory: FakePage,
    code: Code,
    page: GuestPage,
}

impl Vm {
    fn new() -> Self {
        let span = Span::new(Ipa::new(0), PAGE_SIZE).expect("a page");
        let pages = vec![CodePage::default(); 1].into_boxed_slice();
        let pages = CodePages::new(span, Box::leak(pages));
        let slots = Box::leak(vec![Slot::empty(); 1].into_boxed_slice());
        Self {
            memory: FakePage::new(&CODE),
            code: Code::new([Some(pages), None], slots, false, None),
            page: GuestPage::of(Ipa::new(0)).expect("a page"),
        }
    }

    fn prove(&mut self) -> Proven {
        let start = place(0, false, ItState::from_bits(0));
        let proven = self
            .code
            .prove(&self.memory, self.page, start.expect("aligned"));
        proven.expect("memory")
    }

    /// Goes on until something is to be waited for, or the page may be executed.
    fn go_on(&mut self) -> Proven {
        let mut steps = (0..200).map(|_| self.prove());
        let found = steps.find(|proven| *proven != Proven::More);
        found.expect("an end")
    }

    fn begin(&mut self) -> Ticket {
        match self.go_on() {
            Proven::Protect(page, ticket) if page == self.page => ticket,
            other => panic!("{other:?}"),
        }
    }

    /// Goes on until the page needs no confinement any more.
    fn settle(&mut self) -> Ticket {
        let ticket = self.begin();
        self.code.protected(self.page, ticket);
        match self.go_on() {
            Proven::Settles(page, ticket) if page == self.page => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn leave(&mut self) -> Ticket {
        self.code.leave(self.page).expect("something is known")
    }

    fn release(&mut self, ticket: Ticket) -> bool {
        let mut release = || self.code.release(&self.memory, self.page, ticket);
        loop {
            match release().expect("memory") {
                Released::NotYet => {}
                released => return released == Released::Yes,
            }
        }
    }

    fn give_up(&mut self) {
        let ticket = self.leave();
        assert!(self.release(ticket));
    }
}

#[test]
fn a_page_is_not_protected_by_who_has_begun_before() {
    let mut vm = Vm::new();
    let late = vm.begin();
    vm.give_up();
    let now = vm.begin();
    vm.code.protected(vm.page, late);
    assert_eq!(vm.go_on(), Proven::Protect(vm.page, now));
    vm.code.protected(vm.page, now);
    assert!(matches!(vm.go_on(), Proven::Settles(..)));
}

#[test]
fn a_page_is_not_settled_by_who_has_proven_it_before() {
    let mut vm = Vm::new();
    let late = vm.settle();
    vm.give_up();
    let now = vm.settle();
    let settle = |vm: &mut Vm, ticket| vm.code.settle(&vm.memory, vm.page, ticket);
    assert_eq!(settle(&mut vm, late), Ok(Ended::Yes));
    assert_eq!(vm.go_on(), Proven::Settles(vm.page, now));
    assert_eq!(settle(&mut vm, now), Ok(Ended::Yes));
    assert_eq!(vm.go_on(), Proven::Sound);
}

#[test]
fn a_page_is_not_released_by_who_has_left_it_before() {
    let mut vm = Vm::new();
    vm.settle();
    let late = vm.leave();
    assert_eq!(vm.leave(), late, "siblings leave it together");
    assert!(vm.release(late));
    assert_eq!(
        vm.memory.0.borrow()[..2],
        CODE,
        "what was rewritten is put back"
    );
    assert!(vm.release(late), "nothing is known of it");
    vm.settle();
    assert!(!vm.release(late), "it is not left");
    let now = vm.leave();
    assert!(!vm.release(late));
    assert!(vm.release(now));
}

#[test]
fn a_clean_page_is_not_released_by_who_has_left_it_before() {
    let mut vm = Vm::new();
    vm.memory.0.borrow_mut()[0] = CODE[1];
    let clean = |vm: &mut Vm| {
        let ticket = vm.begin();
        vm.code.protected(vm.page, ticket);
        assert_eq!(vm.go_on(), Proven::Sound);
        vm.leave()
    };
    let late = clean(&mut vm);
    assert_eq!(vm.go_on(), Proven::Leaves(vm.page));
    assert!(vm.release(late));
    let now = clean(&mut vm);
    assert!(!vm.release(late));
    assert!(vm.release(now));
}
