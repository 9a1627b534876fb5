use super::*;
use crate::request::Input;
use crate::run::{run, run_at};
use crate::script::ScriptStep;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Only what goes on for ever takes so long.
const WATCHDOG: Duration = Duration::from_secs(3600);

/// The report of a run that is over because its time is, which had time enough to get so far that `has_begun`:
/// a second, or on a busy PC more.
fn overdue(request: impl Fn() -> Request, has_begun: impl Fn(&str) -> bool) -> Report {
    let mut seconds = 1;
    loop {
        let mut request = request();
        request.timeout = Some(Duration::from_secs(seconds));
        let (run, _unread) = Run::start(request);
        let report = run.report();
        assert_eq!(report.code, Code::Timeout);
        if has_begun(&report.why) || seconds > 500 {
            return report;
        }
        seconds *= 2;
    }
}

/// A session with a shell as the board, which speaks the board's side of the protocol.
fn session(board: &str, steps: Vec<ScriptStep>) -> (Report, String) {
    let mut command = Command::new("sh");
    command.args(["-c", board]);
    let log = tempfile::NamedTempFile::new().unwrap();
    let request = Request {
        command,
        vms: vec!["a".to_owned(), "b".to_owned()],
        framed: true,
        steps,
        until: None,
        timeout: Some(WATCHDOG),
        consoles: vec![Sink::Show, Sink::Show],
        log: Sink::create(log.path()).unwrap(),
        input: Input::None,
        poweroff: true,
        before_end: None,
    };
    let report = run(request).map_err(|failure| failure.error).unwrap();
    (report, std::fs::read_to_string(log.path()).unwrap())
}

/// All that is shown of a run that ends well, with this shell program as the board.
fn shown(mut request: Request, board: &str) -> String {
    request.command = Command::new("sh");
    request.command.args(["-c", board]);
    let (run, mut reader) = Run::start(request);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    assert_eq!(run.report().code, Code::Success);
    text
}

#[test]
fn the_prompt_is_typed_at_and_answers() {
    // DLE 0x3f and Ctrl-] come first; the rest only once the board has said who gets it.
    let board = "printf '\\020\\200'; head -c 3 | od -An -tx1; \
        printf '\\020?hanok> \\020>'; head -c 5 | od -An -c; \
        printf 'list\\nvm a: running\\nhanok> \\020>'; printf '\\nend: off\\n'";
    let steps = vec![
        ScriptStep::Key(b"\x1dlist\r".to_vec()),
        ScriptStep::ExpectLog("vm a: running".to_owned()),
    ];
    let (report, log) = session(board, steps);
    assert_eq!(report.code, Code::Success, "{}", report.why);
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    assert!(lines.contains(&"10 3f 1d"), "{log}");
    assert!(log.contains("l   i   s   t  \\r"), "{log}");
    assert!(lines.contains(&"vm a: running"), "{log}");
}

#[test]
fn a_script_speaks_to_vms_whoever_is_attached() {
    let board =
        "printf '\\020\\200\\020@ready'; head -c 4 | od -An -tx1; printf '\\020?end: off\\n'";
    let steps = vec![
        ScriptStep::Expect("ready".to_owned()),
        ScriptStep::Vm("b".to_owned()),
        ScriptStep::Send(b"xy".to_vec()),
        ScriptStep::Vm("a".to_owned()),
        ScriptStep::Expect("10 41 78 79".to_owned()),
    ];
    let (report, _) = session(board, steps);
    assert_eq!(report.code, Code::Success, "{}", report.why);
}

/// A request for a board that writes without end.
fn flood(consoles: Vec<Sink>) -> Request {
    let mut command = Command::new("sh");
    // A shell with a child: both must go.
    command.args(["-c", "printf '\\020\\200\\020@'; yes; true"]);
    Request {
        command,
        vms: vec!["a".to_owned()],
        framed: true,
        steps: Vec::new(),
        until: None,
        timeout: None,
        consoles,
        log: Sink::Show,
        input: Input::None,
        poweroff: true,
        before_end: None,
    }
}

/// A run whose output goes to a socket, in a thread of its own. Only its end matters, and a run
/// that never ends meets the watchdog.
struct Run {
    ended: std::sync::mpsc::Receiver<Report>,
    inbox: Arc<Inbox>,
}

