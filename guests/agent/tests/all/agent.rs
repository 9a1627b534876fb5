//! What the agent decides, against a fake Linux and a fake board.

use crate::common::{CLIENT, Fake, ROOT, agent, bare, say};
use hanok_agent::agent::{Peer, Reply, WAITING};
use hanok_agent::ledger::TASKS;
use hanok_agent::machine::Kind;
use hanok_agent::settings::Settings;
use hanok_agent::task::Client;
use hanok_agent::{interface, stretch};
use hanok_schedule::fake::{Board, FakeVcpu};
use hanok_schedule::{Answer, Interface, Task};

const MS: u64 = 1_000_000;

#[test]
fn a_task_gets_the_least_interface_and_its_thread_a_runtime() {
    let (mut agent, machine) = agent(Board::default(), 1, bare());
    let answer = say(
        &mut agent,
        "declare name=control period=50ms execution=7ms thread=7",
    );
    let second = say(&mut agent, "declare period=75ms execution=9ms thread=8");
    assert!(answer.starts_with("yes id=1 cpu=0 runtime="), "{answer}");
    assert!(second.starts_with("yes id=2 "), "{second}");
    // Shin & Lee's example: 39/14 ms in 10 ms, rounded up to the tick.
    let interface = Interface::new(10 * MS, 2_786_000);
    assert_eq!(machine.interface(0), interface);
    let state = machine.state.borrow();
    let (cpu, times) = state.scheduled[&7];
    let task = Task::new(50 * MS, 7 * MS);
    assert_eq!((cpu, times.period), (0, 50 * MS));
    assert_eq!(times.runtime, stretch::runtime(&task, &interface));
    assert!(times.runtime > 7 * MS && times.runtime <= 50 * MS);
}

#[test]
fn what_a_task_needed_is_given_back() {
    let (mut agent, machine) = agent(Board::default(), 1, bare());
    let before = machine.interface(0);
    say(&mut agent, "declare period=20ms execution=1ms thread=7");
    let one = machine.interface(0);
    say(&mut agent, "declare period=20ms execution=8ms thread=8");
    assert!(machine.interface(0).budget > one.budget);
    assert_eq!(say(&mut agent, "revoke id=2"), "yes\n");
    agent.work();
    assert_eq!(machine.interface(0), one);
    assert!(!machine.state.borrow().scheduled.contains_key(&8));
    agent.closed(CLIENT);
    agent.work();
    assert_eq!(machine.interface(0), before);
    assert!(machine.state.borrow().scheduled.is_empty());
    assert!(machine.state.borrow().prepared.is_empty());
}

#[test]
fn a_refusal_changes_nothing_and_says_why() {
    let (mut agent, machine) = agent(Board::default(), 1, bare());
    say(&mut agent, "declare period=20ms execution=8ms thread=7");
    let had = machine.interface(0);
    let refused = [
        (
            "declare period=20ms execution=13ms thread=8",
            "no refused: the tasks of the vCPU would need 105.0 % of a CPU\n",
        ),
        (
            "declare period=10ms execution=9ms thread=7",
            "no invalid: thread 7 is a task already\n",
        ),
        (
            "declare period=10ms execution=1ms thread=5000",
            "no gone: there is no thread 5000\n",
        ),
        (
            "declare period=10ms execution=1ms thread=8 cpu=3",
            "no invalid: there is no such CPU\n",
        ),
        (
            "declare period=10ms execution=11ms thread=8",
            "no invalid: execution wants more than 0, and at most 10000000\n",
        ),
        (
            "declare period=10ms execution=1ms deadline=11ms thread=8",
            "no invalid: Linux wants deadlines of at most the period\n",
        ),
        ("revoke id=9", "no invalid: there is no task 9 of yours\n"),
    ];
    for (line, answer) in refused {
        assert_eq!(say(&mut agent, line), answer, "{line}");
    }
    // More than the description's limit of 80 %.
    let answer = say(&mut agent, "declare period=20ms execution=9ms thread=8");
    assert!(answer.starts_with("no limit: "), "{answer}");
    // What only the board knows.
    let late = Answer {
        status: -4,
        value: 2,
    };
    machine.board.vcpu(0, |vcpu| vcpu.instead.push(late));
    let answer = say(&mut agent, "declare period=20ms execution=1ms thread=8");
    assert!(
        answer.starts_with("no refused: Hanok says of ")
            && answer.contains("a deadline would be missed"),
        "{answer}"
    );
    assert_eq!(machine.interface(0), had);
    assert_eq!(machine.state.borrow().scheduled.len(), 1);
}

