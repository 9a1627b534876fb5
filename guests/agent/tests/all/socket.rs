//! The connections: real sockets, and a fake machine behind them.

use std::ffi::CString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::{Fake, bare};
use hanok_agent::agent::Agent;
use hanok_agent::ledger::TASKS;
use hanok_agent::server::{CLIENTS, Server};
use hanok_agent::settings::Settings;
use hanok_schedule::fake::Board;
use hanok_schedule::{Answer, Interface};
use hanok_schedule_linux::{Agent as Library, NotDeclared, Task};

const MS: u64 = 1_000_000;

/// An agent that listens in a folder of its own, in a thread of its own.
struct Running {
    folder: tempfile::TempDir,
    board: Board,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let user = std::fs::metadata(folder.path()).unwrap().uid();
        let board = Board::default();
        let stop = Arc::new(AtomicBool::new(false));
        let path = CString::new(folder.path().join("agent").to_str().unwrap()).unwrap();
        let (of_thread, stops) = (board.clone(), stop.clone());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let machine = Fake::new(of_thread, 1);
            // The library declares its own thread, whose number is anything.
            let own = own_threads();
            (1..1000)
                .chain(own)
                .for_each(|number| machine.thread_of(number, user, 1));
            let settings = Settings {
                users: vec![user],
                tick: 1,
                ..bare()
            };
            let mut agent = Agent::new(machine.clone(), settings).unwrap();
            let mut server = Server::listen(&path, false).unwrap();
            ready.send(()).unwrap();
            let start = std::time::Instant::now();
            while !stops.load(Ordering::Relaxed) {
                machine.state.borrow_mut().now = start.elapsed().as_nanos() as u64;
                server.step(&mut agent).unwrap();
            }
        });
        is_ready.recv().unwrap();
        Self {
            folder,
            board,
            stop,
            thread: Some(thread),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("agent")
    }

    fn connect(&self) -> Client {
        let stream = UnixStream::connect(self.path()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Client(BufReader::new(stream))
    }

    fn interface(&self) -> Interface {
        self.board.vcpu(0, |vcpu| vcpu.interface)
    }

    /// Waits until the vCPU has its first interface again.
    fn is_idle_again(&self) -> bool {
        (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            self.interface() == Interface::new(10 * MS, MS)
        })
    }
}

/// The number ranges in which the threads of this test program may be.
fn own_threads() -> impl Iterator<Item = i32> {
    let own = std::process::id() as i32;
    own..own + 4000
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = UnixStream::connect(self.path());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

struct Client(BufReader<UnixStream>);

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\n").as_bytes());
        self.line()
    }
}

#[test]
fn a_client_that_dies_has_its_tasks_taken_back() {
    let agent = Running::new();
    let mut one = agent.connect();
    let mut other = agent.connect();
    assert!(
        one.ask("declare period=20ms execution=4ms thread=1")
            .starts_with("yes ")
    );
    assert!(
        other
            .ask("declare period=20ms execution=4ms thread=2")
            .starts_with("yes ")
    );
    drop(one);
    while other.ask("list").contains("thread=1") {
        other.line();
    }
    assert!(agent.interface().budget > MS);
    drop(other);
    assert!(agent.is_idle_again());
}

#[test]
fn the_library_declares_and_revokes() {
    let agent = Running::new();
    let path = CString::new(agent.path().to_str().unwrap()).unwrap();
    let mut library = Library::connect_at(&path).unwrap();
    let declared = library
        .declare("control", &Task::new(20 * MS, 4 * MS))
        .unwrap();
    assert_eq!((declared.id, declared.cpu), (1, 0));
    assert!(declared.runtime > 4 * MS);
    library.used(declared, 3 * MS).unwrap();
    let refused = library.declare_thread(3, "more", &Task::new(20 * MS, 19 * MS));
    match refused {
        Err(NotDeclared::Refused(said)) => {
            assert_eq!(said.kind(), "refused");
            assert_eq!(
                said.reason(),
                "the tasks of the vCPU would need 115.0 % of a CPU"
            );
        }
        other => panic!("{other:?}"),
    }
    library.revoke(declared).unwrap();
    assert!(agent.is_idle_again());
    assert!(matches!(
        library.revoke(declared),
        Err(NotDeclared::Refused(_))
    ));
    // A name with a space would be another request.
    let told = library.declare("two words", &Task::new(20 * MS, MS));
    assert!(matches!(told, Err(NotDeclared::Refused(_))));
}