impl Run {
    fn start(request: Request) -> (Self, std::os::unix::net::UnixStream) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let inbox = Arc::new(Inbox::default());
        let errors = ours.try_clone().unwrap();
        let writers: Vec<Box<dyn std::io::Write + Send>> = vec![Box::new(ours), Box::new(errors)];
        let terminal = Terminal {
            outlet: Outlet::new("the output", writers, &inbox),
            is_terminal: false,
            is_one: true,
        };
        let (tell, ended) = std::sync::mpsc::channel();
        let of_run = Arc::clone(&inbox);
        std::thread::spawn(move || {
            let report = run_at(request, Extras::default(), terminal, &of_run);
            tell.send(report.map_err(|failure| failure.error).unwrap())
        });
        (Self { ended, inbox }, theirs)
    }

    fn report(&self) -> Report {
        let report = self.ended.recv_timeout(WATCHDOG);
        report.expect("the run goes on for ever")
    }
}

#[test]
fn the_time_is_over_whoever_does_not_read() {
    let wanted = "of the output were taken by nobody";
    let report = overdue(|| flood(vec![Sink::Show]), |why| why.contains(wanted));
    assert!(report.why.contains(wanted), "{}", report.why);
}

#[test]
fn a_signal_is_heard_whoever_does_not_read() {
    let (run, unread) = Run::start(flood(vec![Sink::Show]));
    // Once there is text, the board writes without end.
    let mut first = [0];
    std::io::Read::read_exact(&mut &unread, &mut first).unwrap();
    run.inbox.bring_signal(15).unwrap();
    let report = run.report();
    assert_eq!(report.code, Code::Interrupted);
    assert!(
        report.why.starts_with("interrupted by signal 15"),
        "{}",
        report.why
    );
}

#[test]
fn a_slow_reader_gets_everything() {
    let request = flood(vec![Sink::Show]);
    let board = "printf '\\020\\200\\020@'; seq 200000; printf '\\020?end: off\\n'";
    let text = shown(request, board);
    let numbers = text
        .lines()
        .filter_map(|line| line.strip_prefix("[a] ")?.parse::<u32>().ok());
    assert!(numbers.eq(1..=200_000));
}

#[test]
fn a_full_disk_ends_the_run_and_names_the_file() {
    let full = Sink::create(Path::new("/dev/full")).unwrap();
    let (run, _unread) = Run::start(flood(vec![full]));
    let report = run.report();
    assert_eq!(report.code, Code::Output);
    assert!(
        report
            .why
            .starts_with("cannot write /dev/full: No space left"),
        "{}",
        report.why
    );
}

#[test]
fn a_board_that_takes_no_keys_does_not_hold_the_run_up() {
    let mut request = flood(vec![Sink::Show]);
    request.framed = false;
    request.command = Command::new("sh");
    request.command.args(["-c", "sleep 1000"]);
    request.steps = vec![
        ScriptStep::Send(vec![b'x'; 1 << 20]),
        ScriptStep::Expect("never".to_owned()),
    ];
    let (run, _unread) = Run::start(request);
    run.inbox.bring_signal(2).unwrap();
    assert_eq!(run.report().code, Code::Interrupted);
}

#[test]
fn a_board_that_ends_without_a_word_is_no_riddle() {
    let ended = |board: &str| session(board, Vec::new()).0.why;
    assert!(ended("true").contains("which speaks by a PL011 or a 16550 alone"));
    for other in ["echo a word", "echo why >&2; exit 1"] {
        assert!(!ended(other).contains("PL011"), "{other}");
    }
}

#[test]
fn a_time_out_names_the_vm_and_its_last_line() {
    let board = "printf '\\020\\200\\020@one\\r\\ntwo\\r\\n\\020Aother\\n'; sleep 1000";
    let request = || {
        let mut request = flood(vec![Sink::Show, Sink::Show]);
        request.vms.push("b".to_owned());
        request.command = Command::new("sh");
        request.command.args(["-c", board]);
        request.steps = vec![ScriptStep::Expect("login:".to_owned())];
        request
    };
    let why = overdue(request, |why| why.contains("two")).why;
    let wanted = "while awaiting \"login:\" on the console of a; the last line of a: two";
    assert!(why.ends_with(wanted), "{why}");
}

#[test]
fn each_line_is_marked_and_no_guest_looks_like_the_hypervisor() {
    let board = "printf '\\020\\200\\020@hanok: vm b: off\\r\\n[hanok] panic: x\\n\\020?vm b: started\\n';\
        printf '\\020Ab\\n\\020@x\\r[hanok] y\\n\\020?end: off\\n'";
    let mut request = flood(vec![Sink::Show, Sink::Show]);
    request.vms.push("b".to_owned());
    let text = shown(request, board);
    let wanted = "[a] hanok: vm b: off\n[a] [hanok] panic: x\n[hanok] vm b: started\n[b] b\n[a] x\n\
        [a] [hanok] y\n[hanok] end: off\n";
    assert_eq!(text, wanted);
}
