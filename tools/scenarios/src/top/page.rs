//! The page of `hanok top --web`, without a browser: its events, and its requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::running::{PATIENCE, Running, ended, signal};

/// What the board said about a change.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) changed: bool,
    pub(super) words: String,
}

/// A page, and who serves it.
pub(super) struct Page {
    server: Child,
    url: String,
    address: String,
    token: String,
    events: Mutex<Receiver<Value>>,
    /// What it shows.
    latest: Mutex<Value>,
}

impl Page {
    /// Has a page of this run served, and opens it.
    pub(super) fn open(board: &Running) -> Result<Self> {
        let mut command =
            board.command(&["top"], &["--web", "127.0.0.1:0", "--interval", "0.1"])?;
        let command = command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut server = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let said = server.stdout.take().context("no output")?;
        BufReader::new(said).read_line(&mut line)?;
        let url = line
            .trim()
            .strip_prefix("Open ")
            .with_context(|| line.clone())?;
        let (site, token) = url.split_once("/?token=").with_context(|| line.clone())?;
        let address = site.strip_prefix("http://").context("no address")?;
        let (tell, events) = channel();
        let mut page = Self {
            url: url.to_owned(),
            address: address.to_owned(),
            token: token.to_owned(),
            server,
            events: Mutex::new(events),
            latest: Mutex::default(),
        };
        let mut stream = page.ask("GET /events", "")?;
        thread::spawn(move || {
            let mut lines = BufReader::new(&mut stream).lines();
            while let Some(Ok(line)) = lines.next() {
                let event = line.strip_prefix("data: ").map(serde_json::from_str);
                if let Some(Ok(event)) = event
                    && tell.send(event).is_err()
                {
                    return;
                }
            }
        });
        page.latest = Mutex::new(page.next()?);
        Ok(page)
    }

    /// The address to open, with the token.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Asks as the page's script would.
    fn ask(&self, what: &str, body: &str) -> Result<TcpStream> {
        let Self { address, token, .. } = self;
        let port = address.rsplit_once(':').context("no port")?.1;
        let length = body.len();
        let request = format!(
            "{what} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nCookie: hanok-top-{port}={token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request.as_bytes())?;
        Ok(stream)
    }

    /// The status and the body of an answer.
    fn post(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let mut answer = String::new();
        self.ask(&format!("POST {path}"), &body.to_string())?
            .read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok((
            status,
            serde_json::from_str(body).with_context(|| answer.clone())?,
        ))
    }

    /// Looks at what would follow from a change of this VM's vCPU, and has it made, whatever the analysis says;
    /// again, as long as others change promises meanwhile.
    pub(super) fn change(&self, (vm, to): &(&str, Value)) -> Result<Answer> {
        const CONFLICT: u16 = 409;
        let id = self.sees(|vcpu| vcpu["name"] == *vm)?["id"]["vm"].clone();
        for _ in 0..100 {
            let asked = json!({ "vm": id, "vcpu": 0, "to": to });
            let (status, shown) = self.post("/preview", &asked)?;
            ensure!(status == 200, "{shown}");
            let apply = json!({ "ticket": shown["ticket"], "anyway": true });
            let (status, answer) = self.post("/apply", &apply)?;
            match status {
                200 => return Ok(serde_json::from_value(answer)?),
                CONFLICT => thread::sleep(crate::running::LOOK),
                _ => bail!("{status}: {answer}"),
            }
        }
        bail!("promises change all the time")
    }

    /// The next event that it gets.
    fn next(&self) -> Result<Value> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.recv_timeout(PATIENCE).context("no event comes")
    }

    /// Takes the next event.
    fn look(&self) -> Result<Value> {
        let event = self.next()?;
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = event.clone();
        Ok(event)
    }

    fn latest(&self) -> Value {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.clone()
    }

    /// Waits until it shows a vCPU of which this holds, which it returns.
    pub(super) fn sees(&self, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let start = std::time::Instant::now();
        let mut event = self.latest();
        loop {
            let vcpus = event["view"]["vcpus"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            if let Some(vcpu) = vcpus.into_iter().find(&holds) {
                return Ok(vcpu);
            }
            ensure!(start.elapsed() < PATIENCE, "it shows {event:#}");
            event = self.look()?;
        }
    }

    /// Waits until it shows the same promises as `other`: one may have had a report before the last change.
    pub(super) fn agrees_with(&self, other: &Self) -> Result<()> {
        let start = std::time::Instant::now();
        while self.promises()? != other.promises()? {
            ensure!(
                start.elapsed() < PATIENCE,
                "they see different promises: {:?} {:?}",
                self.promises()?,
                other.promises()?
            );
            self.look()?;
            other.look()?;
        }
        Ok(())
    }

    /// What all vCPUs are promised, as it shows it.
    fn promises(&self) -> Result<Vec<[Value; 5]>> {
        let event = self.latest();
        let vcpus = event["view"]["vcpus"].as_array().context("no vCPUs")?;
        let of = |vcpu: &Value| {
            ["name", "kind", "period", "budget", "weight"].map(|key| vcpu[key].clone())
        };
        Ok(vcpus.iter().map(of).collect())
    }

    /// Waits until it has shown so many more reports, of a board whose time goes on.
    pub(super) fn goes_on(&self, reports: usize) -> Result<()> {
        let time = |event: &Value| event["view"]["ticks"].as_u64().unwrap_or(0);
        let (mut last, mut seen) = (time(&self.latest()), 0);
        while seen < reports {
            let now = time(&self.look()?);
            seen += usize::from(now > last);
            last = now;
        }
        Ok(())
    }

    /// Sends a signal to who serves it.
    pub(super) fn signal(&self, what: Signal) -> Result<()> {
        signal(&self.server, what)
    }

    /// Waits until its server has ended by itself; the answer is what it said.
    pub(super) fn ends(&mut self) -> Result<String> {
        let code = ended(&mut self.server)?;
        let mut said = String::new();
        let errors = self.server.stderr.as_mut().context("no stderr")?;
        errors.read_to_string(&mut said)?;
        ensure!(code == Some(0), "{code:?}: {said}");
        Ok(said)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