#[test]
fn a_thread_that_linux_refuses_leaves_no_budget_behind() {
    let (mut agent, machine) = agent(Board::default(), 1, bare());
    let had = machine.interface(0);
    machine.state.borrow_mut().linux_says = Some("EBUSY".into());
    let answer = say(&mut agent, "declare period=20ms execution=8ms thread=8");
    assert_eq!(answer, "no linux: EBUSY\n");
    agent.work();
    assert_eq!(machine.interface(0), had);
}

#[test]
fn a_question_that_comes_too_often_waits() {
    let (mut agent, machine) = agent(Board::default(), 1, bare());
    let soon = Answer {
        status: -5,
        value: 300 * MS,
    };
    let later = Answer {
        status: -5,
        value: 10 * MS,
    };
    machine
        .board
        .vcpu(0, |vcpu| vcpu.instead.extend([later, soon]));
    assert_eq!(
        say(&mut agent, "declare period=20ms execution=8ms thread=8"),
        "later"
    );
    let (answers, wake) = agent.work();
    assert!(answers.is_empty());
    assert_eq!(wake, 300 * MS);
    // It is too early once more.
    machine.pass(300 * MS);
    let (answers, wake) = agent.work();
    assert!(answers.is_empty());
    assert_eq!(wake, 310 * MS);
    machine.pass(10 * MS);
    let (answers, _) = agent.work();
    assert_eq!(answers.len(), 1);
    assert!(
        answers[0].0 == CLIENT && answers[0].1.starts_with("yes id=1 "),
        "{answers:?}"
    );
}

/// A core that is always busy with others is asked for ten seconds.
#[test]
fn a_declaration_is_given_up_at_last() {
    let (mut agent, machine) = agent(Board::default(), 1, bare());
    let later = Answer {
        status: -5,
        value: 10 * MS,
    };
    let ask = |agent: &mut _| say(agent, "declare period=20ms execution=8ms thread=8");
    machine
        .board
        .vcpu(0, |vcpu| vcpu.instead.extend([later; 1_001]));
    assert_eq!(ask(&mut agent), "later");
    for _ in 0..999 {
        machine.pass(10 * MS);
        assert!(agent.work().0.is_empty());
    }
    machine.pass(10 * MS);
    let (answers, _) = agent.work();
    assert!(answers[0].1.starts_with("no busy: "), "{answers:?}");
}

#[test]
fn a_client_that_dies_waits_for_nothing() {
    let (mut agent, machine) = agent(Board::default(), 1, bare());
    machine.board.vcpu(0, |vcpu| {
        vcpu.instead.push(Answer {
            status: -5,
            value: MS,
        })
    });
    assert_eq!(
        say(&mut agent, "declare period=20ms execution=8ms thread=8"),
        "later"
    );
    agent.closed(CLIENT);
    machine.pass(2 * MS);
    assert_eq!(agent.work().0, []);
    assert!(machine.state.borrow().scheduled.is_empty());
}

#[test]
fn only_so_many_wait() {
    let (mut agent, machine) = agent(Board::default(), 1, bare());
    machine.board.vcpu(0, |vcpu| {
        vcpu.instead.push(Answer {
            status: -5,
            value: MS,
        })
    });
    for thread in 1..=WAITING {
        let line = format!("declare period=1s execution=1ms thread={thread}");
        assert_eq!(say(&mut agent, &line), "later");
    }
    let answer = say(&mut agent, "declare period=1s execution=1ms thread=900");
    assert!(answer.starts_with("no busy: "), "{answer}");
}

#[test]
fn a_long_period_is_halved_where_the_limit_demands_it() {
    let vcpu = FakeVcpu {
        interface: Interface::new(16 * MS, MS),
        limit: 32_768,
        ..FakeVcpu::default()
    };
    let (mut agent, machine) = agent(Board::new([vcpu]), 1, bare());
    // With a period of 4 ms, a job of 1 ms that is due in 4 ms needs 2.5 ms of it: more than half.
    let answer = say(
        &mut agent,
        "declare period=20ms execution=1ms deadline=4ms thread=8",
    );
    assert!(answer.starts_with("yes "), "{answer}");
    let interface = machine.interface(0);
    assert_eq!(interface.period, 2 * MS);
    assert!(interface.budget <= MS);
}

