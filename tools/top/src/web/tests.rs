use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::*;
use crate::fake::{FakeBoard, Manner};
use crate::line::Ways;
use crate::link::{self, Peer};

/// A page of a board that is none.
struct World {
    shared: Shared,
    port: u16,
    token: String,
}

impl World {
    fn new() -> Self {
        let (board, ours) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let from = board.try_clone().unwrap();
            FakeBoard::new(Manner::Good).serve(from, board)
        });
        let (shared, commands) = Shared::new("x");
        let ways = Ways::of(ours).unwrap();
        let interval = Duration::from_millis(50);
        link::start(ways, Peer::Board, interval, (shared.clone(), commands));
        let live = |state: &crate::state::State| (state.status == Status::Live).then_some(());
        shared.wait(Duration::from_secs(60), live).unwrap();
        let server = Server::open(&shared, None, "127.0.0.1:0".parse().unwrap()).unwrap();
        let url = server.url();
        std::thread::spawn(move || server.serve());
        let (host, token) = url.split_once("/?token=").unwrap();
        let port = host.rsplit_once(':').unwrap().1.parse().unwrap();
        Self {
            shared,
            port,
            token: token.to_owned(),
        }
    }

    /// The answer to a request with these lines, `@` being the port and `#` the token.
    fn ask(&self, lines: &[&str], body: &str) -> String {
        let mut request = String::new();
        for line in lines {
            let line = line.replace('@', &self.port.to_string());
            request += &format!("{}\r\n", line.replace('#', &self.token));
        }
        request += &format!(
            "Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The answer to a change's request of the page.
    fn post(&self, path: &str, body: &str) -> String {
        let first = format!("POST {path} HTTP/1.1");
        let lines = [
            first.as_str(),
            "Host: 127.0.0.1:@",
            "Origin: http://127.0.0.1:@",
            COOKIE,
            JSON,
        ];
        self.ask(&lines, body)
    }
}

const COOKIE: &str = "Cookie: other=1; hanok-top-@=#";
const JSON: &str = "Content-Type: application/json";

#[test]
fn who_has_the_token_comes_in_and_nobody_else() {
    let world = World::new();
    let admitted = world.ask(&["GET /?token=# HTTP/1.1", "Host: 127.0.0.1:@"], "");
    assert!(admitted.starts_with("HTTP/1.1 303"), "{admitted}");
    assert!(admitted.contains("HttpOnly; SameSite=Strict") && admitted.contains("location: /\r\n"));
    let page = world.ask(&["GET / HTTP/1.1", "Host: localhost:@", COOKIE], "");
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("<title>hanok top"),
        "{page}"
    );
    assert!(page.contains("default-src 'none'"), "{page}");
    for (lines, status) in [
        (vec!["GET / HTTP/1.1", "Host: 127.0.0.1:@"], "401"),
        (vec!["GET /?token=0 HTTP/1.1", "Host: 127.0.0.1:@"], "401"),
        (
            vec![
                "GET /events HTTP/1.1",
                "Host: 127.0.0.1:@",
                "Cookie: hanok-top-@=1",
            ],
            "401",
        ),
        // A name of somebody else's for this address, and a page of theirs.
        (
            vec!["GET /?token=# HTTP/1.1", "Host: evil.example:@"],
            "421",
        ),
        (
            vec!["GET / HTTP/1.1", "Host: evil.example:@", COOKIE],
            "421",
        ),
        (vec!["GET / HTTP/1.1", "Host: 127.0.0.1:1", COOKIE], "421"),
        (
            vec![
                "GET / HTTP/1.1",
                "Host: 127.0.0.1:@",
                "Origin: http://evil.example",
                COOKIE,
            ],
            "403",
        ),
        (
            vec![
                "POST /apply HTTP/1.1",
                "Host: 127.0.0.1:@",
                "Origin: null",
                COOKIE,
                JSON,
            ],
            "403",
        ),
        (
            vec!["POST /apply HTTP/1.1", "Host: 127.0.0.1:@", COOKIE, JSON],
            "403",
        ),
        (
            vec![
                "POST /apply HTTP/1.1",
                "Host: localhost:@",
                "Origin: http://127.0.0.1:@",
                COOKIE,
                JSON,
            ],
            "403",
        ),
        // A form of any page could send this.
        (
            vec![
                "POST /apply HTTP/1.1",
                "Host: 127.0.0.1:@",
                "Origin: http://127.0.0.1:@",
                COOKIE,
                "Content-Type: text/plain",
            ],
            "415",
        ),
        (
            vec!["GET /etc/passwd HTTP/1.1", "Host: 127.0.0.1:@", COOKIE],
            "404",
        ),
    ] {
        let answer = world.ask(&lines, "{}");
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{lines:?}: {answer}"
        );
        assert!(!answer.contains(&world.token), "{answer}");
    }
}

/// The ticket of a preview.
fn ticket(answer: &str) -> u64 {
    let number = answer.split_once("\"ticket\":").unwrap().1;
    number.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn only_what_was_shown_is_applied_and_once() {
    let world = World::new();
    let wanted = |budget: u64| {
        format!(
            r#"{{"vm":1,"vcpu":0,"to":{{"interface":{{"period":5000000,"budget":{budget},"deadline":5000000}}}}}}"#
        )
    };
    let apply = |ticket: u64| format!(r#"{{"ticket":{ticket},"anyway":false}}"#);
    let never = world.post("/apply", &apply(99));
    assert!(never.starts_with("HTTP/1.1 409"), "{never}");
    let first = world.post("/preview", &wanted(900_000));
    assert!(first.contains(r#""answer":"kept""#), "{first}");
    let second = world.post("/preview", &wanted(800_000));
    let done = world.post("/apply", &apply(ticket(&first)));
    assert!(done.contains(r#""changed":true"#), "{done}");
    let again = world.post("/apply", &apply(ticket(&first)));
    assert!(again.contains("look again"), "{again}");
    // The other preview is of what there was before the change: once that is seen, it is of no use.
    let seen = |state: &crate::state::State| {
        let axes = state.view.vcpus.iter().find(|vcpu| vcpu.id.vm == 1)?;
        (axes.budget == 900_000).then_some(())
    };
    world.shared.wait(Duration::from_secs(60), seen).unwrap();
    let late = world.post("/apply", &apply(ticket(&second)));
    assert!(late.contains("changed meanwhile"), "{late}");
    let much = world.post("/preview", &wanted(4_900_000));
    assert!(much.contains(r#""answer":"not-shown""#), "{much}");
    let no = world.post("/apply", &apply(ticket(&much)));
    assert!(no.starts_with("HTTP/1.1 409"), "{no}");
    for (body, status) in [
        (wanted(0), "422"),
        (wanted(u64::MAX), "422"),
        (wanted(5).replace("5000000", "-1"), "422"),
        ("{".to_owned(), "400"),
        ("x".repeat(100_000), "4"),
    ] {
        let answer = world.post("/preview", &body);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
}

#[test]
fn events_come_by_themselves() {
    let world = World::new();
    let mut stream = TcpStream::connect(("127.0.0.1", world.port)).unwrap();
    let (port, token) = (world.port, &world.token);
    let request = format!(
        "GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: hanok-top-{port}={token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    let end = Instant::now() + Duration::from_secs(60);
    while text.matches("\ndata: {").count() < 3 {
        assert!(Instant::now() < end, "{text}");
        let count = stream.read(&mut buffer).unwrap();
        text += &String::from_utf8_lossy(&buffer[..count]);
    }
    assert!(
        text.contains("text/event-stream") && text.contains(r#""name":"fieldbus""#),
        "{text}"
    );
}
