//! The table that a person reads. Pure.

use display::ink::{Ink, Tone};
use display::table::{AlignedTable, Cell, Column};

use crate::figure::{Beside, Bound, Figure, Unit};

/// A figure that could not be measured, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) name: &'static str,
    pub(crate) why: String,
}

const COLUMNS: [Column; 4] = [
    Column::left("FIGURE"),
    Column::right("VALUE"),
    Column::right("AT MOST"),
    Column::left("BESIDE"),
];

/// Lines of the table with a last one that sums it up.
pub(crate) fn draw(figures: &[Figure], failures: &[Failure], ink: Ink) -> Vec<String> {
    let mut table = AlignedTable::new(&COLUMNS);
    for figure in figures {
        let (mark, tone, value_tone) = match figure.is_met() {
            Some(true) => ("\u{2713}", Tone::Good, Tone::Plain),
            Some(false) => ("\u{2717}", Tone::Bad, Tone::Bad),
            None => ("\u{b7}", Tone::Soft, Tone::Plain),
        };
        let value = Cell::new(shown(figure.value, figure.unit), value_tone);
        let rest = [target(figure).into(), beside(&figure.beside).into()];
        let cells = [figure.name.into(), value].into_iter().chain(rest);
        table.push(Cell::new(mark, tone), cells);
    }
    for Failure { name, .. } in failures {
        let why = Cell::new("not measured", Tone::Bad);
        let cells = [(*name).into(), Cell::default(), Cell::default(), why];
        table.push(Cell::new("!", Tone::Bad), cells);
    }
    let mut lines = vec![String::new()];
    lines.extend(table.draw(ink, usize::MAX));
    lines.push(String::new());
    lines.extend(reasons(failures));
    lines.push(summary(figures, failures));
    lines
}

/// Each reason once, below the names of what it kept from being measured.
fn reasons(failures: &[Failure]) -> Vec<String> {
    let mut lines = Vec::new();
    for group in failures.chunk_by(|one, other| one.why == other.why) {
        let names: Vec<_> = group.iter().map(|failure| failure.name).collect();
        lines.push(format!("not measured: {}", names.join(", ")));
        let why = group
            .first()
            .into_iter()
            .flat_map(|failure| failure.why.lines());
        lines.extend(why.map(|line| format!("    {line}")));
        lines.push(String::new());
    }
    lines
}

fn summary(figures: &[Figure], failures: &[Failure]) -> String {
    let judged = figures
        .iter()
        .filter(|figure| figure.is_met().is_some())
        .count();
    let met = figures
        .iter()
        .filter(|figure| figure.is_met() == Some(true))
        .count();
    let unmeasured = match failures.len() {
        0 => String::new(),
        count => format!("; {count} not measured"),
    };
    format!("{met} of {judged} targets met{unmeasured}")
}

fn target(figure: &Figure) -> String {
    let Some(target) = figure.target else {
        return String::new();
    };
    let target = shown(target, figure.unit);
    match figure.bound {
        Bound::Most => target,
        Bound::Least => format!("at least {target}"),
    }
}

fn beside(all: &[Beside]) -> String {
    let one = |beside: &Beside| format!("{}: {}", beside.what, shown(beside.value, beside.unit));
    all.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A value with its unit, as short as it can be judged by.
pub(crate) fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes if value.abs() < 1e3 => format!("{value:.0} B"),
        Unit::Bytes if value.abs() < 1e6 => format!("{:.1} kB", value / 1e3),
        Unit::Bytes => format!("{:.2} MB", value / 1e6),
        Unit::Ms if value < 10.0 => format!("{value:.1} ms"),
        Unit::Ms => format!("{} ms", grouped(value)),
        Unit::Seconds => format!("{value:.0} s"),
        Unit::Ratio if value < 0.1 => format!("{value:.3}"),
        Unit::Ratio => format!("{value:.2}"),
        Unit::Requests | Unit::Count => grouped(value),
    }
}

/// With a comma between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let left = digits.len() - index;
        if index > 0 && left % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Vec<Figure> {
        vec![
            Figure::new("mcd_binary_bytes", 9_876_543.0).unwrap(),
            Figure::new("mcd_api_start_bytes", 31_337.0).unwrap(),
            Figure::new("mcd_rebootless_ms", 1234.5)
                .unwrap()
                .of(20)
                .beside("cp -a and sync", 8.25, Unit::Ms)
                .beside("drops", 3.0, Unit::Count),
        ]
    }

    #[test]
    fn a_table_shows_value_target_and_what_is_beside() {
        let failure = |name| Failure {
            name,
            why: "it ended with 1:\nno skopeo".into(),
        };
        let failures = [failure("mcd_os_peak_rss"), failure("mcd_fetch_ratio")];
        let lines = draw(&figures(), &failures, Ink::Plain).join("\n");
        let expected = "
  FIGURE                  VALUE   AT MOST  BESIDE
\u{2713} mcd_binary_bytes      9.88 MB  12.00 MB
\u{b7} mcd_api_start_bytes   31.3 kB
\u{2717} mcd_rebootless_ms    1,234 ms    400 ms  cp -a and sync: 8.2 ms; drops: 3
! mcd_os_peak_rss                          not measured
! mcd_fetch_ratio                          not measured

not measured: mcd_os_peak_rss, mcd_fetch_ratio
    it ended with 1:
    no skopeo

1 of 2 targets met; 2 not measured";
        assert_eq!(lines, expected);
    }

    #[test]
    fn values_are_as_short_as_they_can_be_judged_by() {
        let cases = [
            (999.0, Unit::Bytes, "999 B"),
            (31_337.0, Unit::Bytes, "31.3 kB"),
            (4_210_000.0, Unit::Bytes, "4.21 MB"),
            (-120_000.0, Unit::Bytes, "-120.0 kB"),
            (1_234_567.0, Unit::Requests, "1,234,567"),
            (1.3049, Unit::Ratio, "1.30"),
            (0.0163, Unit::Ratio, "0.016"),
            (812.0, Unit::Ms, "812 ms"),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(shown(value, unit), expected);
        }
    }
}
