//! Begins a run: with a board, or with the board of another run.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::carry::{self, Board};
use crate::clock::Clock;
use crate::inbox::{self, Inbox};
use crate::outbox::Outbox;
use crate::outlet::Outlet;
use crate::request::{Extras, Input, Report, Request};
use crate::session::Session;
use crate::session::output::Terminal;
use crate::session::run_end::RunEnd;
use crate::terminal::Raw;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::{cpu, signals};

/// Runs the board to its end.
pub fn run(request: Request) -> Outcome<Report> {
    run_with(request, Extras::default())
}

/// Runs the board to its end, with what a person's run has in addition.
pub fn run_with(request: Request, extras: Extras) -> Outcome<Report> {
    let inbox = Arc::new(Inbox::default());
    let terminal = Terminal::own(&inbox).blame(Code::Output)?;
    run_at(request, extras, terminal, &inbox)
}

pub(crate) fn run_at(
    mut request: Request,
    extras: Extras,
    terminal: Terminal,
    inbox: &Arc<Inbox>,
) -> Outcome<Report> {
    // Register before there is a board, so that no signal is missed for a board that has just
    // started.
    signals::register(inbox::listener(inbox));
    let mut board = Board::start(&request.command, inbox).blame(Code::Qemu)?;
    let raw = begin(&request, inbox);
    let before_end = request.before_end.take();
    let line = board.line();
    let line = line.map(|line| Outlet::new("to the board", vec![Box::new(line)], inbox));
    let outbox = Outbox::new(request.framed, request.vms.len());
    let counted = (!extras.by_the_wall).then(|| board.process());
    let mut session = Session::new(
        request,
        extras,
        (line, outbox),
        terminal,
        raw.is_some(),
        inbox,
    );
    session.clock = Clock::of(counted);
    let verdict = session.serve(inbox);
    let awaited_came = verdict
        .as_ref()
        .is_some_and(|verdict| verdict.code == Code::Success);
    if let (true, Some(look)) = (awaited_came, before_end) {
        look();
    }
    let cpu = cpu::of_process(board.process());
    let (status, said) = board.end(verdict.is_none());
    let report = session.close(verdict, (status, &said), inbox, raw);
    Ok(Report { cpu, ..report })
}

/// Shows the consoles of another `hanok run`, whose frames come by `stream`, until that run ends or
/// the person leaves.
pub fn visit(request: Request, first: usize, stream: UnixStream) -> Outcome<Report> {
    let inbox = Arc::new(Inbox::default());
    let terminal = Terminal::own(&inbox).blame(Code::Output)?;
    signals::register(inbox::listener(&inbox));
    let raw = begin(&request, &inbox);
    let to_run = stream.try_clone().blame(Code::Qemu)?;
    carry::run(stream, &inbox);
    let line = Outlet::new("to the run", vec![Box::new(to_run)], &inbox);
    let outbox = Outbox::to_run(request.vms.len());
    let extras = Extras {
        first,
        ..Extras::default()
    };
    let link = (Some(line), outbox);
    let mut session = Session::new(request, extras, link, terminal, raw.is_some(), &inbox);
    session.run_end = RunEnd::of_another();
    let verdict = session.serve(&inbox);
    Ok(session.close(verdict, (None, ""), &inbox, raw))
}

/// Puts the terminal into raw mode and takes keys, where a person is to type.
fn begin(request: &Request, inbox: &Arc<Inbox>) -> Option<Raw> {
    if request.input != Input::Stdin {
        return None;
    }
    let raw = Raw::enter();
    carry::keys(inbox);
    raw
}
