//! Finds the Debian archive among the machine's own apt sources.
//!
//! A machine behind a mirror or a proxy has its archive configured already, and a second, fixed
//! address would be wrong there. Both formats of sources are read (sources.list(5)). Third parties
//! that serve a suite of the same name (Docker does) are recognised by their component and keyring.
//! Whatever is chosen, only Debian's own key is accepted later.

use deb822_fast::Paragraph;

use super::paragraphs::paragraphs;

/// One archive: an address and one suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The address, in any form that apt accepts.
    pub uri: String,
    /// The suite, such as `bookworm` or `bookworm-security`.
    pub suite: String,
}

/// The two archives of Debian that everything comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archives {
    /// The main archive, backports included.
    pub main: String,
    /// The security archive, where the machine has one.
    pub security: Option<String>,
}

const CODENAMES: [&str; 7] = [
    "bookworm",
    "trixie",
    "forky",
    "sid",
    "stable",
    "testing",
    "oldstable",
];

impl Archives {
    /// The archives among `entries`; `None` where there is no Debian main archive.
    pub fn choose(entries: &[Entry]) -> Option<Self> {
        let pick = |wanted: &dyn Fn(&str) -> bool| {
            let fits = |entry: &&Entry| wanted(&entry.suite);
            let bookworm = |entry: &&Entry| entry.suite.starts_with("bookworm");
            let mut all = entries.iter().filter(fits);
            let first = all.clone().find(bookworm).or_else(|| all.next());
            first.map(|entry| entry.uri.clone())
        };
        let main = pick(&|suite| !is_security(suite))?;
        Some(Self {
            main,
            security: pick(&is_security),
        })
    }
}

fn is_security(suite: &str) -> bool {
    suite.ends_with("-security") || suite.ends_with("/updates")
}

/// Whether `suite` is Debian's own; `bookworm-pgdg` and the like are not.
fn is_debian(suite: &str) -> bool {
    let (name, pocket) = suite.split_once(['-', '/']).unwrap_or((suite, ""));
    let known = ["", "updates", "security", "backports", "proposed-updates"];
    CODENAMES.contains(&name) && known.contains(&pocket)
}

/// Whether a `Signed-By` names Debian's keyring, or is empty.
fn is_debian_key(signed_by: &str) -> bool {
    signed_by.trim().is_empty() || signed_by.contains("debian-archive-")
}

/// The entries of a one-line style file (`*.list`).
pub fn parse_list(text: &str) -> Vec<Entry> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Entry> {
    let line = line.split('#').next()?.trim();
    let rest = line.strip_prefix("deb")?;
    if !rest.starts_with([' ', '\t', '[']) {
        return None;
    }
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => ("", rest),
    };
    // `cdrom:[Debian 12 ...]/` contains blanks; a disc is no archive to fetch from.
    if rest.trim_start().starts_with("cdrom:") {
        return None;
    }
    let mut words = rest.split_whitespace();
    let (uri, suite) = (words.next()?, words.next()?);
    let signed_by = options
        .split_whitespace()
        .find_map(|o| o.strip_prefix("signed-by="));
    let ours = words.any(|component| component == "main")
        && is_debian(suite)
        && is_debian_key(signed_by.unwrap_or_default());
    ours.then(|| Entry {
        uri: uri.to_owned(),
        suite: suite.to_owned(),
    })
}

/// The entries of a deb822 style file (`*.sources`).
pub fn parse_deb822(text: &str) -> Vec<Entry> {
    paragraphs(text).flat_map(entries_of).collect()
}

fn entries_of(paragraph: Paragraph) -> Vec<Entry> {
    let field = |name: &str| paragraph.get(name).unwrap_or_default();
    let has = |name: &str, word: &str| field(name).split_whitespace().any(|w| w == word);
    let off = ["no", "false", "0"].contains(&field("Enabled").trim());
    if off || !has("Types", "deb") || !has("Components", "main") {
        return Vec::new();
    }
    if !is_debian_key(field("Signed-By")) {
        return Vec::new();
    }
    let uri = field("URIs")
        .split_whitespace()
        .find(|uri| !uri.starts_with("cdrom:"));
    let Some(uri) = uri else { return Vec::new() };
    let suites = field("Suites")
        .split_whitespace()
        .filter(|suite| is_debian(suite));
    suites
        .map(|suite| Entry {
            uri: uri.to_owned(),
            suite: suite.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(uri: &str, suite: &str) -> Entry {
        Entry {
            uri: uri.into(),
            suite: suite.into(),
        }
    }

    #[test]
    fn one_line_entries_with_and_without_options() {
        let text = "# deb http://old/debian bookworm main\n\
            deb http://a/debian bookworm main contrib # mine\n\
            deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://b/debian bookworm-updates main\n\
            deb-src http://c/debian bookworm main\n\
            deb cdrom:[Debian GNU/Linux 12.0.0 _Bookworm_]/ bookworm main\n";
        let wanted = [
            entry("http://a/debian", "bookworm"),
            entry("http://b/debian", "bookworm-updates"),
        ];
        assert_eq!(parse_list(text), wanted);
    }

    #[test]
    fn third_parties_are_skipped() {
        let text = "deb [signed-by=/etc/apt/keyrings/docker.gpg] https://d/linux/debian bookworm stable\n\
            deb https://p/apt bookworm-pgdg main\n\
            deb [signed-by=/etc/apt/keyrings/x.gpg] https://x/ bookworm main\n\
            deb https://g/apt cloud-sdk-bookworm main\n";
        assert_eq!(parse_list(text), []);
        let node = "Types: deb\nURIs: https://n/node\nSuites: nodistro\nComponents: main\n";
        assert_eq!(parse_deb822(node), []);
    }

    #[test]
    fn deb822_stanzas_with_comments_and_several_suites() {
        let text = "Types: deb deb-src\n# a comment inside\nURIs: http://a/debian\n\
            Suites: bookworm\n bookworm-updates\nComponents: main\n\
            Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\n\
            Types: deb\nURIs: http://a/debian-security\nSuites: bookworm-security\nComponents: main\n\n\
            Types: deb\nEnabled: no\nURIs: http://off/debian\nSuites: bookworm\nComponents: main\n";
        let found = parse_deb822(text);
        let wanted = [
            entry("http://a/debian", "bookworm"),
            entry("http://a/debian", "bookworm-updates"),
            entry("http://a/debian-security", "bookworm-security"),
        ];
        assert_eq!(found, wanted);
        let archives = Archives::choose(&found).unwrap();
        assert_eq!(archives.main, "http://a/debian");
        assert_eq!(
            archives.security.as_deref(),
            Some("http://a/debian-security")
        );
    }

    #[test]
    fn bookworm_is_preferred_to_another_release() {
        let all = [
            entry("http://t/debian", "trixie"),
            entry("http://b/debian", "bookworm"),
        ];
        assert_eq!(Archives::choose(&all).unwrap().main, "http://b/debian");
        assert_eq!(Archives::choose(&all[..1]).unwrap().main, "http://t/debian");
        assert_eq!(
            Archives::choose(&[entry("http://s/", "bookworm-security")]),
            None
        );
    }

    #[test]
    fn an_inline_key_is_a_third_party_s() {
        let text = "Types: deb\nURIs: http://x/\nSuites: bookworm\nComponents: main\n\
            Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n";
        assert_eq!(parse_deb822(text), []);
    }
}
