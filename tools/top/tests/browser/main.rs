//! The page of `hanok top --web` in a browser: what it shows, and a change through to the board.
//!
//! It needs Debian's packages chromium and chromium-driver, and takes a browser's time:
//! `./hanok test top-browser` runs it.

mod driver;

use std::sync::Arc;
use std::time::Duration;

use driver::Browser;
use hanok_top::fake::{self, FakeBoard, Manner};
use hanok_top::web::Server;

/// What a VM might be called on a board that is not to be trusted.
const HOSTILE: &str = "<img src=x onerror='window.caught=1'>";

/// A board that is watched, and the address of the page.
fn watched() -> String {
    let mut fake = FakeBoard::new(Manner::Garbled);
    fake.rename(5, HOSTILE);
    let shared = fake.watched("demo-4711", Duration::from_millis(250));
    let description = Some(Arc::new(fake::description()));
    let server = Server::open(&shared, description, "127.0.0.1:0".parse().unwrap()).unwrap();
    let url = server.url();
    std::thread::spawn(move || server.serve());
    url
}

const AXES: &str = "#vcpus tr[data-key='1.0']";

fn text_of(browser: &Browser, selector: &str) -> String {
    let script = format!("return document.querySelector(`{selector}`).textContent");
    browser.run(&script).as_str().unwrap().to_owned()
}

#[test]
#[ignore = "a browser"]
fn a_change_goes_from_the_page_to_the_board() {
    let url = watched();
    let browser = Browser::start();
    browser.open(&url);
    browser.wait("document.querySelectorAll('#vcpus tbody tr').length === 8");
    browser.wait("document.querySelector('#status').textContent === 'live'");
    browser.wait("document.querySelector('#log').childElementCount > 1");
    assert_eq!(
        browser.run("return location.search"),
        "",
        "the token is gone"
    );
    // The board sends names that are markup, and lines that are none.
    let names = text_of(&browser, "#vcpus tbody");
    assert!(names.contains(HOSTILE), "{names}");
    browser.wait("document.querySelector('#facts').textContent.includes('lines not understood')");
    let caught = "return window.caught ?? document.querySelectorAll('img, tbody script').length";
    assert_eq!(browser.run(caught), 0);
    // Time for rates, and for a timeline.
    browser.wait("performance.now() > 3000");
    let drawn = "(() => { const c = document.querySelector('#timeline'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; return new Set(new Uint32Array(d.buffer)).size > 8; })()";
    browser.wait(drawn);
    browser.prefer("light");
    browser.picture("light");
    browser.prefer("dark");
    browser.wait("true");
    browser.picture("dark");

    browser.click(&format!("{AXES} button"));
    browser.enter("#field-budget", "2ms");
    browser.click("#look");
    browser.wait("!document.querySelector('#preview').hidden");
    assert!(
        text_of(&browser, "#answer").starts_with("All deadlines are kept"),
        "{}",
        text_of(&browser, "#preview")
    );
    let tasks = text_of(&browser, "#tasks tbody");
    assert!(
        tasks.contains("position") && tasks.contains("cycle"),
        "{tasks}"
    );
    browser.picture("preview");
    assert!(
        text_of(&browser, AXES).contains("1ms in 5ms"),
        "nothing is applied yet"
    );
    browser.click("#apply");
    browser.wait("document.querySelector('#outcome').textContent.includes('axes: changed')");
    browser.wait(&format!(
        "document.querySelector(`{AXES}`).textContent.includes('2ms in 5ms')"
    ));

    // Too little for its tasks: a no, which is applied only by who says so.
    browser.click(&format!("{AXES} button"));
    browser.enter("#field-budget", "0.5ms");
    browser.click("#look");
    browser.wait("document.querySelector('#answer').textContent.startsWith('No:')");
    assert_eq!(
        browser.run("return document.querySelector('#apply').disabled"),
        true
    );
    browser.picture("refused");
    browser.click("#anyway");
    browser.click("#apply");
    browser.wait(&format!(
        "document.querySelector(`{AXES}`).textContent.includes('500us in 5ms')"
    ));

    // What the board itself refuses, and what nobody can take.
    browser.click(&format!("{AXES} button"));
    browser.enter("#field-budget", "0");
    browser.click("#look");
    browser.wait("document.querySelector('#wrong').textContent.includes('more than 0')");
    browser.enter("#field-budget", "4.9ms");
    browser.click("#look");
    browser.wait("document.querySelector('#answer').textContent.startsWith('No:')");
    browser.click("#anyway");
    browser.click("#apply");
    browser.wait("document.querySelector('#outcome').textContent.includes('the board says no')");

    // Sorted by what was used; and as narrow as a telephone, nothing but tables scrolls sideways.
    browser.click("#vcpus thead th:nth-child(7) button");
    browser.wait("document.querySelector('#vcpus thead th:nth-child(7)').getAttribute('aria-sort') === 'descending'");
    browser.size(420, 1500);
    browser.wait("window.innerWidth < 520");
    browser.wait("document.documentElement.scrollWidth <= window.innerWidth");
    browser.picture("narrow");
    assert_eq!(browser.run("return window.caught ?? 0"), 0);
}