#[test]
fn lines_in_one_piece_and_in_many_are_the_same() {
    let agent = Running::new();
    let mut client = agent.connect();
    let mut all = String::new();
    (1..=100)
        .for_each(|thread| all += &format!("declare period=1s execution=10us thread={thread}\n"));
    client.send(all.as_bytes());
    for id in 1..=100 {
        assert!(client.line().starts_with(&format!("yes id={id} ")));
    }
    for byte in b"revoke id=7\n" {
        client.send(&[*byte]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.line(), "yes\n");
}

#[test]
fn what_a_client_asked_before_its_end_is_answered() {
    let agent = Running::new();
    let mut client = agent.connect();
    client.send("list\n".repeat(100).as_bytes());
    client
        .0
        .get_mut()
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    let mut all = String::new();
    client.0.read_to_string(&mut all).unwrap();
    assert_eq!(all, "yes\n".repeat(100));
}

#[test]
fn answers_come_in_the_order_of_questions() {
    let agent = Running::new();
    let mut client = agent.connect();
    let soon = Answer {
        status: -5,
        value: 50 * MS,
    };
    agent.board.vcpu(0, |vcpu| vcpu.instead.push(soon));
    client.send(b"declare period=20ms execution=4ms thread=1\nlist\n");
    // Others are answered meanwhile.
    assert_eq!(agent.connect().ask("list"), "yes\n");
    assert!(client.line().starts_with("yes id=1 "));
    assert!(client.line().starts_with("task id=1 "));
}

#[test]
fn garbage_is_no_harm() {
    let agent = Running::new();
    let mut random = 1_u64;
    for _ in 0..50 {
        let mut client = UnixStream::connect(agent.path()).unwrap();
        let bytes: Vec<u8> = (0..2000)
            .map(|_| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (random >> 56) as u8
            })
            .collect();
        let _ = client.write_all(&bytes);
        let _ = client.write_all(b"\n");
    }
    let mut client = agent.connect();
    client.send(&[b'x'; 300]);
    assert_eq!(client.line(), "no invalid: the line is too long\n");
    assert_eq!(client.line(), "");
    assert!(agent.connect().ask("nonsense").starts_with("no invalid: "));
    assert!(
        agent
            .connect()
            .ask("declare period=1s execution=1ms thread=5")
            .starts_with("yes ")
    );
}

#[test]
fn one_that_reads_no_answers_is_closed() {
    let agent = Running::new();
    let mut deaf = agent.connect();
    deaf.0
        .get_mut()
        .set_write_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let lines = "nonsense\n".repeat(1000);
    let closed = (0..1000).any(|_| deaf.0.get_mut().write_all(lines.as_bytes()).is_err());
    assert!(closed);
    assert_eq!(agent.connect().ask("list"), "yes\n");
}

#[test]
fn there_are_only_so_many_connections_and_tasks() {
    let agent = Running::new();
    let mut all: Vec<_> = (0..CLIENTS).map(|_| agent.connect()).collect();
    all.iter_mut()
        .for_each(|client| assert_eq!(client.ask("list"), "yes\n"));
    assert_eq!(
        agent.connect().line(),
        "no limit: too many programs are connected\n"
    );
    let mut admitted = 0;
    for thread in 1..=600 {
        let client = &mut all[thread % CLIENTS];
        let answer = client.ask(&format!("declare period=1s execution=10us thread={thread}"));
        admitted += usize::from(answer.starts_with("yes "));
    }
    assert_eq!(admitted, TASKS);
    drop(all);
    assert!(agent.is_idle_again());
}

#[test]
fn a_second_agent_does_not_take_the_socket() {
    let agent = Running::new();
    let path = CString::new(agent.path().to_str().unwrap()).unwrap();
    let second = Server::listen(&path, false);
    assert!(second.unwrap_err().contains("another agent listens"));
    assert_eq!(agent.connect().ask("list"), "yes\n");
}
