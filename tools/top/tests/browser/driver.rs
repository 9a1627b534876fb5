//! As much of WebDriver (W3C) as the test needs, to Debian's Chromium by its own driver.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser without a screen. It ends when this is dropped.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser.
    pub fn start() -> Self {
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut driver = driver.expect(
            "no chromedriver: this test needs Debian's packages chromium and chromium-driver",
        );
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = said.find_map(|line| {
            let line = line.ok()?;
            let port = line.rsplit_once("on port ")?.1;
            // Its first line names the port that it was asked for, which is 0.
            port.trim_end_matches('.')
                .parse()
                .ok()
                .filter(|port| *port > 0)
        });
        // What it says later must go somewhere.
        std::thread::spawn(move || said.for_each(drop));
        let profile = tempfile::tempdir().unwrap();
        let data = format!("--user-data-dir={}", profile.path().display());
        let mut browser = Self {
            driver,
            port: port.expect("the driver names its port"),
            session: String::new(),
            _profile: profile,
        };
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1360,1500",
            &data,
        ];
        let options = json!({ "goog:chromeOptions": { "args": args } });
        let wanted = json!({ "capabilities": { "alwaysMatch": options } });
        let began = browser.ask("POST", "", &wanted);
        browser.session = began["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    fn ask(&self, method: &str, command: &str, body: &Value) -> Value {
        let session = if self.session.is_empty() {
            String::new()
        } else {
            format!("/{}", self.session)
        };
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = asked(
            self.port,
            &format!(
                "{method} /session{session}{command} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: \
                 application/json\r\nContent-Length: {}\r\n\r\n{body}",
                self.port,
                body.len()
            ),
        );
        let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
        let value = answer["value"].clone();
        assert!(value.get("error").is_none(), "{command}: {value}");
        value
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.ask("POST", "/url", &json!({ "url": url }));
    }

    /// What a script in the page returns.
    pub fn run(&self, script: &str) -> Value {
        self.ask(
            "POST",
            "/execute/sync",
            &json!({ "script": script, "args": [] }),
        )
    }

    /// Waits until a script returns what is true, and returns that.
    pub fn wait(&self, script: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let value = self.run(&format!("return {script};"));
            if !matches!(value, Value::Null | Value::Bool(false))
                && value != json!("")
                && value != json!(0)
            {
                return value;
            }
            if Instant::now() > end {
                let text = self.run("return document.body.innerText");
                panic!("never came: {script}; the page is {text}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn element(&self, selector: &str) -> String {
        let found = json!({ "using": "css selector", "value": selector });
        let found = self.ask("POST", "/element", &found);
        let mut ids = found.as_object().unwrap().values();
        ids.next().unwrap().as_str().unwrap().to_owned()
    }

    /// Clicks as a person does: what cannot be seen cannot be clicked.
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.ask("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Types into a field, in the place of what is there.
    pub fn enter(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.ask("POST", &format!("/element/{element}/clear"), &json!({}));
        self.ask(
            "POST",
            &format!("/element/{element}/value"),
            &json!({ "text": text }),
        );
    }

    /// Makes the window as large as this.
    pub fn size(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height });
        self.ask("POST", "/window/rect", &size);
    }

    /// Chooses between light and dark.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let command =
            json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.ask("POST", "/goog/cdp/execute", &command);
    }

    /// Puts a picture of the window into `HANOK_SCREENSHOTS`, where that names a folder.
    pub fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("HANOK_SCREENSHOTS") else {
            return;
        };
        let picture = self.ask("GET", "/screenshot", &Value::Null);
        let bytes = base64(picture.as_str().unwrap());
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Also after a test that failed: a driver that is killed leaves its browser behind.
        if !self.session.is_empty() {
            let (port, session) = (self.port, &self.session);
            let request =
                format!("DELETE /session/{session} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
            let _ = asked(port, &request);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The body of an answer.
fn asked(port: u16, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// RFC 4648, as a driver sends pictures.
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        bits = bits << 6 | u32::from(digit(byte));
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
