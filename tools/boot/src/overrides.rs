//! Changes to a description that the command line, or a scenario, asks for.
//!
//! The text is changed, and then read and checked as if the file said so: too many cores are
//! refused whoever asked for them. A refusal names who did: the option, where an option is at
//! fault, else the file's own line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use hanok_system::Diagnostic;

/// Changes to a board and its VMs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Who asked for these changes.
    pub whose: Whose,
    /// The name of the board.
    pub board: Option<String>,
    /// The backend.
    pub backend: Option<String>,
    /// The CPU model.
    pub cpu: Option<String>,
    /// The number of cores.
    pub cores: Option<u64>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Changes to the first VM.
    pub vm: VmOverrides,
    /// Changes to VMs, by their names.
    pub vms: BTreeMap<String, VmOverrides>,
}

/// Who asked for a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// The command line, by an option such as `--cores`.
    #[default]
    Option,
    /// A scenario, by a key such as `cores`.
    Scenario,
}

/// Changes to a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmOverrides {
    /// The kernel, as a description names it.
    pub kernel: Option<String>,
    /// The number of vCPUs.
    pub vcpus: Option<u64>,
    /// The core of each vCPU.
    pub cpus: Option<Vec<u64>>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Whether it starts with the board.
    pub autostart: Option<bool>,
    /// Words added to the command line.
    pub cmdline: String,
}

/// A description's text with changes.
pub struct Changed {
    lines: Vec<Line>,
    whose: Whose,
}

struct Line {
    text: String,
    from: LineOrigin,
}

/// Where a line comes from.
enum LineOrigin {
    /// The file's line with this number.
    File(usize),
    /// A change to this key.
    Change(String),
}

impl Overrides {
    /// `text` with its keys changed.
    pub fn apply(&self, text: &str) -> Changed {
        let lines = text.lines().enumerate().map(|(at, line)| Line {
            text: line.to_owned(),
            from: LineOrigin::File(at + 1),
        });
        let mut changed = Changed {
            lines: lines.collect(),
            whose: self.whose,
        };
        let board = [
            self.board.as_deref().map(|board| word("board", board)),
            self.backend
                .as_deref()
                .map(|backend| word("backend", backend)),
            self.cpu.as_deref().map(|cpu| word("cpu", cpu)),
            self.cores.map(|cores| format!("cores = {cores}")),
            self.memory.map(|bytes| kibibytes("memory", bytes)),
        ];
        for line in board.into_iter().flatten() {
            let end = changed.table_end(0);
            changed.set(0..end, line, "");
        }
        let table: Option<toml::Table> = toml::from_str(text).ok();
        let vms = table.as_ref().and_then(|table| table.get("vm")?.as_array());
        let vms = vms.map(Vec::as_slice).unwrap_or_default();
        changed.change_vm(0, vms.first(), &self.vm, "vm-");
        for (name, vm) in &self.vms {
            let called = |vm: &&toml::Value| vm.get("name").and_then(|n| n.as_str()) == Some(name);
            if let Some(at) = vms.iter().position(|vm| called(&vm)) {
                changed.change_vm(at, vms.get(at), vm, &format!("vms.{name}."));
            }
        }
        changed
    }
}

impl Changed {
    /// The text.
    pub fn text(&self) -> String {
        let lines = self.lines.iter();
        lines.map(|line| format!("{}\n", line.text)).collect()
    }

    /// The diagnostic, about the option, the scenario's key or the line that is at fault.
    pub fn blame(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        let line = diagnostic.line.checked_sub(1);
        match line
            .and_then(|at| self.lines.get(at))
            .map(|line| &line.from)
        {
            Some(LineOrigin::File(line)) => diagnostic.line = *line,
            Some(LineOrigin::Change(key)) => {
                diagnostic.file = PathBuf::from(match self.whose {
                    Whose::Option => format!("--{key}"),
                    Whose::Scenario => format!("the scenario's `{key}`"),
                });
                (diagnostic.line, diagnostic.column) = (0, 0);
            }
            None => {}
        }
        diagnostic
    }

    /// The end of the table that begins at `start`.
    fn table_end(&self, start: usize) -> usize {
        let is_table = |line: &Line| line.text.trim_start().starts_with('[');
        let rest = self.lines.get(start..).unwrap_or_default();
        let end = rest.iter().position(is_table);
        end.map_or(self.lines.len(), |end| start + end)
    }

    /// The lines of the VM with this index in the description.
    fn vm(&self, at: usize) -> Option<Range<usize>> {
        let is_head = |line: &&Line| line.text.trim() == "[[vm]]";
        let mut heads = (0..self.lines.len()).filter(|line| is_head(&&self.lines[*line]));
        let start = heads.nth(at)? + 1;
        Some(start..self.table_end(start))
    }

    fn change_vm(&mut self, at: usize, vm: Option<&toml::Value>, to: &VmOverrides, name: &str) {
        // A change to one of these two keys removes the other one.
        for (given, other) in [(to.vcpus.is_some(), "cpus"), (to.cpus.is_some(), "vcpus")] {
            if given && let Some(range) = self.vm(at) {
                self.blank(range, other);
            }
        }
        for line in to.lines(vm) {
            let Some(range) = self.vm(at) else { return };
            self.set(range, line, name);
        }
    }