#[test]
#[ignore = "a browser"]
fn another_site_s_page_gets_nothing() {
    let url = watched();
    let browser = Browser::start();
    browser.open(&url);
    browser.wait("document.querySelector('#status').textContent === 'live'");
    // With the cookie there, a page of another origin asks, and is told nothing.
    let elsewhere = url.replace("127.0.0.1", "localhost");
    let (origin, _) = elsewhere.split_once("/?").unwrap();
    let ask = format!(
        "return fetch('{origin}/preview', {{ method: 'POST', mode: 'no-cors', body: '{{}}' }})\
         .then((answer) => answer.type + answer.status, () => 'refused')"
    );
    assert_eq!(browser.run(&ask), "refused");
}

/// A board that runs, whose page `./hanok test top-page` names: a VM whose budget it takes from 1 ms to 2 ms, and one of
/// which it wants more than the core has.
#[test]
#[ignore = "a browser, and a board"]
fn a_change_on_a_running_board() {
    let url = std::env::var("HANOK_TOP_PAGE").expect("`./hanok test top-page` runs this");
    let browser = Browser::start();
    browser.open(&url);
    browser.wait("document.querySelectorAll('#vcpus tbody tr').length === 3");
    browser.wait("document.querySelector('#status').textContent === 'live'");
    let row = |vm: usize| format!("#vcpus tr[data-key='{vm}.0']");
    let (of_loop, hog) = (row(0), row(1));
    assert!(text_of(&browser, &hog).contains("1ms in 5ms"));
    browser.click(&format!("{hog} button"));
    browser.enter("#field-budget", "2ms");
    browser.click("#look");
    browser.wait("!document.querySelector('#preview').hidden");
    let answer = text_of(&browser, "#answer");
    assert!(answer.starts_with("All deadlines are kept"), "{answer}");
    assert!(text_of(&browser, "#tasks tbody").contains("control"));
    assert!(text_of(&browser, &hog).contains("1ms in 5ms"), "not yet");
    browser.click("#apply");
    browser.wait("document.querySelector('#outcome').textContent.includes('hog: changed')");
    browser.wait(&format!(
        "document.querySelector(`{hog}`).textContent.includes('2ms in 5ms')"
    ));
    browser.picture("running");

    browser.click(&format!("{of_loop} button"));
    browser.enter("#field-budget", "0.9ms");
    browser.click("#look");
    browser.wait("document.querySelector('#answer').textContent.startsWith('No:')");
    browser.click("#anyway");
    browser.click("#apply");
    browser.wait("document.querySelector('#outcome').textContent.includes('the board says no')");
    assert!(text_of(&browser, &of_loop).contains("200us in 1ms"));
}
