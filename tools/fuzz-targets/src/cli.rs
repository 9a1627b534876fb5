//! Targets for what the `hanok` command reads: apt's files, scripts, scenarios, and the framed
//! line.

use hanok_artifacts::debian::index::parse as apt_index;
use hanok_artifacts::debian::sources::{parse_deb822, parse_list};
use hanok_console::demux::{Channel, Demux, Piece, frame, select};
use hanok_console::filter::Filter;
use hanok_console::modes::Modes;
use hanok_console::script::parse as script;
use hanok_scenarios::scenario::Scenario;
use hanok_scenarios::step_spec::Means;

fn text(data: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(data)
}

fn seeds(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The PC's apt sources, in both formats: any text has an answer, and comments add nothing.
pub fn apt_sources(data: &[u8]) {
    let text = text(data);
    parse_deb822(&text);
    let entries = parse_list(&text).len();
    assert!(entries <= text.lines().count());
    assert!(parse_list(&text.replace('\n', "\n#").replace("deb", "# deb")).len() <= entries);
}

pub(crate) fn sources_seeds() -> Vec<Vec<u8>> {
    seeds(&[
        "deb [signed-by=/k.gpg arch=amd64,arm64] http://archive.example/debian bookworm main\n",
        "Types: deb deb-src\nURIs: http://archive.example/debian\nSuites: bookworm\n bookworm-updates\nComponents: main\nSigned-By: /k.gpg\n\nTypes: deb\nEnabled: no\n",
    ])
}

/// A list of packages: any text has an answer, with at most as many packages as stanzas.
pub fn apt_packages(data: &[u8]) {
    let text = text(data);
    assert!(apt_index(&text).len() <= text.split("\n\n").count() + text.matches("Package").count());
}

pub(crate) fn packages_seeds() -> Vec<Vec<u8>> {
    seeds(&[
        "Package: linux-image-arm64\nVersion: 6.1.1-1\nArchitecture: arm64\nDepends: linux-image-6.1.0-1-arm64 (= 6.1.1-1)\nFilename: pool/a.deb\nSize: 123\nSHA256: 00ff\n\nPackage: b\nVersion: 1\n",
    ])
}

/// A script of `hanok run`: at most one step for each line.
pub fn run_script(data: &[u8]) {
    let text = text(data);
    if let Ok(steps) = script(&text) {
        assert!(steps.len() <= text.lines().count());
    }
}

pub(crate) fn script_seeds() -> Vec<Vec<u8>> {
    seeds(&[
        "# a comment\nexpect linux:~# \nsend uname -a\\n\\x41\nwait 1.5\nvm linux\nexpect-log vm\nend\n",
    ])
}

/// A scenario: an accepted one has cases, and steps or a reason for having none.
pub fn scenario(data: &[u8]) {
    if let Ok(cases) = Scenario::parse_all(&text(data)) {
        assert!(!cases.is_empty());
        for (_, case) in &cases {
            // Steps may be wrong in ways that only running them shows.
            let _ = case.steps(Means::default());
        }
    }
}

pub(crate) fn scenario_seeds() -> Vec<Vec<u8>> {
    let files = ["linux", "damaged", "shell", "conformance", "reboot"];
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests");
    let read = |name| std::fs::read(format!("{folder}/{name}.toml")).expect("a scenario");
    files.into_iter().map(read).collect()
}

/// The framed line: a VM's output is unchanged, however the bytes are cut into pieces; and so is
/// what goes to a terminal.
pub fn demultiplexer(data: &[u8]) {
    let (cut, said) = data
        .split_first()
        .map_or((0, data), |(cut, rest)| (*cut, rest));
    let vm = usize::from(cut % 8);
    let mut line = select(vm).to_vec();
    line.extend(frame(said));
    let (first, second) = line.split_at(usize::from(cut) % (line.len() + 1));
    let mut demux = Demux::framed();
    let pieces = [demux.feed(first), demux.feed(second)].concat();
    let text = |piece| match piece {
        Piece::Text(channel, text) if channel == Channel::Vm(vm) => text,
        other => panic!("{other:?}"),
    };
    let heard: Vec<u8> = pieces.into_iter().flat_map(text).collect();
    assert_eq!(heard, said);
    // Bytes without framing have some answer too.
    Demux::framed().feed(data);
    // What goes to a terminal does not depend on the cuts, and passes a second time unchanged.
    let (first, second) = said.split_at(usize::from(cut) % (said.len() + 1));
    let shown = for_terminal(&[said]);
    assert_eq!(for_terminal(&[first, second]), shown);
    assert_eq!(for_terminal(&[&shown]), shown);
}

fn for_terminal(parts: &[&[u8]]) -> Vec<u8> {
    let (mut filter, mut modes) = (Filter::default(), Modes::of_person());
    let pass = |part: &&[u8]| filter.pass(part, &mut modes);
    parts.iter().flat_map(pass).collect()
}
