//! Verdicts at their edges, and what repeats do to them.

use hanok_bench::{
    Better, FIGURES, Figure, Gic, Limit, Machine, Measurement, Outcome, PublishedAs, Refused, Run,
    Side, Spread, Summary, Tally, figures_on, judge, judge_all, quantity,
};

fn run(values: &[(&str, Side, &[f64])]) -> Run {
    let mut run = Run::new(Machine {
        cpu: "cortex-a57".into(),
        gic: Gic::V3,
        bits: 64,
        extensions: true,
        memory_mib: 256,
        qemu: String::new(),
        kernel: String::new(),
        lmbench: String::new(),
        peers: Default::default(),
        settings: Vec::new(),
    });
    for (figure, side, values) in values {
        for value in *values {
            run.add(figure, *side, *value).unwrap();
        }
    }
    run
}

fn outcome(figure: &str, values: &[(Side, f64)]) -> Outcome {
    let mut all = Vec::new();
    for (side, value) in values {
        all.push((figure, *side, std::slice::from_ref(value)));
    }
    judge(Figure::find(figure).unwrap(), &run(&all)).outcome
}

#[test]
fn a_value_at_its_limit_reaches_it() {
    assert_eq!(
        outcome("hypercall", &[(Side::Hanok, 120.0)]),
        Outcome::Reached
    );
    assert_eq!(
        outcome("hypercall", &[(Side::Hanok, 120.5)]),
        Outcome::Short(0.5)
    );
    assert_eq!(
        outcome("image", &[(Side::Hanok, 348_160.0)]),
        Outcome::Reached
    );
    assert_eq!(
        outcome("image", &[(Side::Hanok, 348_161.0)]),
        Outcome::Short(1.0)
    );
}

#[test]
fn what_is_beyond_native_is_judged() {
    let timer = |hanok| {
        outcome(
            "timer-interrupt",
            &[(Side::Native, 600.0), (Side::Hanok, hanok)],
        )
    };
    assert_eq!(timer(788.0), Outcome::Reached);
    assert_eq!(timer(789.0), Outcome::Short(1.0));
    // Less than native is no fault.
    assert_eq!(timer(0.0), Outcome::Reached);
    let boot = |hanok| outcome("boot", &[(Side::Native, 9e8), (Side::Hanok, hanok)]);
    assert_eq!(boot(9.5e8), Outcome::Reached);
    assert_eq!(boot(9.5e8 + 1.0), Outcome::Short(1.0));
}

#[test]
fn a_latency_is_bound_above_and_a_bandwidth_below() {
    let pipe = |hanok| outcome("pipe", &[(Side::Native, 100.0), (Side::Hanok, hanok)]);
    assert_eq!(pipe(101.0), Outcome::Reached);
    assert!(matches!(pipe(101.1), Outcome::Short(by) if (by - 0.001).abs() < 1e-9));
    let read = |hanok| outcome("bw-mem-rd", &[(Side::Native, 101.0), (Side::Hanok, hanok)]);
    assert_eq!(read(100.0), Outcome::Reached);
    assert_eq!(read(5000.0), Outcome::Reached);
    assert!(matches!(read(50.5), Outcome::Short(by) if (by - 0.99).abs() < 1e-9));
}

#[test]
fn what_lacks_a_side_is_not_judged() {
    let not = Outcome::NotMeasured;
    assert_eq!(outcome("pipe", &[]), not(Side::Hanok));
    assert_eq!(outcome("pipe", &[(Side::Native, 1.0)]), not(Side::Hanok));
    assert_eq!(outcome("pipe", &[(Side::Hanok, 1.0)]), not(Side::Native));
    assert_eq!(outcome("boot", &[(Side::Hanok, 1.0)]), not(Side::Native));
    // Nothing is no base of a ratio.
    assert_eq!(
        outcome("pipe", &[(Side::Native, 0.0), (Side::Hanok, 1.0)]),
        not(Side::Native)
    );
    assert_eq!(
        outcome("smccc-version", &[(Side::Hanok, 1.0)]),
        Outcome::NoLimit
    );
}

#[test]
fn a_verdict_that_repeats_would_turn_is_doubtful() {
    let figure = Figure::find("pipe").unwrap();
    let judged = |hanok: &[f64]| {
        judge(
            figure,
            &run(&[
                ("pipe", Side::Native, &[100.0, 100.0]),
                ("pipe", Side::Hanok, hanok),
            ]),
        )
    };
    let steady = judged(&[100.5, 100.5]);
    assert!(steady.outcome == Outcome::Reached && !steady.doubtful);
    let open = judged(&[100.5, 102.0, 100.5]);
    assert!(open.outcome == Outcome::Reached && open.doubtful);
    let other = judged(&[103.0, 100.5, 103.0]);
    assert!(matches!(other.outcome, Outcome::Short(_)) && other.doubtful);
    // At the limit is within it, also for a single repeat.
    let edge = judged(&[101.0, 102.0, 102.0]);
    assert!(matches!(edge.outcome, Outcome::Short(_)) && edge.doubtful);
    // Native's spread opens it just so.
    let native = run(&[
        ("pipe", Side::Native, &[100.0, 98.0, 100.0]),
        ("pipe", Side::Hanok, &[100.5]),
    ]);
    assert!(judge(figure, &native).doubtful);
}

#[test]
fn the_tally_counts_limits_alone() {
    let tally = Tally::of(&judge_all(&run(&[
        ("hypercall", Side::Hanok, &[100.0]),
        ("gicd-read", Side::Hanok, &[251.0]),
        ("smccc-version", Side::Hanok, &[1e6]),
    ])));
    let limits = FIGURES.iter().filter(|figure| figure.limit != Limit::None);
    assert_eq!((tally.reached, tally.short), (1, 1));
    assert_eq!(tally.not_measured, limits.count() - 2);
}