#[test]
fn a_vcpu_that_may_not_ask_is_tested_as_it_is() {
    let vcpu = FakeVcpu {
        features: 1,
        interface: Interface::new(10 * MS, 5 * MS),
        ..FakeVcpu::default()
    };
    let (mut agent, machine) = agent(Board::new([vcpu]), 1, bare());
    assert!(say(&mut agent, "declare period=40ms execution=10ms thread=7").starts_with("yes "));
    let answer = say(&mut agent, "declare period=40ms execution=9ms thread=8");
    assert!(
        answer.contains("the vCPU has 5ms in 10ms and may not ask for more; "),
        "{answer}"
    );
    assert!(machine.board.vcpu(0, |vcpu| vcpu.asked.is_empty()));
}

#[test]
fn a_board_that_promises_nothing_is_told() {
    let vcpu = FakeVcpu {
        features: 0,
        ..FakeVcpu::default()
    };
    let (mut agent, _) = agent(Board::new([vcpu]), 1, bare());
    let answer = say(&mut agent, "declare period=40ms execution=10ms thread=7");
    assert!(answer.contains("enforce = true"), "{answer}");
}

#[test]
fn a_whole_cpu_can_be_filled() {
    let machine = Fake::new(Board::default(), 1);
    machine.threads(1..10);
    machine.state.borrow_mut().kind = Some(Kind::Whole);
    let mut agent = hanok_agent::agent::Agent::new(machine.clone(), bare()).unwrap();
    let answer = say(&mut agent, "declare period=10ms execution=5ms thread=1");
    assert_eq!(answer, format!("yes id=1 cpu=0 runtime={}\n", 5 * MS));
    assert!(say(&mut agent, "declare period=14ms execution=7ms thread=2").starts_with("yes "));
    assert!(
        say(&mut agent, "declare period=14ms execution=10us thread=3").starts_with("no refused: ")
    );
}

#[test]
fn tasks_are_spread_and_the_first_cpu_comes_last() {
    let board = Board::new([(); 3].map(|()| FakeVcpu::default()));
    let (mut agent, machine) = agent(board, 3, bare());
    for thread in 1..=5 {
        let line = format!("declare period=20ms execution=8ms thread={thread}");
        let answer = say(&mut agent, &line);
        assert_eq!(answer.starts_with("yes "), thread <= 3, "{answer}");
    }
    let state = machine.state.borrow();
    let on = |thread: i32| state.scheduled[&thread].0;
    assert_eq!([on(1), on(2), on(3)], [1, 2, 0]);
}

#[test]
fn a_task_goes_with_its_thread() {
    let (mut agent, machine) = agent(Board::default(), 1, bare());
    say(
        &mut agent,
        "declare stays period=20ms execution=8ms thread=8",
    );
    agent.closed(CLIENT);
    machine.pass(1_000 * MS);
    agent.work();
    assert!(machine.state.borrow().scheduled.contains_key(&8));
    // Another thread has its number now: that one is left alone.
    machine.thread_of(8, 0, 2);
    machine.pass(1_000 * MS);
    agent.work();
    assert_eq!(say(&mut agent, "list"), "yes\n");
    assert_eq!(machine.interface(0).budget, MS);
}

#[test]
fn a_user_declares_own_threads_if_the_configuration_says_so() {
    let settings = Settings {
        users: vec![1000],
        ..bare()
    };
    let (mut agent, machine) = agent(Board::default(), 1, settings);
    machine.thread_of(50, 1000, 1);
    let mut by =
        |user, line: &str| match agent.line(CLIENT, Peer { process: 50, user }, line.as_bytes()) {
            Reply::Now(answer) => answer,
            Reply::Later => panic!("nothing is to be waited for"),
        };
    let line = "declare period=20ms execution=1ms";
    assert!(by(1001, line).starts_with("no denied: "));
    assert!(by(1000, "declare period=20ms execution=1ms thread=7").starts_with("no denied: "));
    assert!(by(1000, line).starts_with("yes id=1 "));
    assert!(by(1001, "revoke id=1").starts_with("no invalid: "));
    assert_eq!(by(1000, "revoke id=1"), "yes\n");
}

