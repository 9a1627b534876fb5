//! The kernels that are built to be examined, from a list that is data
//! (`tests/previrt/builds.toml`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// The list.
const LIST: &str = "tests/previrt/builds.toml";
/// What every configuration has.
const CONFIG: &str = "tests/previrt/kernel.config";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    source: Vec<Source>,
    compiler: Vec<CompilerEntry>,
    part: Vec<Part>,
    build: Vec<Entry>,
}

/// A kernel's source: a package of one of Debian's releases.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    name: String,
    /// Debian's.
    pub release: String,
    /// What is called `linux-source-X`.
    pub package: String,
    /// What its options are called that others call otherwise.
    #[serde(default)]
    config: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompilerEntry {
    name: String,
    release: String,
}

/// A part of a configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    name: String,
    config: String,
}

/// Builds of a source with a compiler: one for each of `parts`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    source: String,
    compiler: String,
    parts: Vec<Vec<String>>,
}

/// A compiler by its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// GNU's.
    Gcc(u32),
    /// LLVM's.
    Clang(u32),
}

impl Compiler {
    /// By its name: `gcc 12`.
    fn parse(name: &str) -> Result<Self> {
        let parts = name.split_once(' ');
        let parts = parts.and_then(|(kind, version)| Some((kind, version.parse().ok()?)));
        match parts {
            Some(("gcc", version)) => Ok(Self::Gcc(version)),
            Some(("clang", version)) => Ok(Self::Clang(version)),
            _ => bail!("{LIST}: {name:?} is no compiler such as \"gcc 12\" or \"clang 19\""),
        }
    }

    /// Debian's packages with what builds a kernel.
    pub fn packages(self) -> Vec<String> {
        match self {
            Self::Gcc(version) => vec![format!("gcc-{version}-arm-linux-gnueabihf")],
            Self::Clang(version) => {
                let names = ["clang", "lld", "llvm"];
                names.map(|name| format!("{name}-{version}")).to_vec()
            }
        }
    }
}

/// One kernel to build.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What to call it: `6.12, gcc 14, T32`.
    pub name: String,
    /// The same as a folder.
    pub folder: String,
    /// What of.
    pub source: Source,
    /// By what.
    pub compiler: Compiler,
    /// The compiler's release.
    pub release: String,
    /// The whole configuration; of two lines about an option the later counts.
    pub config: String,
}

/// Each kernel of the list.
pub fn plans(root: &Path) -> Result<Vec<Plan>> {
    let read = |name: &str| {
        fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))
    };
    parse(&read(LIST)?, &read(CONFIG)?)
}

/// The kernel of the list that is called `name`.
pub fn plan(root: &Path, name: &str) -> Result<Plan> {
    let found = plans(root)?.into_iter().find(|plan| plan.name == name);
    found.with_context(|| format!("{LIST} has no {name:?}"))
}

fn parse(text: &str, base: &str) -> Result<Vec<Plan>> {
    let list: List = toml::from_str(text).with_context(|| format!("{LIST} is broken"))?;
    let unknown = |name: &str| format!("{LIST} uses {name:?}, and does not say what it is");
    let mut plans: Vec<Plan> = Vec::new();
    for entry in &list.build {
        let mut sources = list.source.iter();
        let source = sources.find(|source| source.name == entry.source);
        let source = source.with_context(|| unknown(&entry.source))?;
        let mut compilers = list.compiler.iter();
        let compiler = compilers.find(|compiler| compiler.name == entry.compiler);
        let compiler = compiler.with_context(|| unknown(&entry.compiler))?;
        for names in &entry.parts {
            let mut config = format!("{base}\n{}", source.config);
            for name in names {
                let part = list.part.iter().find(|part| part.name == *name);
                config += &format!("\n{}", part.with_context(|| unknown(name))?.config);
            }
            let name = format!("{}, {}, {}", source.name, compiler.name, names.join(", "));
            ensure!(
                plans.iter().all(|plan| plan.name != name),
                "{LIST} has {name:?} twice"
            );
            plans.push(Plan {
                folder: name.replace(", ", "-").replace(' ', ""),
                name,
                source: source.clone(),
                compiler: Compiler::parse(&compiler.name)?,
                release: compiler.release.clone(),
                config: config + "\n",
            });
        }
    }
    ensure!(!plans.is_empty(), "{LIST} names no build");
    Ok(plans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_base::repo;

    const TEXT: &str = "
        [[source]]
        name = '6.1'
        release = 'bookworm'
        package = 'linux-source-6.1'
        config = 'CONFIG_S=y'
        [[compiler]]
        name = 'gcc 12'
        release = 'trixie'
        [[part]]
        name = 'T32'
        config = 'CONFIG_T=y'
        [[part]]
        name = 'wide'
        config = 'CONFIG_W=y'
        [[build]]
        source = '6.1'
        compiler = 'gcc 12'
        parts = [['T32'], ['T32', 'wide']]
    ";

    #[test]
    fn each_list_of_parts_is_a_build() {
        let plans = parse(TEXT, "CONFIG_B=y").unwrap();
        let [plain, wide] = &plans[..] else {
            panic!("{plans:?}")
        };
        assert_eq!(plain.name, "6.1, gcc 12, T32");
        assert_eq!(wide.name, "6.1, gcc 12, T32, wide");
        assert_eq!(wide.folder, "6.1-gcc12-T32-wide");
        assert_eq!(plain.compiler, Compiler::Gcc(12));
        assert_eq!(
            (&*plain.release, &*plain.source.release),
            ("trixie", "bookworm")
        );
        assert_eq!(plain.config, "CONFIG_B=y\nCONFIG_S=y\nCONFIG_T=y\n");
        assert_eq!(
            wide.config,
            "CONFIG_B=y\nCONFIG_S=y\nCONFIG_T=y\nCONFIG_W=y\n"
        );
    }

    #[test]
    fn a_list_with_a_mistake_is_refused() {
        let refused = |from: &str, to: &str, word: &str| {
            let error = format!("{:#}", parse(&TEXT.replace(from, to), "").unwrap_err());
            assert!(error.contains(word), "{error}");
        };
        refused("'T32', 'wide'", "'T32', 'wild'", "\"wild\"");
        refused("'T32', 'wide'", "'T32'", "twice");
        refused("source = '6.1'", "source = '6.2'", "\"6.2\"");
        refused("gcc 12", "tcc 12", "no compiler");
        refused("config = 'CONFIG_S=y'", "konfig = ''", "broken");
    }

    #[test]
    fn packages_of_compilers_are_known_by_their_version() {
        let gcc = Compiler::parse("gcc 16").unwrap();
        assert_eq!(gcc.packages(), ["gcc-16-arm-linux-gnueabihf"]);
        let clang = Compiler::parse("clang 19").unwrap();
        assert_eq!(clang.packages(), ["clang-19", "lld-19", "llvm-19"]);
    }

    /// Each compiler and each source is looked at in both instruction sets.
    #[test]
    fn the_list_leaves_out_no_instruction_set() {
        let plans = plans(&repo::root().unwrap()).unwrap();
        let thumb = |plan: &Plan| plan.config.contains("CONFIG_THUMB2_KERNEL=y");
        for plan in &plans {
            let like =
                |other: &&Plan| other.compiler == plan.compiler && thumb(other) != thumb(plan);
            assert!(plans.iter().any(|other| like(&other)), "{}", plan.name);
            let like = |other: &&Plan| {
                other.source.name == plan.source.name && thumb(other) != thumb(plan)
            };
            assert!(plans.iter().any(|other| like(&other)), "{}", plan.name);
        }
    }
}
