//! Compares what a sensitive instruction did with what the decoder says.

use super::board::{self, Console};
use super::mmu::{OPEN, PRIVILEGED};
use super::run::{Exception, MASKS, SYSTEM, State, USER, run};
use core::fmt::Write;
use hanok_decode::aarch32::{
    Access, Class, Encoding, ItState, Operation, Sensitive, Status, UserMode, sensitive,
};

/// The counts of one class.
#[derive(Clone, Copy, Default)]
struct Count {
    undefined: u32,
    executed: u32,
    different: u32,
    unpredictable: u32,
    emulated: u32,
}

/// The counts of all classes.
pub struct Judge<'a> {
    console: &'a mut Console,
    counts: [Count; Class::ALL.len()],
    wrong: u32,
}

/// How many wrong instructions are printed.
const SHOWN: u32 = 40;

impl<'a> Judge<'a> {
    pub fn new(console: &'a mut Console) -> Self {
        Self {
            console,
            counts: Default::default(),
            wrong: 0,
        }
    }

    /// Runs `encoding`, which must be a sensitive instruction.
    pub fn run(&mut self, encoding: Encoding) {
        let Some(found) = sensitive(encoding, ItState::NONE) else {
            self.complain(encoding, "is not found");
            return;
        };
        if found.user == UserMode::Unpredictable {
            self.count(&found).unpredictable += 1;
            return;
        }
        if emulator_errs(&found) {
            self.count(&found).emulated += 1;
            return;
        }
        let (exception, _) = in_user_mode(&found);
        match exception {
            Exception::Undefined => self.count(&found).undefined += 1,
            _ => self.count(&found).executed += 1,
        }
        if !expected(found.user, exception) {
            self.complain(encoding, expectation(found.user));
        }
    }

    /// Runs a sensitive instruction in User mode and in System mode, which must differ.
    pub fn differs(&mut self, encoding: Encoding) {
        self.run(encoding);
        match sensitive(encoding, ItState::NONE) {
            Some(found) if found.user == UserMode::Different => {
                if shows(&found) {
                    self.count(&found).different += 1;
                } else {
                    self.complain(encoding, "comes out the same in System mode");
                }
            }
            _ => self.complain(encoding, "is not different"),
        }
    }

    /// How many coprocessor instructions were executed.
    pub fn coprocessors_executed(&self) -> u32 {
        self.counts[Class::Coprocessor as usize].executed
    }

    /// Checks that more of the same instructions are executed once User mode has access.
    pub fn opens(&mut self, closed: u32, open: u32) {
        let _ = writeln!(
            self.console,
            "user-mode: counters and timers: {closed} executed, {open} when opened"
        );
        if open <= closed {
            self.wrong += 1;
            let _ = writeln!(self.console, "FAIL: nothing was opened");
        }
    }

    fn count(&mut self, found: &Sensitive) -> &mut Count {
        &mut self.counts[found.class() as usize]
    }

    fn complain(&mut self, encoding: Encoding, what: &str) {
        self.wrong += 1;
        if self.wrong <= SHOWN {
            let _ = writeln!(self.console, "FAIL: {encoding:x?} {what}");
        }
    }

    /// Prints the counts.
    pub fn finish(self) {
        let console = self.console;
        let mut all = 0;
        for (class, count) in Class::ALL.iter().zip(self.counts) {
            let Count {
                undefined,
                executed,
                different,
                unpredictable,
                emulated,
            } = count;
            all += undefined + executed;
            let _ = writeln!(
                console,
                "user-mode: {class:?}: undefined {undefined}, executed {executed} (shown to \
                 differ {different}), left out: unpredictable {unpredictable}, unlike on QEMU {emulated}"
            );
        }
        let _ = writeln!(
            console,
            "user-mode: {all} instructions, {} wrong",
            self.wrong
        );
    }
}

fn expectation(user: UserMode) -> &'static str {
    match user {
        UserMode::Undefined => "is not undefined",
        UserMode::Configured => "neither is executed nor undefined",
        _ => "is not executed",
    }
}

/// Instructions that QEMU 10 decodes on every CPU, although ARMv7-A has none of them: DBGDTR_EL0 of
/// ARMv8 by MRC and MCR, and loads and stores of half-precision registers, which took coprocessor
/// 9.
fn emulator_errs(found: &Sensitive) -> bool {
    let Operation::Coprocessor(coprocessor) = found.operation else {
        return false;
    };
    match coprocessor.access {
        Access::Register {
            opc1: 3,
            crn: 0,
            crm: 5,
            opc2: 0,
            ..
        } => coprocessor.number == 14,
        Access::Memory(transfer) => {
            let single = transfer.before && !transfer.write_back;
            coprocessor.number == 9 && !coprocessor.second_kind && single
        }
        _ => false,
    }
}

fn expected(user: UserMode, exception: Exception) -> bool {
    match user {
        UserMode::Undefined => exception == Exception::Undefined,
        UserMode::Legal | UserMode::Different | UserMode::Waits => {
            exception == Exception::Supervisor
        }
        UserMode::Configured => {
            matches!(exception, Exception::Undefined | Exception::Supervisor)
        }
        UserMode::Unpredictable => true,
    }
}

/// A state in which base registers point to existing memory, and other registers are zero.
fn state(status: u32, base: u32) -> State {
    let mut registers = [0; 15];
    registers[1] = base;
    State { registers, status }
}

fn in_user_mode(found: &Sensitive) -> (Exception, State) {
    let waits = matches!(found.operation, Operation::Hint(_));
    if waits {
        board::pend();
    }
    let outcome = run(found.encoding, state(USER | MASKS, OPEN));
    if waits {
        board::unpend();
    }
    outcome
}

/// Returns whether System mode shows a difference, with exceptions masked or not.
fn shows(found: &Sensitive) -> bool {
    match found.operation {
        // A privileged access to memory that User mode cannot access: LDR may, LDRT may not.
        Operation::Unprivileged(_) => {
            let (user, _) = run(found.encoding, state(USER | MASKS, OPEN));
            let (system, _) = run(found.encoding, state(SYSTEM | MASKS, PRIVILEGED));
            (user, system) == (Exception::Supervisor, Exception::DataAbort)
        }
        Operation::Mrs(Status::Current, to) => [0, MASKS].into_iter().any(|masks| {
            let number = usize::from(to.number());
            let [user, system] = [USER, SYSTEM].map(|mode| {
                let (_, after) = run(found.encoding, state(mode | masks, OPEN));
                after.registers.get(number).copied()
            });
            user != system
        }),
        _ => [0, MASKS].into_iter().any(|masks| {
            let [user, system] = [USER, SYSTEM].map(|mode| {
                let mut before = state(mode | masks, OPEN);
                before.registers[0] = SYSTEM | MASKS & !masks;
                let (_, after) = run(found.encoding, before);
                after.status & MASKS
            });
            user != system
        }),
    }
}
