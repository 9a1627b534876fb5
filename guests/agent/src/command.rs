//! The command line.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::agent::Agent;
use crate::linux::{Linux, say};
use crate::server::Server;
use crate::settings::Settings;
use hanok_schedule_linux::Places;
use hanok_syscalls::{Errno, file, socket};

/// Where the agent listens, and where its configuration is.
const SOCKET: &str = "/run/hanok-agent.sock";
const CONFIGURATION: &str = "/etc/hanok-agent.conf";
/// The longest configuration.
const LONGEST: usize = 1 << 16;

const HELP: &str = "\
hanok-agent: sees to it that this VM's periodic tasks keep their deadlines.

  hanok-agent [run]      runs the agent
      --config FILE      its configuration (/etc/hanok-agent.conf, if it is there)
      --measure          execution times follow what is measured
  hanok-agent add --pid N --period TIME --execution TIME
                         declares a program's first thread as a task, until it ends
      --deadline TIME    after the period's start (the period)
      --name NAME        for people
      --cpu N            the vCPU (any)
      --measure          its execution time follows what is measured
  hanok-agent remove ID  takes a task back
  hanok-agent list       shows all tasks
  hanok-agent status     shows the vCPUs
      --socket PATH      where the agent listens (/run/hanok-agent.sock)

Times are such as 10ms, 1.5ms or 250us.
";

/// What is wrong, and with which code the program ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// 1: it was refused; 2: it was not understood; 3: there is no agent, or it cannot run.
    pub code: usize,
    /// The words.
    pub words: String,
}

impl Failure {
    fn new(code: usize, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { code, words }
    }
}

/// Options of the form `--key value` and `--key`, and other words.
struct Options<'a>(Vec<&'a str>);

impl<'a> Options<'a> {
    fn value(&mut self, key: &str) -> Result<Option<&'a str>, Failure> {
        let Some(place) = self.0.iter().position(|word| *word == key) else {
            return Ok(None);
        };
        self.0.remove(place);
        if place < self.0.len() {
            return Ok(Some(self.0.remove(place)));
        }
        Err(Failure::new(2, format!("{key} wants a value")))
    }

    fn flag(&mut self, key: &str) -> bool {
        let place = self.0.iter().position(|word| *word == key);
        place.map(|place| self.0.remove(place)).is_some()
    }

    fn end(&self) -> Result<(), Failure> {
        match self.0.first() {
            None => Ok(()),
            Some(word) => Err(Failure::new(2, format!("{word} is not known; see --help"))),
        }
    }
}

/// Runs the program with these arguments, without its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let mut options = Options(arguments.to_vec());
    if options.flag("--help") || options.flag("-h") {
        return print(HELP);
    }
    let socket = options.value("--socket")?.unwrap_or(SOCKET);
    let socket = CString::new(socket).map_err(|_| Failure::new(2, "--socket wants a path"))?;
    let command = match options.0.first() {
        Some(word) if !word.starts_with('-') => options.0.remove(0),
        _ => "run",
    };
    match command {
        "run" => serve(&socket, options),
        "add" => {
            let line = add(&mut options)?;
            options.end()?;
            ask(&socket, &line)
        }
        "remove" => {
            let id = if options.0.is_empty() {
                ""
            } else {
                options.0.remove(0)
            };
            options.end()?;
            ask(&socket, &format!("revoke id={id}\n"))
        }
        "list" | "status" => {
            options.end()?;
            ask(&socket, &format!("{command}\n"))
        }
        other => Err(Failure::new(2, format!("{other} is not known; see --help"))),
    }
}

/// The line that declares a program's task.
fn add(options: &mut Options<'_>) -> Result<String, Failure> {
    let mut line = "declare stays".to_string();
    let keys = [
        ("--pid", "thread", true),
        ("--period", "period", true),
        ("--execution", "execution", true),
        ("--deadline", "deadline", false),
        ("--name", "name", false),
        ("--cpu", "cpu", false),
    ];
    for (option, key, needed) in keys {
        match options.value(option)? {
            Some(value) if value.contains(char::is_whitespace) => {
                return Err(Failure::new(2, format!("{option} wants one word")));
            }
            Some(value) => line += &format!(" {key}={value}"),
            None if needed => return Err(Failure::new(2, format!("{option} is missing"))),
            None => {}
        }
    }
    if options.flag("--measure") {
        line += " measured";
    }
    line.push('\n');
    Ok(line)
}

/// Asks the agent, and prints what it answers.
fn ask(path: &CString, line: &str) -> Result<(), Failure> {
    let lost = |error: Errno| {
        let path = path.to_string_lossy();
        Failure::new(3, format!("hanok-agent does not answer at {path}: {error}"))
    };
    let socket = socket::connect(path).map_err(lost)?;
    socket::send(&socket, line.as_bytes()).map_err(lost)?;
    let mut answer = Vec::new();
    let mut space = [0; 1024];
    loop {
        let had = socket.read(&mut space).map_err(lost)?;
        answer.extend_from_slice(&space[..had]);
        let text = String::from_utf8_lossy(&answer);
        let last = text.lines().last().unwrap_or_default();
        match last.split_once(' ').map_or(last, |(first, _)| first) {
            _ if had == 0 => return Err(lost(Errno::PIPE)),
            "no" if text.ends_with('\n') => {
                let words = last.split_once(": ").map_or(last, |(_, words)| words);
                return Err(Failure::new(1, words));
            }
            "yes" if text.ends_with('\n') => return print(&text),
            _ => {}
        }
    }
}

fn print(mut text: &str) -> Result<(), Failure> {
    while !text.is_empty() {
        let written = file::output().write(text.as_bytes());
        let written = written.map_err(|error| Failure::new(3, format!("{error}")))?;
        text = text.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Runs the agent; ends only if that is not possible.
fn serve(path: &CString, mut options: Options<'_>) -> Result<(), Failure> {
    let file = options.value("--config")?;
    let measure = options.flag("--measure");
    options.end()?;
    let fail = |words| Failure::new(3, words);
    let mut settings = settings(file).map_err(fail)?;
    settings.measure |= measure;
    let machine = Linux::open(&Places::default()).map_err(fail)?;
    if !machine.has_device() {
        say("this is no VM of Hanok: its CPUs are taken as whole ones");
    }
    let for_all = !settings.users.is_empty();
    let mut agent = Agent::new(machine, settings).map_err(fail)?;
    let mut server = Server::listen(path, for_all).map_err(fail)?;
    loop {
        let step = server.step(&mut agent);
        step.map_err(|error| fail(format!("waiting is not possible: {error}")))?;
    }
}

/// The configuration of a file, or of the usual one, which need not be there.
fn settings(name: Option<&str>) -> Result<Settings, String> {
    let path = CString::new(name.unwrap_or(CONFIGURATION)).unwrap_or_default();
    let mut space = alloc::vec![0; LONGEST];
    let bytes = match file::read(&path, &mut space) {
        Ok(bytes) => bytes,
        Err(Errno::NOENT) if name.is_none() => return Ok(Settings::default()),
        Err(error) => return Err(format!("{}: {error}", path.to_string_lossy())),
    };
    let text = core::str::from_utf8(bytes).map_err(|_| "the configuration is no text")?;
    Settings::parse(text).map_err(|error| format!("{}, {error}", path.to_string_lossy()))
}
