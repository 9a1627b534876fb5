//! The PL031 real-time clock (ARM DDI 0224B): seconds since the epoch, and one alarm.
//!
//! The caller passes the time to each call, in whole seconds of a clock that never steps back,
//! since the clock shows no smaller unit. The model adds the offset that makes it the time of day,
//! so that nothing is divided here. The alarm is a soft timer of the caller: [`Pl031::next_alarm`]
//! says when it is due, and [`Pl031::update`] raises the interrupt.
//!
//! As on QEMU, the clock always runs (CR reads as 1 and ignores writes). An alarm is set by a write
//! of the match or the load register, but not by the reset value of zero. It fires once, and any
//! write to ICR clears the interrupt.

use crate::device::{Model, Notice, World};
use crate::lanes::{read_words, write_words};
use crate::primecell;
use crate::{Access, Unknown};
use hanok_types::Width;

const DR: u64 = 0x00;
const MR: u64 = 0x04;
const LR: u64 = 0x08;
const CR: u64 = 0x0c;
const IMSC: u64 = 0x10;
const RIS: u64 = 0x14;
const MIS: u64 = 0x18;
const ICR: u64 = 0x1c;

/// PeriphID0 to PeriphID3 (DDI 0224B, 3.3.9), as on QEMU.
const PERIPHERAL_ID: [u8; 4] = [0x31, 0x10, 0x14, 0x00];

/// The clock's registers.
#[derive(Clone, Debug, Default)]
pub struct Pl031 {
    /// The value of the counter at time zero of the caller's clock.
    offset: u32,
    matching: u32,
    load: u32,
    unmasked: bool,
    raised: bool,
    /// The second of the caller's clock at which the alarm is due.
    alarm: Option<u64>,
    unknown: Unknown,
}

impl Pl031 {
    /// A clock that shows `epoch_seconds` (since 1970) at time zero of the caller's clock.
    pub const fn new(epoch_seconds: u32) -> Self {
        Self {
            offset: epoch_seconds,
            matching: 0,
            load: 0,
            unmasked: false,
            raised: false,
            alarm: None,
            unknown: Unknown {
                reads: 0,
                writes: 0,
            },
        }
    }

    /// Resets the registers. The time goes on, even if the guest has set it, as in a clock with a
    /// battery.
    pub fn reset(&mut self) {
        *self = Self {
            unknown: self.unknown,
            ..Self::new(self.offset)
        };
    }

    /// Reads the register at `offset`, at second `now`.
    pub fn read(&mut self, offset: u64, width: Width, now: u64) -> u64 {
        self.update(now);
        read_words(offset, width, |offset| self.read_register(offset, now))
    }

    /// Writes the register at `offset`, at second `now`.
    pub fn write(&mut self, offset: u64, width: Width, value: u64, now: u64) {
        self.update(now);
        write_words(offset, width, value, |offset, value| {
            self.write_register(offset, value, now);
        });
    }

    /// Raises the interrupt if the alarm is due at second `now`.
    pub fn update(&mut self, now: u64) {
        if self.alarm.is_some_and(|due| due <= now) {
            self.alarm = None;
            self.raised = true;
        }
    }

    /// The second of the caller's clock at which the interrupt line will change by itself; `None`
    /// while no alarm is set that could raise it.
    pub fn next_alarm(&self) -> Option<u64> {
        self.alarm.filter(|_| self.unmasked)
    }

    /// The level of the interrupt line.
    pub fn interrupt(&self) -> bool {
        self.raised && self.unmasked
    }

    /// The counts of accesses to registers that do not exist.
    pub fn unknown(&self) -> Unknown {
        self.unknown
    }

    fn count(&self, now: u64) -> u32 {
        self.offset.wrapping_add(now as u32)
    }

    fn read_register(&mut self, offset: u64, now: u64) -> u32 {
        match offset {
            DR => self.count(now),
            MR => self.matching,
            LR => self.load,
            CR => 1,
            IMSC => self.unmasked.into(),
            RIS => self.raised.into(),
            MIS => self.interrupt().into(),
            ICR => 0,
            _ => primecell::id(PERIPHERAL_ID, offset).unwrap_or_else(|| self.unknown.read()),
        }
    }

    fn write_register(&mut self, offset: u64, value: u32, now: u64) {
        match offset {
            MR => {
                self.matching = value;
                self.set_alarm(now);
            }
            LR => {
                self.load = value;
                let ahead = value.wrapping_sub(self.count(now));
                self.offset = self.offset.wrapping_add(ahead);
                self.set_alarm(now);
            }
            IMSC => self.unmasked = value & 1 != 0,
            ICR => self.raised = false,
            DR | CR | RIS | MIS => {}
            _ if primecell::id(PERIPHERAL_ID, offset).is_some() => {}
            _ => self.unknown.write(),
        }
    }

    /// Sets the alarm to the next second at which the counter has the match value: now if it has it
    /// already, else within 136 years.
    fn set_alarm(&mut self, now: u64) {
        let ahead = self.matching.wrapping_sub(self.count(now));
        self.alarm = now.checked_add(ahead.into());
        self.update(now);
    }
}

impl Model for Pl031 {
    fn access(&mut self, offset: u64, access: Access, world: &mut impl World) -> u64 {
        let now = world.seconds();
        if access.write {
            self.write(offset, access.width, access.value, now);
            return 0;
        }
        self.read(offset, access.width, now)
    }

    fn reset(&mut self) {
        Pl031::reset(self);
    }