#[test]
fn repeats_in_brief() {
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(Summary::of(&[3.0]).unwrap().spread, Spread::Single);
    assert_eq!(Summary::of(&[3.0, 3.0]).unwrap().spread, Spread::Identical);
    let four = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
    assert_eq!((four.median, four.least, four.greatest), (2.5, 1.0, 4.0));
    assert_eq!(four.spread, Spread::PlusMinus(0.6));
    let below = Summary::of(&[1.0, 5.0, 6.0]).unwrap();
    assert_eq!(below.spread, Spread::PlusMinus(0.8));
    assert_eq!(
        Summary::of(&[0.0, 0.0, 1.0]).unwrap().spread,
        Spread::PlusMinus(f64::INFINITY)
    );
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let new = |figure: &str, values: &[f64]| Measurement::new(figure, Side::Xen, values.into());
    assert!(new("pipe", &[1.0, 0.0]).is_ok());
    assert_eq!(
        new("pipes", &[1.0]),
        Err(Refused::UnknownFigure("pipes".into()))
    );
    assert_eq!(new("pipe", &[]), Err(Refused::Empty("pipe".into())));
    for bad in [f64::NAN, f64::INFINITY, -0.5] {
        assert!(matches!(
            new("pipe", &[1.0, bad]),
            Err(Refused::NotAValue(..))
        ));
    }
}

/// The catalogue against itself.
#[test]
fn the_catalogue_is_sound() {
    for (at, figure) in FIGURES.iter().enumerate() {
        let mut later = FIGURES.iter().skip(at + 1);
        assert!(later.all(|other| other.id != figure.id), "{}", figure.id);
        assert_eq!(Figure::find(figure.id), Some(*figure));
        assert!(
            !figure.title.is_empty() && figure.about.ends_with('.'),
            "{}",
            figure.id
        );
        assert_eq!(
            figure.better == Better::Higher,
            figure.id.starts_with("bw-")
        );
        for one in figure.published {
            assert!(one.low > 0.0 && one.low <= one.high && !one.source.is_empty());
            let ratio = one.given == PublishedAs::Ratio;
            assert!(!ratio || one.high < 10.0, "{}", figure.id);
        }
    }
}

/// Every limit that the project set itself, by its id: a slip in the catalogue shows here.
#[test]
fn limits_are_those_that_were_set() {
    let wanted = [
        ("hypercall", Limit::AtMost(120.0)),
        ("gicd-read", Limit::AtMost(250.0)),
        ("timer-interrupt", Limit::BeyondNative(188.0)),
        ("ipi", Limit::AtMost(300.0)),
        ("switch", Limit::AtMost(900.0)),
        ("nanosleep", Limit::RatioToNative(1.15)),
        ("boot", Limit::BeyondNative(50_000_000.0)),
        ("image", Limit::AtMost(348_160.0)),
        ("fork", Limit::RatioToNative(1.01)),
        ("bw-pipe", Limit::RatioToNative(1.01)),
        ("ctx-16", Limit::RatioToNative(1.02)),
    ];
    for (id, limit) in wanted {
        assert_eq!(Figure::find(id).unwrap().limit, limit, "{id}");
    }
}

/// The same on a machine without virtualization extensions, where each figure is in the same place.
#[test]
fn limits_in_user_mode_are_those_that_were_set() {
    let user_mode = figures_on(false);
    let ids = |all: &[&Figure]| all.iter().map(|one| one.id).collect::<Vec<_>>();
    assert_eq!(ids(user_mode), ids(FIGURES));
    let wanted = [
        ("kernel-to-shell", 1.3),
        ("syscall-null", 1.8),
        ("syscall-read", 1.25),
        ("syscall-write", 1.25),
        ("syscall-open", 1.3),
        ("sig-install", 1.3),
        ("sig-catch", 1.5),
        ("pipe", 1.2),
        ("select-100", 1.3),
        ("sem", 1.3),
        ("fcntl", 1.3),
        ("fork", 1.4),
        ("exec", 1.4),
        ("shell", 1.4),
        ("pagefault", 1.5),
        ("mmap", 1.5),
        ("bw-mem-rd", 1.01),
        ("bw-mem-wr", 1.01),
        ("bw-mem-rdwr", 1.01),
        ("bw-mem-cp", 1.01),
        ("bw-mem-bzero", 1.01),
        ("bw-mem-bcopy", 1.01),
        ("bw-pipe", 1.05),
        ("mem-rd", 1.01),
        ("integer", 1.005),
        ("ctx-2", 1.2),
        ("ctx-4", 1.2),
        ("ctx-8", 1.2),
        ("ctx-16", 1.2),
        ("ctx-32", 1.2),
    ];
    for (id, most) in wanted {
        let figure = user_mode.iter().find(|one| one.id == id).unwrap();
        assert_eq!(figure.limit, Limit::RatioToNative(most), "{id}");
        assert!(
            id == "mmap" || id == "integer" || !figure.published.is_empty(),
            "{id}"
        );
    }
    let image = user_mode.iter().find(|one| one.id == "image").unwrap();
    assert_eq!(image.limit, Limit::AtMost(417_792.0));
    let others = user_mode.iter().filter(|one| one.limit != Limit::None);
    assert_eq!(others.count(), wanted.len() + 1);
}

#[test]
fn a_guests_gain_is_a_cost_below_one() {
    let run = run(&[
        ("bw-pipe", Side::Native, &[1000.0]),
        ("bw-pipe", Side::Kvm, &[1250.0]),
    ]);
    let found = quantity(Figure::find("bw-pipe").unwrap(), &run, Side::Kvm).unwrap();
    assert_eq!(found.median, 0.8);
}