    /// Sets the key of `line` among the lines of `range`. Lines keep their places wherever
    /// possible: a key takes the place of its former line, or of a comment.
    fn set(&mut self, range: Range<usize>, text: String, name: &str) {
        let key = text.split(' ').next().unwrap_or_default();
        let from = LineOrigin::Change(format!("{name}{key}"));
        let part = &self.lines[range.clone()];
        let free = |line: &Line| {
            let text = line.text.trim_start();
            matches!(line.from, LineOrigin::File(_)) && (text.is_empty() || text.starts_with('#'))
        };
        let place = part.iter().position(|line| line.has_key(key));
        let place = place.or_else(|| part.iter().position(free));
        match place {
            Some(at) => self.lines[range.start + at] = Line { text, from },
            None => self.lines.insert(range.start, Line { text, from }),
        }
    }

    /// Removes `key` from the lines of `range`.
    fn blank(&mut self, range: Range<usize>, key: &str) {
        let lines = &mut self.lines[range];
        if let Some(line) = lines.iter_mut().find(|line| line.has_key(key)) {
            line.text.clear();
        }
    }
}

impl Line {
    fn has_key(&self, key: &str) -> bool {
        let old = self.text.split_once('=');
        old.is_some_and(|(old, _)| old.trim().trim_matches('"') == key)
    }
}

impl VmOverrides {
    /// The lines to set in a VM that is `vm` so far.
    fn lines(&self, vm: Option<&toml::Value>) -> impl Iterator<Item = String> {
        let before = vm.and_then(|vm| vm.get("cmdline")?.as_str());
        let cmdline = (!self.cmdline.is_empty()).then(|| {
            let all = format!("{} {}", before.unwrap_or_default(), self.cmdline);
            word("cmdline", all.trim())
        });
        let lines = [
            self.kernel.as_deref().map(|kernel| word("kernel", kernel)),
            self.vcpus.map(|vcpus| format!("vcpus = {vcpus}")),
            self.cpus.as_ref().map(|cpus| format!("cpus = {cpus:?}")),
            self.memory.map(|bytes| kibibytes("memory", bytes)),
            self.autostart.map(|auto| format!("autostart = {auto}")),
            cmdline,
        ];
        lines.into_iter().flatten()
    }
}

fn word(key: &str, value: &str) -> String {
    format!("{key} = {}", toml::Value::from(value))
}

fn kibibytes(key: &str, bytes: u64) -> String {
    format!("{key} = \"{}K\"", bytes >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_take_the_place_of_the_file_s_keys() {
        let changed = Overrides {
            board: Some("y".into()),
            cpu: Some("max".into()),
            cores: Some(2),
            memory: Some(1 << 30),
            ..Overrides::default()
        };
        let text = "# one\nboard = 'x'\ncores = 4\n[[vm]]\nmemory = '1M'\n";
        let wanted = "memory = \"1048576K\"\ncpu = \"max\"\nboard = \"y\"\ncores = 2\n[[vm]]\nmemory = '1M'\n";
        assert_eq!(changed.apply(text).text(), wanted);
    }

    #[test]
    fn overrides_of_a_vm_keep_its_command_line() {
        let vm = VmOverrides {
            kernel: Some("debian:6.12".into()),
            vcpus: Some(1),
            memory: Some(1 << 20),
            cmdline: "more".into(),
            ..VmOverrides::default()
        };
        let changed = Overrides {
            vm,
            ..Overrides::default()
        };
        let text = "memory = '1G'\n[[vm]]\nkernel = 'x'\ncmdline = 'a b'\nmemory = '2G'\n";
        let wanted = "memory = '1G'\n[[vm]]\nvcpus = 1\nkernel = \"debian:6.12\"\n\
            cmdline = \"a b more\"\nmemory = \"1024K\"\n";
        assert_eq!(changed.apply(text).text(), wanted);
    }

    #[test]
    fn another_vm_is_changed_by_its_name() {
        let vm = VmOverrides {
            cpus: Some(vec![0, 1]),
            cmdline: "more".into(),
            ..VmOverrides::default()
        };
        let changed = Overrides {
            vms: BTreeMap::from([("b".to_owned(), vm)]),
            ..Overrides::default()
        };
        let text = "[[vm]]\nname = 'a'\nvcpus = 2\n[[vm]]\nname = 'b'\nvcpus = 1\n";
        let wanted = "[[vm]]\nname = 'a'\nvcpus = 2\n[[vm]]\nname = 'b'\ncpus = [0, 1]\n";
        let text = changed.apply(text).text();
        assert_eq!(text.replace("cmdline = \"more\"\n", ""), wanted);
        assert!(text.contains("cmdline"));
    }

    fn refused_at(changed: &Changed, line: usize) -> String {
        let text = String::new;
        let diagnostic = Diagnostic {
            file: "x.toml".into(),
            line,
            column: 3,
            width: 1,
            what: "no".into(),
            why: text(),
            remedy: text(),
        };
        changed.blame(diagnostic).to_string()
    }

    #[test]
    fn a_refusal_names_who_is_at_fault() {
        let mut overrides = Overrides {
            cores: Some(9),
            ..Overrides::default()
        };
        let changed = overrides.apply("board = 'x'\n[[vm]]\n");
        assert_eq!(refused_at(&changed, 1), "--cores: no");
        assert_eq!(refused_at(&changed, 2), "x.toml:1:3: no");
        overrides.whose = Whose::Scenario;
        let changed = overrides.apply("cores = 1\n");
        assert_eq!(refused_at(&changed, 1), "the scenario's `cores`: no");
    }
}
