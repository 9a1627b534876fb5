//! Every entry into the kernel, and the choice of the task that runs after it.

use crate::arch::{self, Cause, Frame};
use crate::calls::{self, Call};
use crate::{burn, debug, report, stacks, state};
use hanok_guest_runtime::{boot, gic, timer};
use hanok_rtos_kernel::{Kernel, Misuse, Ticks};

/// Called by the vectors with the interrupted context, with interrupts masked. Returns the context
/// to go on with.
pub extern "C" fn exception(frame: &'static mut Frame, kind: usize) -> *mut Frame {
    let now = state::now();
    let next = serve(frame, kind, now);
    report::note_entry(state::now() - now);
    next
}

fn serve(frame: &'static mut Frame, kind: usize, now: Ticks) -> *mut Frame {
    match arch::cause(kind) {
        Cause::Call => {
            let arguments = frame.arguments();
            state::with(|kernel| call(kernel, now, arguments));
            switch(frame, now)
        }
        Cause::Interrupt => {
            let id = gic::acknowledge();
            // The timer is the only source; if another interrupt came, nothing is due.
            state::with(|kernel| kernel.timer(now));
            // Set the timer before the end of the interrupt: until then its line is high.
            let next = switch(frame, now);
            if id < gic::SPECIAL {
                gic::end(id);
            }
            next
        }
        Cause::Fault => fault(frame, kind),
    }
}

fn call(kernel: &mut Kernel<'_>, now: Ticks, [number, argument, more]: [usize; 3]) {
    let done = match Call::decode(number, argument) {
        Some(Call::Complete) => complete(kernel, now),
        Some(Call::Take(semaphore)) => kernel.take(now, semaphore),
        Some(Call::Give(semaphore)) => kernel.give(now, semaphore),
        Some(Call::Send(queue)) => kernel.send(now, queue, more as u32),
        Some(Call::Receive(queue)) => kernel.receive(now, queue),
        None => Err(Misuse::Unknown),
    };
    if let Err(misuse) = done {
        panic!("task {:?}: call {number}: {misuse:?}", kernel.running());
    }
}

fn complete(kernel: &mut Kernel<'_>, now: Ticks) -> Result<(), Misuse> {
    let running = kernel.running().and_then(|id| kernel.task(id));
    if let (Some(task), Some(from)) = (running, kernel.ran_from()) {
        burn::ended(now.wrapping_sub(from), task.spec().execution);
    }
    kernel.complete(now)
}

/// Keeps the interrupted context, sets the timer, and returns the next context.
fn switch(frame: &'static mut Frame, now: Ticks) -> *mut Frame {
    if now >= state::end() {
        report::last();
    }
    let next = state::with(|kernel| {
        program_timer(kernel);
        match kernel.ran_from() {
            Some(from) => state::set_ran_from(state::start().wrapping_add(from)),
            None => burn::idle(),
        }
        note_begin(kernel, now);
        let next = stacks::switch(frame, kernel.running());
        debug::publish(kernel);
        next
    });
    match next {
        Some(next) => next,
        None => panic!("an exception before there are tasks"),
    }
}

/// Tells [`burn`] if a task runs after none did.
fn note_begin(kernel: &Kernel<'_>, now: Ticks) {
    let task = kernel.running().and_then(|id| kernel.task(id));
    if let (None, Some(task)) = (debug::current(), task) {
        burn::begins(now.saturating_sub(task.released()));
    }
}

fn program_timer(kernel: &Kernel<'_>) {
    let next = kernel.next_event().min(state::end()).min(leash(kernel));
    match state::start().checked_add(next) {
        Some(at) => timer::fire_at(at),
        None => timer::stop(),
    }
}

/// The largest time that the timer may be set to.
fn leash(kernel: &Kernel<'_>) -> Ticks {
    let short = state::options().is_some_and(|options| options.cores > 1);
    match kernel.running() {
        Some(_) if short => state::now().saturating_add(burn::leash()),
        _ => Ticks::MAX,
    }
}

fn fault(frame: &Frame, kind: usize) -> ! {
    arch::explain();
    let offset = frame.pc().wrapping_sub(boot::load_address() as usize);
    panic!(
        "exception {kind} at image + {offset:#x}, task {:?}",
        calls::running()
    )
}