#[test]
fn the_configuration_finds_programs() {
    let text = "background none\nper-job 0us\ntask name=control command=controld period=10ms execution=2ms # the arm\n";
    let (mut agent, machine) = agent(Board::default(), 1, Settings::parse(text).unwrap());
    machine
        .state
        .borrow_mut()
        .programs
        .insert("controld".into(), vec![40]);
    agent.work();
    assert!(machine.state.borrow().scheduled.contains_key(&40));
    // One that is refused is told once.
    machine
        .state
        .borrow_mut()
        .programs
        .insert("controld".into(), vec![40, 41, 42, 43, 44, 45]);
    for _ in 0..3 {
        machine.pass(1_000 * MS);
        agent.work();
    }
    let said = machine.state.borrow().said.clone();
    let refused = 6 - machine.state.borrow().scheduled.len();
    assert!(refused > 0 && said.len() == refused, "{said:?}");
}

#[test]
fn measured_times_are_followed() {
    let (mut agent, machine) = agent(Board::default(), 1, bare());
    say(
        &mut agent,
        "declare measured period=100ms execution=20ms thread=8",
    );
    let declared = machine.interface(0).budget;
    // 10 jobs of 5 ms each second: 5 ms and a quarter.
    let mut second = |each: u64| {
        machine.pass(1_000 * MS);
        machine.state.borrow_mut().threads.get_mut(&8).unwrap().1 += 10 * each;
        agent.work();
        agent.state(0).unwrap().1[0].execution
    };
    for _ in 0..16 {
        assert_eq!(second(5 * MS), 20 * MS);
    }
    assert_eq!(second(5 * MS), 6_250_000);
    assert!(machine.interface(0).budget < declared);
    // One long second is never forgotten; and what was measured is not forgotten at once either.
    assert_eq!(second(30 * MS), 37_500_000);
    let mut last = 0;
    (0..300).for_each(|_| last = second(5 * MS));
    assert_eq!(last, 30 * MS);
    assert!(interface::suffices(&[Task::new(100 * MS, 30 * MS)], &machine.interface(0)).is_ok());
}

#[test]
fn thousands_of_declarations_end_at_a_limit() {
    let settings = Settings { tick: 1, ..bare() };
    let machine = Fake::new(Board::default(), 1);
    machine.threads(1..4000);
    let mut agent = hanok_agent::agent::Agent::new(machine.clone(), settings).unwrap();
    let mut admitted = 0;
    for thread in 1..4000 {
        let answer = say(
            &mut agent,
            &format!("declare period=1s execution=100us thread={thread}"),
        );
        admitted += usize::from(answer.starts_with("yes "));
        assert!(
            answer.starts_with("yes ") || answer == "no limit: there are 256 tasks already\n",
            "{answer}"
        );
    }
    assert_eq!(admitted, TASKS);
    agent.closed(CLIENT);
    agent.work();
    assert_eq!(machine.interface(0), Interface::new(10 * MS, MS));
}

#[test]
fn status_and_list_tell_what_is() {
    let (mut agent, machine) = agent(Board::default(), 1, Settings::default());
    machine.board.vcpu(0, |vcpu| vcpu.used = [1, 2, 3, 4, 5]);
    say(
        &mut agent,
        "declare name=control period=20ms execution=2ms thread=8",
    );
    let list = say(&mut agent, "list");
    assert!(
        list.starts_with(
            "task id=1 name=control thread=8 cpu=0 period=20ms execution=2ms deadline=20ms runtime="
        ),
        "{list}"
    );
    assert!(list.ends_with("\nyes\n"));
    let status = say(&mut agent, "status");
    // 10 % and 0.1 % for the task, 5 % for the rest.
    assert!(
        status.contains("tasks=1 needed=15.1% used=2ns extra=3ns throttled=4 stolen=5ns\nyes\n"),
        "{status}"
    );
}

#[test]
fn garbage_is_answered() {
    let (mut agent, machine) = agent(Board::default(), 1, bare());
    let lines: [&[u8]; 14] = [
        b"",
        b"\0",
        b"\xff\xfe",
        b"declare",
        b"declare period=10ms",
        b"declare period=10 ms execution=1ms",
        b"declare period=-1 execution=1ms",
        b"declare period=0 execution=0",
        b"declare period=99999999999999999999999s execution=1",
        b"declare period=10ms execution=1ms period=10ms",
        b"declare period=10ms execution=1ms name=a/b",
        b"revoke id=99999999999",
        b"used id=1 longest=1.s",
        b"declare period=10ms execution=1ms thread=0",
    ];
    for line in lines {
        match agent.line(Client(3), ROOT, line) {
            Reply::Now(answer) => assert!(answer.starts_with("no invalid: "), "{line:?}: {answer}"),
            Reply::Later => panic!("{line:?}"),
        }
    }
    assert!(machine.state.borrow().scheduled.is_empty());
}
