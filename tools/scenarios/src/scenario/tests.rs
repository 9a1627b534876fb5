use super::*;

const WHOLE: &str = r#"
    about = "to the shell and off"
    system = ["systems/demo.toml", "systems/other.toml"]
    cpu = ["cortex-a57", "max"]
    cores = 4
    timeout = 60
    end = "until"
    expect-log = ["vm linux: started"]
    forbid = ["Oops"]
    qemu-args = ["-d", "guest_errors"]
    steps = [
        { expect = "linux:~# " },
        { send = "echo a\u0003\n" },
        { wait = 0.5 },
        { expect-log = "off" },
        { key = "\u001dlist\r" },
    ]
"#;

fn only(text: &str) -> Result<Scenario> {
    let mut all = Scenario::parse_all(text)?;
    assert_eq!(all.len(), 1);
    Ok(all.remove(0).1)
}

#[test]
fn a_whole_scenario_is_read() {
    let scenario = only(WHOLE).unwrap();
    assert_eq!(scenario.cpu.as_ref().unwrap().all(), ["cortex-a57", "max"]);
    let steps = scenario.steps(Means::default()).unwrap();
    assert_eq!(steps[1], ScriptStep::Send(b"echo a\x03\n".to_vec()));
    assert_eq!(steps[4], ScriptStep::Key(b"\x1dlist\r".to_vec()));
    assert_eq!(steps.last(), Some(&ScriptStep::End));
}

#[test]
fn a_text_is_awaited_so_many_times() {
    let text = "system = 'x'\nsteps = [{ expect-times = ['abc', 3] }, { wait = 1 }]";
    let steps = only(text).unwrap().steps(Means::default()).unwrap();
    assert_eq!(
        steps[..3],
        [(); 3].map(|()| ScriptStep::Expect("abc".into()))
    );
    assert_eq!(steps.len(), 4);
    assert!(only("system = 'x'\nsteps = [{ expect-times = ['', 3] }]").is_err());
}

#[test]
fn a_connection_is_made_where_a_port_leads() {
    let text = "system = 'x'\nforward = 'left:80'\nsteps = [{ connect = ['@n@?', 'yes'] }]";
    let mut scenario = only(text).unwrap();
    let vars = BTreeMap::from([("n".to_owned(), "4".to_owned())]);
    scenario.fill(&vars).unwrap();
    let means = Means {
        port: Some(9),
        ..Means::default()
    };
    let [ScriptStep::Try(attempt)] = &scenario.steps(means).unwrap()[..] else {
        panic!("a step that is tried");
    };
    assert!(attempt.what.contains("\"yes\""), "{}", attempt.what);
}

#[test]
fn cases_replace_what_the_file_says() {
    let text = "system = 'x'\nvars = { a = '1', b = '2' }\ncores = 4\n\
        [[cases]]\nkernel = 'debian:6.1'\nvcpus = 1\nvars = { b = '3' }\n\
        [[cases]]\nname = 'slow one'\nslow = true\n";
    let cases = Scenario::parse_all(text).unwrap();
    assert_eq!(cases[0].0.as_deref(), Some("6.1, 1 vCPU"));
    assert_eq!(cases[0].1.vars["a"], "1");
    assert_eq!(cases[0].1.vars["b"], "3");
    assert_eq!(cases[1].0.as_deref(), Some("slow one"));
    assert!(cases[1].1.slow && !cases[0].1.slow);
    assert_eq!(cases[1].1.cores.as_ref().unwrap().all(), [4]);
}

#[test]
fn machines_of_other_kinds_are_read() {
    let text = "system = 'x'\nnative = true\nbinary = 'qemu-system-arm'\nicount = true\n\
        initramfs-packages = ['stress-ng:arm64']\n\
        vms = { b = { cpus = [1, 1], cmdline = '@n@', autostart = false } }";
    let mut scenario = only(text).unwrap();
    let vars = BTreeMap::from([("n".to_owned(), "4".to_owned())]);
    scenario.fill(&vars).unwrap();
    let vm = &scenario.vms["b"];
    assert_eq!((vm.cpus.as_deref(), &*vm.cmdline), (Some(&[1, 1][..]), "4"));
    assert!(scenario.icount && scenario.boot == Loader::Qemu);
    let u_boot = only("system = 'x'\nboot = 'u-boot'").unwrap();
    assert_eq!(u_boot.boot, Loader::UBoot);
}

#[test]
fn variables_are_filled_in() {
    let vars = BTreeMap::from([("n".to_owned(), "4".to_owned())]);
    let mut scenario = only("system = 'x'\nsteps = [{ expect = '@n@ CPU a@b' }]").unwrap();
    scenario.fill(&vars).unwrap();
    assert_eq!(
        scenario.steps(Means::default()).unwrap(),
        [ScriptStep::Expect("4 CPU a@b".into())]
    );
    let mut wrong = only("system = 'x'\ncmdline = 'a=@m@'").unwrap();
    assert!(wrong.fill(&vars).is_err());
}

#[test]
fn mistakes_are_refused() {
    let mistakes = [
        "system = 'x'\nsteps = [{ expct = 'x' }]",
        "system = 'x'\nsteps = [{ expect = 'x', send = 'y' }]",
        "system = 'x'\nsteps = [{ expect = '' }]",
        "system = 'x'\nsteps = [{ expect = '4\n' }]",
        "system = 'x'\nsteps = [{ expect-log = 'ab' }]",
        "system = 'x'\nsteps = [{ send = 'echo done' }, { expect = 'done' }]",
        "system = 'x'\nsteps = [{ key = 'list' }, { expect = 'list' }]",
        "system = 'x'\nsteps = [{ connect = ['a', 'b'] }]",
        "system = 'x'\nforward = 'left'\nsteps = [{ connect = ['a', 'b'] }]",
        "system = 'x'\nforward = 'left:80'\nsteps = [{ connect = ['a', ''] }]",
        "system = 'x'\nforward = 'left:80'\nnative = true",
        "system = 'x'\nend = 'well'",
        "system = 'x'\nend = []",
        "system = 'x'\nend = 'until'",
        "system = 'x'\nend = ['until', 'off']\nsteps = [{ expect = 'xyz' }]",
        "system = 'x'\ntimeout = -1.0",
        "system = []",
        "system = 'x'\ncpus = 'max'",
        "system = 'x'\nbinary = 'qemu-system-arm'",
        "system = 'x'\nnative = true\nbinary = 'qemu-system-x86_64'",
        "system = 'x'\nnative = true\nboot = 'u-boot'",
        "system = 'x'\nboard-tree-damage = []\nboot = 'u-boot'",
        "system = 'x'\nboot = 'grub'",
        "system = 'x'\nnative = true\nframed = false",
        "system = 'x'\nvms = { a = { colour = 1 } }",
        "system = 'x'\ncases = []",
        "system = 'x'\n[[cases]]\nvcpu = 1",
        "system = 'x'\nimage-damage = [{ part = 'middle' }]",
        "",
    ];
    for text in mistakes {
        assert!(Scenario::parse_all(text).is_err(), "{text}");
    }
}