    fn level(&self) -> bool {
        self.interrupt()
    }

    fn pass_time(&mut self, now: u64) {
        self.update(now);
    }

    fn due(&self) -> Option<u64> {
        self.next_alarm()
    }

    fn notice(&self) -> Notice {
        Notice::Time
    }

    fn unknown(&self) -> Unknown {
        self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(rtc: &mut Pl031, offset: u64, now: u64) -> u64 {
        rtc.read(offset, Width::Word, now)
    }

    fn set(rtc: &mut Pl031, offset: u64, value: u64, now: u64) {
        rtc.write(offset, Width::Word, value, now);
    }

    #[test]
    fn it_counts_seconds_from_the_time_of_day() {
        let mut rtc = Pl031::new(1000);
        assert_eq!(word(&mut rtc, DR, 0), 1000);
        assert_eq!(word(&mut rtc, DR, 1), 1001);
    }

    #[test]
    fn loading_sets_the_time_and_a_reset_keeps_it() {
        let mut rtc = Pl031::new(1000);
        set(&mut rtc, LR, 50, 3);
        assert_eq!(word(&mut rtc, LR, 3), 50);
        assert_eq!(word(&mut rtc, DR, 4), 51);
        rtc.reset();
        assert_eq!(word(&mut rtc, DR, 5), 52);
        assert_eq!(word(&mut rtc, LR, 5), 0);
    }

    #[test]
    fn the_matching_time_reads_as_written() {
        let mut rtc = Pl031::new(1000);
        set(&mut rtc, MR, 0xfedc_ba98, 0);
        assert_eq!(word(&mut rtc, MR, 1), 0xfedc_ba98);
    }

    #[test]
    fn the_alarm_goes_off_once_at_its_second() {
        let mut rtc = Pl031::new(1000);
        set(&mut rtc, MR, 1002, 0);
        assert_eq!(rtc.next_alarm(), None, "it is masked");
        set(&mut rtc, IMSC, 1, 0);
        assert_eq!(rtc.next_alarm(), Some(2));
        rtc.update(1);
        assert!(!rtc.interrupt());
        rtc.update(2);
        assert!(rtc.interrupt());
        assert_eq!(word(&mut rtc, RIS, 2), 1);
        assert_eq!(word(&mut rtc, MIS, 2), 1);
        set(&mut rtc, ICR, 1, 2);
        assert!(!rtc.interrupt());
        assert_eq!(rtc.next_alarm(), None);
    }

    #[test]
    fn an_alarm_for_now_goes_off_at_once_and_one_for_the_past_after_wrapping() {
        let mut rtc = Pl031::new(1000);
        set(&mut rtc, IMSC, 1, 0);
        set(&mut rtc, MR, 1000, 0);
        assert!(rtc.interrupt());
        set(&mut rtc, ICR, 0, 0);
        set(&mut rtc, MR, 999, 0);
        assert_eq!(rtc.next_alarm(), Some(u64::from(u32::MAX)));
    }

    #[test]
    fn a_masked_alarm_shows_in_the_raw_status_alone() {
        let mut rtc = Pl031::new(7);
        set(&mut rtc, MR, 7, 0);
        assert_eq!((word(&mut rtc, RIS, 0), word(&mut rtc, MIS, 0)), (1, 0));
        assert!(!rtc.interrupt());
        set(&mut rtc, IMSC, 1, 0);
        assert!(rtc.interrupt());
        rtc.reset();
        assert!(!rtc.interrupt());
    }

    #[test]
    fn the_identification_registers_are_qemu_s() {
        let mut rtc = Pl031::new(0);
        let ids = [0x31, 0x10, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1];
        for (index, id) in (0..).zip(ids) {
            assert_eq!(word(&mut rtc, 0xfe0 + 4 * index, 0), id);
        }
        assert_eq!(word(&mut rtc, CR, 0), 1);
        assert_eq!(word(&mut rtc, 0x20, 0), 0);
        set(&mut rtc, 0xfdc, 1, 0);
        set(&mut rtc, 0xfe0, 1, 0);
        let counted = Unknown {
            reads: 1,
            writes: 1,
        };
        assert_eq!(rtc.unknown(), counted);
        // The counters belong to the VM, not to one boot.
        rtc.reset();
        assert_eq!(rtc.unknown(), counted);
    }

    #[test]
    fn the_mask_is_one_bit_that_can_be_cleared() {
        let mut rtc = Pl031::new(7);
        set(&mut rtc, MR, 7, 0);
        for (value, open) in [(1, 1), (0, 0), (3, 1), (2, 0), (u64::MAX, 1), (0xfffe, 0)] {
            set(&mut rtc, IMSC, value, 0);
            assert_eq!(word(&mut rtc, IMSC, 0), open, "{value:#x}");
            assert_eq!(word(&mut rtc, MIS, 0), open, "{value:#x}");
            assert_eq!(rtc.interrupt(), open == 1, "{value:#x}");
        }
        // Registers that can only be read keep their values; those that can only be written read as
        // zero.
        for register in [DR, CR, RIS, MIS] {
            let before = word(&mut rtc, register, 0);
            set(&mut rtc, register, 0xffff_fff0, 0);
            assert_eq!(word(&mut rtc, register, 0), before, "{register:#x}");
        }
        set(&mut rtc, ICR, 1, 0);
        assert_eq!((word(&mut rtc, RIS, 0), word(&mut rtc, ICR, 0)), (0, 0));
        assert_eq!(rtc.unknown(), Unknown::default());
    }
}
