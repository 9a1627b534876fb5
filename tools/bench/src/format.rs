//! Numbers and verdicts in a reader's words, the same in the table and on the page.

use crate::figure::{Figure, Published, PublishedAs, Terms};
use crate::machine::{Machine, Side};
use crate::stats::Spread;
use crate::verdict::{Judged, Outcome};

/// The unit in which a reader is shown `figure`.
pub(crate) fn unit(figure: &Figure) -> &'static str {
    figure.shown_in.map_or(figure.unit.name(), |(unit, _)| unit)
}

/// A value of `figure`, without its unit.
pub(crate) fn value(figure: &Figure, value: f64) -> String {
    number(value / figure.shown_in.map_or(1.0, |(_, one)| one))
}

/// A quantity of `figure` in its terms, with its unit.
pub(crate) fn quantity(figure: &Figure, quantity: f64) -> String {
    match figure.terms() {
        Terms::Ratio => format!("{} on native", percent(quantity - 1.0)),
        Terms::Value | Terms::BeyondNative => {
            format!("{} {}", value(figure, quantity), unit(figure))
        }
    }
}

/// Four significant digits, all digits of a whole number, thousands apart.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = if value.fract() == 0.0 || size >= 1000.0 {
        0
    } else if size >= 100.0 {
        1
    } else if size >= 10.0 {
        2
    } else if size >= 1.0 {
        3
    } else {
        4
    };
    apart(&format!("{value:.decimals$}"))
}

/// A signed fraction in percent: `+0.41 %`.
pub(crate) fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if !percent.is_finite() {
        let way = if percent < 0.0 { "to" } else { "from" };
        return format!("{way} nothing");
    }
    let decimals = if percent.abs() < 10.0 {
        2
    } else if percent.abs() < 100.0 {
        1
    } else {
        0
    };
    // A value that rounds to zero has no sign.
    let shown = format!("{percent:+.decimals$}");
    let nothing = shown.chars().all(|c| !c.is_ascii_digit() || c == '0');
    let shown = if nothing { &shown[1..] } else { &shown };
    format!("{} %", apart(shown))
}

/// `digits` with a comma between thousands of its whole part.
fn apart(digits: &str) -> String {
    let (whole, rest) = match digits.find('.') {
        Some(point) => digits.split_at(point),
        None => (digits, ""),
    };
    let mut reversed = String::new();
    for (at, digit) in whole.chars().rev().enumerate() {
        if at > 0 && at % 3 == 0 && digit.is_ascii_digit() {
            reversed.push(',');
        }
        reversed.push(digit);
    }
    reversed.chars().rev().collect::<String>() + rest
}

/// What is to reach, in a sentence.
pub(crate) fn limit(figure: &Figure) -> String {
    let Some(most) = figure.to_reach() else {
        return "no limit".to_owned();
    };
    match figure.terms() {
        Terms::Value => format!("at most {} {}", value(figure, most), unit(figure)),
        Terms::BeyondNative => format!("native + {} {}", value(figure, most), unit(figure)),
        Terms::Ratio => format!("at most {} on native", percent(most - 1.0)),
    }
}

/// What is to reach, where the figure and its unit stand beside it.
pub(crate) fn bare_limit(figure: &Figure) -> Option<String> {
    figure.to_reach().map(|most| bare_quantity(figure, most))
}

/// A quantity of `figure` in its terms, without its unit: `120`, `+188`, `+1.00 %`.
pub(crate) fn bare_quantity(figure: &Figure, quantity: f64) -> String {
    match figure.terms() {
        Terms::Value => value(figure, quantity),
        Terms::BeyondNative if quantity > 0.0 => format!("+{}", value(figure, quantity)),
        Terms::BeyondNative => value(figure, quantity),
        Terms::Ratio => percent(quantity - 1.0),
    }
}

/// What `judged` comes to.
pub(crate) fn verdict(judged: &Judged) -> String {
    let text = match judged.outcome {
        Outcome::Reached => "reached".to_owned(),
        Outcome::Short(by) => format!("short by {}", amount(judged.figure, by)),
        Outcome::NotMeasured(Side::Hanok) => "not measured".to_owned(),
        Outcome::NotMeasured(side) => format!("not measured: {}", side.id()),
        Outcome::NoLimit => "no limit".to_owned(),
    };
    if judged.doubtful {
        text + ", not in every repeat"
    } else {
        text
    }
}

