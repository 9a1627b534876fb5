//! The same calls in C and Python: compiled, and run against registers and an agent that the tests answer for.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Runs a program with the socket of an agent that says yes, no and yes.
fn beside_an_agent(command: &mut Command) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent");
    let listener = UnixListener::bind(&path).unwrap();
    let agent = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut line = |wanted: &str, answer: &str| {
            let line = lines.next().unwrap().unwrap();
            assert!(line.starts_with(wanted), "{line}");
            (&stream).write_all(answer.as_bytes()).unwrap();
        };
        let declared = |name| {
            format!(
                "declare name={name} period=20000000 execution=2000000 deadline=20000000 thread="
            )
        };
        line(&declared("one"), "yes id=7 cpu=0 runtime=2000000\n");
        line(&declared("two"), "no refused: too much\n");
        line("revoke id=7", "yes\n");
    });
    let output = command.arg(&path).output().unwrap();
    if output.status.success() {
        agent.join().unwrap();
    }
    output
}

fn compile(to: &Path, files: &[&str], flags: &[&str]) {
    let mut command = Command::new("cc");
    command.current_dir(HERE).args([
        "-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-Ic", "-o",
    ]);
    let output = command.arg(to).args(flags).args(files).output();
    let output = output.expect("a C compiler, which Rust needs to link, too");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn c_calls() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("calls");
    compile(&program, &["tests/calls.c", "c/hanok_schedule.c"], &[]);
    let output = beside_an_agent(&mut Command::new(program));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        said,
        "c: all as wanted\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_example_in_c_compiles_and_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("example");
    compile(&program, &["c/example.c", "c/hanok_schedule.c"], &[]);
    if !Path::new("/run/hanok-agent.sock").exists() {
        let output = Command::new(program).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "hanok-agent does not answer\n"
        );
    }
}

#[test]
fn python_calls() {
    let mut python = Command::new("python3");
    python
        .current_dir(HERE)
        .env("PYTHONPATH", "python")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    if Command::new("python3").arg("--version").output().is_err() {
        println!("there is no Python here");
        return;
    }
    let output = beside_an_agent(python.arg("tests/calls.py"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        said,
        "python: all as wanted\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_document_shows_the_examples() {
    let root = Path::new(HERE).join("../..");
    let text = std::fs::read_to_string(root.join("docs/real-time-guests.md")).unwrap();
    // Those in Rust are in the crates' own documentation, whose tests compile them.
    for file in ["src/lib.rs", "../schedule/src/lib.rs"] {
        let source = std::fs::read_to_string(Path::new(HERE).join(file)).unwrap();
        let inside = source.split("```").nth(1).unwrap();
        let lines = inside
            .lines()
            .skip(1)
            .filter_map(|line| line.strip_prefix("//!"));
        let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
        let shown: Vec<_> = lines.filter(|line| !line.starts_with('#')).collect();
        assert!(
            text.contains(shown.join("\n").trim()),
            "{file} has another example"
        );
    }
    for file in ["c/example.c", "python/example.py"] {
        let example = std::fs::read_to_string(Path::new(HERE).join(file)).unwrap();
        assert!(
            text.contains(example.trim_end()),
            "{file} is otherwise in the document"
        );
    }
}
