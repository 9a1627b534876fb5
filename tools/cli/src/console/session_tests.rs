use super::*;

/// A session with a shell for a board, which speaks the board's side of the protocol.
fn session(board: &str, steps: Vec<Step>) -> (Report, String) {
    let mut command = Command::new("sh");
    command.args(["-c", board]);
    let log = tempfile::NamedTempFile::new().unwrap();
    let request = Request {
        command,
        vms: vec!["a".to_owned(), "b".to_owned()],
        framed: true,
        steps,
        until: None,
        timeout: Some(Duration::from_secs(20)),
        consoles: vec![Sink::Show, Sink::Show],
        log: Sink::File(log.reopen().unwrap()),
        input: Input::None,
        poweroff: true,
        before_end: None,
    };
    let report = run(request).map_err(|failure| failure.error).unwrap();
    (report, std::fs::read_to_string(log.path()).unwrap())
}

#[test]
fn the_prompt_is_typed_at_and_answers() {
    // DLE 0x40 and Ctrl-] come first; the rest only once the board has said who gets it.
    let board = "printf '\\020Q'; head -c 3 | od -An -tx1; \
        printf '\\020@hanok> \\020P'; head -c 5 | od -An -c; \
        printf 'list\\nvm a: running\\nhanok> \\020P'; printf '\\nend: off\\n'";
    let steps = vec![
        Step::Key(b"\x1dlist\r".to_vec()),
        Step::ExpectLog("vm a: running".to_owned()),
    ];
    let (report, log) = session(board, steps);
    assert_eq!(report.code, Code::Success, "{}", report.why);
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    assert!(lines.contains(&"10 40 1d"), "{log}");
    assert!(log.contains("l   i   s   t  \\r"), "{log}");
    assert!(lines.contains(&"vm a: running"), "{log}");
}

#[test]
fn a_script_speaks_to_vms_whoever_is_attached() {
    let board = "printf '\\020Q\\020Aready'; head -c 4 | od -An -tx1; printf '\\020@end: off\\n'";
    let steps = vec![
        Step::Expect("ready".to_owned()),
        Step::Vm("b".to_owned()),
        Step::Send(b"xy".to_vec()),
        Step::Vm("a".to_owned()),
        Step::Expect("10 42 78 79".to_owned()),
    ];
    let (report, _) = session(board, steps);
    assert_eq!(report.code, Code::Success, "{}", report.why);
}
