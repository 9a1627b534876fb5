//! Each call, by both ways, against the fake board.

use hanok_schedule::fake::{Board, FakeVcpu};
use hanok_schedule::{Answer, Error, Interface, Item, Page, Refusal, Transport, Vcpu};

/// Runs the same test by calls that are handed over, and by registers.
fn both(test: impl Fn(&Board, Vcpu<&mut dyn Transport>)) {
    let board = Board::default();
    test(&board, Vcpu::new(&mut board.by_call(0)));
    let board = Board::default();
    let mut page = Page::new(board.by_registers(0)).expect("the fake has the registers");
    test(&board, Vcpu::new(&mut page));
}

#[test]
fn features_say_what_the_vcpu_has() {
    both(|board, mut vcpu| {
        let features = vcpu.features().unwrap();
        assert!(features.is_enforced() && features.may_ask());
        board.vcpu(0, |vcpu| vcpu.features = 0);
        let features = vcpu.features().unwrap();
        assert!(!features.is_enforced() && !features.may_ask());
    });
}

#[test]
fn another_major_version_is_told() {
    both(|board, mut vcpu| {
        board.vcpu(0, |vcpu| vcpu.version = 0x0001_0007);
        assert!(vcpu.features().is_ok());
        board.vcpu(0, |vcpu| vcpu.version = 0x0002_0000);
        assert_eq!(vcpu.features(), Err(Error::Version(0x0002_0000)));
    });
}

#[test]
fn every_item_is_read() {
    both(|board, mut vcpu| {
        let used = [1 << 40, 2, 3, 4, 5];
        board.vcpu(0, |vcpu| vcpu.used = used);
        let usage = vcpu.usage().unwrap();
        let read = [
            usage.left,
            usage.used,
            usage.extra,
            usage.throttled,
            usage.stolen,
        ];
        assert_eq!(read, used);
        assert_eq!(
            vcpu.interface().unwrap(),
            Interface::new(10_000_000, 1_000_000)
        );
        let limits = vcpu.limits().unwrap();
        assert_eq!(limits.budget(10_000_000), 8_000_030);
        assert_eq!(limits.period, vcpu.read(Item::ShortestPeriod).unwrap());
    });
}

#[test]
fn an_interface_is_asked_for() {
    both(|board, mut vcpu| {
        // More than 32 bits: both halves arrive.
        let wanted = Interface::new(5_000_000_000, 2_500_000_001);
        assert_eq!(vcpu.ask(&wanted), Ok(1));
        assert_eq!(vcpu.interface(), Ok(wanted));
        let all = Interface::new(1_000_000, 1_000_000);
        assert_eq!(vcpu.ask(&all), Err(Error::NotAllowed));
        assert_eq!(vcpu.ask(&Interface::new(1_000_000, 0)), Err(Error::Invalid));
        assert_eq!(vcpu.interface(), Ok(wanted));
        assert_eq!(board.vcpu(0, |vcpu| vcpu.asked.len()), 3);
    });
}

#[test]
fn a_question_is_asked_until_its_answer_is_there() {
    const PENDING: i32 = -6;
    both(|board, mut vcpu| {
        board.vcpu(0, |vcpu| vcpu.pieces = 2);
        let (one, other) = ([1_000_000, 300_000, 0], [1_000_000, 400_000, 0]);
        let mut status = |arguments: &[u64]| vcpu.transport().call(0xc600_0012, arguments).status;
        // Other arguments begin another question.
        let answers = [one, one, other, other, other, one].map(|wanted| status(&wanted));
        assert_eq!(answers, [PENDING, PENDING, PENDING, PENDING, 0, PENDING]);
        board.vcpu(0, |vcpu| vcpu.pieces = 1000);
        let wanted = Interface::new(1_000_000, 500_000);
        assert_eq!(vcpu.ask(&wanted), Ok(1));
        assert_eq!(board.vcpu(0, |vcpu| vcpu.asked.len()), 2);
        assert_eq!(vcpu.interface(), Ok(wanted));
    });
}

#[test]
fn a_period_is_waited_for() {
    both(|board, mut vcpu| {
        vcpu.wait().unwrap();
        assert_eq!(board.vcpu(0, |vcpu| vcpu.waits), 1);
    });
}

#[test]
fn every_status_has_its_error() {
    both(|board, mut vcpu| {
        let errors = [
            (-1, 0, Error::Absent),
            (-2, 0, Error::Invalid),
            (-3, 0, Error::NotAllowed),
            (-4, 1, Error::Refused(Refusal::Overload)),
            (-4, 2, Error::Refused(Refusal::Late)),
            (-4, 3, Error::Refused(Refusal::Hopeless)),
            (-4, 4, Error::Refused(Refusal::Unproven)),
            (-4, 5, Error::Refused(Refusal::Undecided)),
            (-4, 6, Error::Refused(Refusal::Unknown(6))),
            (
                -4,
                1 << 32 | 2,
                Error::Refused(Refusal::Unknown(1 << 32 | 2)),
            ),
            (-5, 5_000_000_000, Error::Later(5_000_000_000)),
            (-4, 7, Error::Refused(Refusal::Transition)),
            (-7, 0, Error::Unknown(-7)),
            (1, 0, Error::Unknown(1)),
        ];
        for (status, value, error) in errors {
            board.vcpu(0, |vcpu| vcpu.instead.push(Answer { status, value }));
            let answer = vcpu.ask(&Interface::new(1_000_000, 1_000));
            assert_eq!(answer, Err(error));
            assert!(!error.to_string().is_empty());
        }
    });
}

#[test]
fn a_call_of_one_vcpu_leaves_the_others_alone() {
    let board = Board::new([FakeVcpu::default(), FakeVcpu::default()]);
    let mut second = Vcpu::new(Page::new(board.by_registers(1)).unwrap());
    second.ask(&Interface::new(1_000_000, 300_000)).unwrap();
    let budget = |vcpu| board.vcpu(vcpu, |vcpu| vcpu.interface.budget);
    assert_eq!([budget(0), budget(1)], [1_000_000, 300_000]);
}

#[test]
fn another_device_is_not_taken_for_this_one() {
    use hanok_schedule::{Mapped, Registers};
    let mut memory = [0_u32; 1024];
    let start = std::ptr::NonNull::from(&mut memory).cast();
    // SAFETY: the array is as long as the page, and nothing else uses it meanwhile.
    let mut registers = unsafe { Mapped::new(start) };
    registers.store(0x10, 7);
    assert_eq!(registers.load(0x10), 7);
    assert_eq!(Page::new(registers).err(), Some(Error::Absent));
}
