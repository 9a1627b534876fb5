//! Tests what the command line accepts, and its messages about the rest.

use clap::CommandFactory;
use hanok_bench::Side;
use hanok_bench_runner::args::Gics;

use super::*;

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_shows_an_example() {
    for mut command in Cli::command().get_subcommands().cloned() {
        let help = command.render_long_help().to_string();
        assert!(help.contains("Example"), "{}", command.get_name());
    }
}

#[test]
fn bench_takes_sides_and_figures_that_there_are() {
    let parse = |line: &str| Cli::try_parse_from(line.split(' ')).map(|cli| cli.command);
    let line = "hanok bench --sides native,xen --figures pipe,ctx-2 --gic 2";
    let Ok(Command::Bench(bench)) = parse(line) else {
        panic!("not bench")
    };
    assert_eq!(bench.sides, [Side::Native, Side::Xen]);
    assert_eq!(bench.figures[1].id, "ctx-2");
    assert_eq!(bench.gic, Gics::Two);
    for bad in ["--sides bao", "--figures speed", "--gic 4", "--repeat 0"] {
        assert!(parse(&format!("hanok bench {bad}")).is_err(), "{bad}");
    }
}

#[test]
fn a_debugger_s_port_may_be_named() {
    let gdb = |words: &str| {
        let words = format!("hanok run x.toml {words}");
        match Cli::try_parse_from(words.split_whitespace()) {
            Ok(Cli {
                command: Command::Run(run),
                ..
            }) => Ok(run.gdb),
            Ok(_) => panic!("not run"),
            Err(error) => Err(error.to_string()),
        }
    };
    assert_eq!(gdb(""), Ok(None));
    assert_eq!(gdb("--gdb"), Ok(Some(1234)));
    assert_eq!(gdb("--gdb --native"), Ok(Some(1234)));
    assert_eq!(gdb("--gdb 2345"), Ok(Some(2345)));
    assert_eq!(gdb("--gdb=2345"), Ok(Some(2345)));
    for bad in [
        "--gdb 0",
        "--gdb 65536",
        "--gdb y.toml",
        "--gdb=",
        "--gdb=-1",
    ] {
        let error = gdb(bad).unwrap_err();
        assert!(error.contains("from 1 to 65535"), "{bad}: {error}");
    }
}

#[test]
fn run_takes_its_options() {
    let line = "hanok run x.toml --memory 1G --console linux=a.txt --qemu-arg -d --qemu-arg int";
    let Command::Run(run) = Cli::try_parse_from(line.split(' ')).unwrap().command else {
        panic!("not run")
    };
    assert_eq!(run.memory, Some(1 << 30));
    assert_eq!(run.console, [("linux".to_owned(), PathBuf::from("a.txt"))]);
    assert_eq!(run.qemu_arg, ["-d", "int"]);
    assert!(Cli::try_parse_from(["hanok", "run", "--console", "x"]).is_err());
    for (option, value) in [
        ("--cores", "0"),
        ("--cores", "-3"),
        ("--memory", "-1M"),
        ("--timeout", "-x"),
    ] {
        let error = Cli::try_parse_from(["hanok", "run", option, value])
            .unwrap_err()
            .to_string();
        let what = format!("invalid value '{value}' for '{option}");
        assert!(error.contains(&what) && !error.contains("tip:"), "{error}");
    }
}

/// Each command without subcommands, with the words that name it.
fn all(
    command: &clap::Command,
    words: &[String],
    each: &mut impl FnMut(&clap::Command, &[String]),
) {
    each(command, words);
    for sub in command.get_subcommands() {
        let words = [words, &[sub.get_name().to_owned()]].concat();
        all(sub, &words, each);
    }
}

/// Every option whose value has a form (that is no text, no path and no fixed word) says in its
/// error which form, with an example; also where the value looks like an option.
#[test]
fn a_wrong_value_of_an_option_is_told_what_is_allowed() {
    let plain = [
        clap::builder::ValueParser::string().type_id(),
        clap::builder::ValueParser::path_buf().type_id(),
    ];
    let mut tried = 0;
    let mut command = Cli::command();
    command.build();
    all(&command, &["hanok".to_owned()], &mut |command, words| {
        for option in command.get_arguments() {
            let takes = option.get_action().takes_values()
                && !plain.contains(&option.get_value_parser().type_id());
            let Some(long) = option
                .get_long()
                .filter(|_| takes && option.get_possible_values().is_empty())
            else {
                continue;
            };
            let mut wrong = vec![vec![format!("--{long}=?")]];
            // An option that may stand without a value would not take this one.
            if option
                .get_num_args()
                .is_some_and(|values| values.min_values() > 0)
            {
                wrong.push(vec![format!("--{long}"), "-1x".to_owned()]);
            }
            for wrong in wrong {
                let line = [words, &wrong].concat();
                let said = Cli::try_parse_from(&line).unwrap_err().to_string();
                let named = said.contains("invalid value") && said.contains(&format!("--{long}"));
                assert!(named && said.contains("such as"), "{line:?}: {said}");
                tried += 1;
            }
        }
    });
    assert!(tried > 20, "{tried}");
}

/// An option's parser gives what its field has: clap checks that when it reads a value.
#[test]
fn a_right_value_of_an_option_is_read() {
    for line in [
        "hanok run x.toml --cores 2 --memory 1G --timeout 0.5 --gdb 1 --until x --console a=b",
        "hanok bench --repeat 3 --compare 1234567 --tolerance 0.5 --gic 2 --sides xen",
        "hanok bench --profile hypercall --lines --tree",
        "hanok sched simulate x.toml --until 1.5ms --seed 3 --events 5 --from 1us --to 2us",
        "hanok previrt scan x --functions 20",
        "hanok trace report --task linux.0 --from 0.5 --to 1 a.dat b.dat",
        "hanok top --web",
        "hanok top --system x --web 127.0.0.1:0 --interval 0.2",
        "hanok top --line /dev/ttyS0 --baud 9600 --description x.toml --once",
    ] {
        let read = Cli::try_parse_from(line.split(' '));
        assert!(read.is_ok(), "{line}: {}", read.unwrap_err());
    }
}

/// Paragraphs are broken only where the terminal's width demands it; tables and examples are
/// unchanged, on the narrowest terminal.
#[test]
fn no_help_is_broken_within_a_sentence() {
    const NARROWEST: usize = 80;
    all(
        &Cli::command(),
        &["hanok".to_owned()],
        &mut |command, words| {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let lines: Vec<_> = help.lines().collect();
            for line in lines.iter().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= NARROWEST, "{words:?}: {line}");
            }
            for pair in lines.windows(2) {
                let prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
                let broken = prose(pair[0]) && prose(pair[1]);
                assert!(!broken, "{words:?}: a break after {:?}", pair[0]);
            }
        },
    );
}