fn amount(figure: &Figure, by: f64) -> String {
    match figure.terms() {
        Terms::Ratio => percent(by).trim_start_matches('+').to_owned(),
        Terms::Value | Terms::BeyondNative => {
            format!("{} {}", trimmed(&value(figure, by)), unit(figure))
        }
    }
}

/// A number without the zeros at its end that a sentence does not need.
fn trimmed(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

/// How far repetitions are apart.
pub(crate) fn spread(spread: Spread) -> String {
    match spread {
        Spread::Single => "one run".to_owned(),
        Spread::Identical => "identical".to_owned(),
        Spread::PlusMinus(by) => format!("±{}", percent(by).trim_start_matches('+')),
    }
}

/// What stands behind a published value in another unit than the figure's.
pub(crate) const OTHER_UNIT: &str = "*";

/// A published value in its own terms; one that cannot be compared with the figure has its unit
/// and [`OTHER_UNIT`].
pub(crate) fn published(figure: &Figure, one: &Published) -> String {
    let single = one.low.total_cmp(&one.high).is_eq();
    let range = |each: &dyn Fn(f64) -> String, between: &str| {
        if single {
            each(one.high)
        } else {
            format!("{}{between}{}", each(one.low), each(one.high))
        }
    };
    let own = |value: f64| self::value(figure, value);
    // Published to a hundredth.
    let beyond = |times: f64| format!("{:+.0}", (times - 1.0) * 100.0);
    match one.given {
        PublishedAs::Value => range(&own, "-"),
        PublishedAs::BeyondNative => format!("+{}", range(&own, "-")),
        PublishedAs::Ratio => format!("{} %", range(&beyond, " to ")),
        PublishedAs::Other(unit) => format!("{} {unit}{OTHER_UNIT}", range(&number, "-")),
    }
}

/// That what is marked with [`OTHER_UNIT`] is not in the figure's unit; `None` where none of `figures`
/// has such a value.
pub(crate) fn other_units<'a>(
    figures: impl IntoIterator<Item = &'a Figure>,
    machine: &Machine,
) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for figure in figures {
        for one in figure.published_on(machine) {
            let PublishedAs::Other(other) = one.given else {
                continue;
            };
            let what = format!("{other} are not {}", unit(figure));
            if !all.contains(&what) {
                all.push(what);
            }
        }
    }
    let all = all.join(", ");
    (!all.is_empty()).then(|| {
        format!(
            "{OTHER_UNIT} In another unit than ours: {all}. They are shown for the record, and no \
             figure can be compared with them."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_digits_or_all_of_a_whole_one() {
        let numbers = [
            (0.0, "0"),
            (0.112, "0.1120"),
            (9.40, "9.400"),
            (52.6, "52.60"),
            (224.5, "224.5"),
            (999.96, "1,000.0"),
            (1234.5, "1,234"),
            (262_144.0, "262,144"),
            (-1000.0, "-1,000"),
            (-100.0, "-100"),
        ];
        for (value, text) in numbers {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn percents_have_a_sign_unless_they_are_nothing() {
        let percents = [
            (0.0041, "+0.41 %"),
            (-0.12, "-12.0 %"),
            (0.0, "0.00 %"),
            (-0.000_001, "0.00 %"),
            (12.5, "+1,250 %"),
            (f64::INFINITY, "from nothing"),
            (f64::NEG_INFINITY, "to nothing"),
        ];
        for (value, text) in percents {
            assert_eq!(percent(value), text);
        }
    }

    #[test]
    fn limits_are_told_in_the_figures_terms() {
        let told = |id: &str| Figure::find(id).map(|figure| (limit(figure), bare_limit(figure)));
        let is = |whole: &str, bare: &str| Some((whole.to_owned(), Some(bare.to_owned())));
        assert_eq!(told("hypercall"), is("at most 120 instructions", "120"));
        assert_eq!(told("boot"), is("native + 50 ms", "+50"));
        assert_eq!(told("pipe"), is("at most +1.00 % on native", "+1.00 %"));
        assert_eq!(told("mmap"), Some(("no limit".to_owned(), None)));
    }
}
