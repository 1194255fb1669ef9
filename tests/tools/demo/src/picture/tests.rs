//! A picture of a run that did not happen: three nodes, two rolls with a reboot, one without.

use super::*;
use crate::steps::StepSpan;

fn at(tenths: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + 100 * tenths).unwrap()
}

/// Phases one after another, each with its length in tenths of a second.
fn spans(start: i64, lengths: &[(Phase, i64)]) -> Vec<Span> {
    let mut start = start;
    lengths
        .iter()
        .map(|(phase, length)| {
            let span = Span {
                phase: *phase,
                start: at(start),
                end: at(start + length),
                waits_for: "pod default/web-1 <of> budget \"web\"".into(),
            };
            start += length;
            span
        })
        .collect()
}

const REBOOT: [(Phase, i64); 5] = [
    (Phase::Fetch, 82),
    (Phase::Drain, 61),
    (Phase::Apply, 17),
    (Phase::Reboot, 43),
    (Phase::Verify, 21),
];
const LIVE: [(Phase, i64); 3] = [(Phase::Fetch, 9), (Phase::Apply, 11), (Phase::Verify, 6)];

struct Sample {
    timeline: Timeline,
    rolls: Vec<Roll>,
    outages: Vec<Vec<Outage>>,
    ready: Vec<(Timestamp, usize)>,
}

fn sample() -> Sample {
    let mut nodes = Vec::new();
    let mut outages = Vec::new();
    let mut ready = vec![(at(-50), 6)];
    for turn in 0..3 {
        let starts = [10 + 230 * turn, 720 + 230 * turn];
        let mut phases = Vec::new();
        let mut out = Vec::new();
        for start in starts {
            phases.extend(spans(start, &REBOOT));
            out.push(Outage {
                start: at(start + 82),
                end: at(start + 222),
            });
        }
        phases.extend(spans(1425 + 30 * turn, &LIVE));
        nodes.push(Lane {
            name: format!("worker-{turn}"),
            phases,
        });
        outages.push(out);
    }
    for start in [10, 240, 470, 720, 950, 1180] {
        ready.extend([
            (at(start + 84), 5),
            (at(start + 102), 6),
            (at(start + 110), 5),
        ]);
        ready.push((at(start + 133), 6));
    }
    let rolls = vec![
        Roll {
            title: "new OS and configuration".into(),
            start: at(0),
            end: at(705),
        },
        Roll {
            title: "an OS with its own file".into(),
            start: at(705),
            end: at(1415),
        },
        Roll {
            title: "no reboot".into(),
            start: at(1415),
            end: at(1520),
        },
    ];
    let level = |level: &str, components: &[&str], start, end| RunLevel {
        level: level.into(),
        components: components.iter().map(|one| (*one).into()).collect(),
        start: at(start),
        end: at(end),
        waits_for: "gamma: working <towards> 1.0.1".into(),
    };
    let timeline = Timeline {
        steps: vec![StepSpan {
            step: "CommenceUpgrade".into(),
            condition: "UpgradeCommenced".into(),
            start: at(1415),
            end: at(1416),
        }],
        run_levels: vec![
            level("20", &["alpha"], 1416, 1430),
            level("50", &["beta", "gamma"], 1431, 1519),
        ],
        unwaited_share: None,
        nodes,
        max_out: 1,
        min_ready_replicas: 5,
        fetched_while_out_bytes: 0,
        proven: true,
    };
    Sample {
        timeline,
        rolls,
        outages,
        ready,
    }
}

fn drawn() -> String {
    let Sample {
        timeline,
        rolls,
        outages,
        ready,
    } = sample();
    let picture = Picture {
        timeline: &timeline,
        rolls: &rolls,
        outages: &outages,
        ready: &ready,
        replicas: 6,
        needed: 5,
    };
    picture.draw().to_string()
}

#[test]
fn every_phase_and_outage_has_a_tooltip() {
    let text = drawn();
    for part in [
        "worker-2: reboot, 4.3 s\n08:01:03.000 to 08:01:07.300\n",
        "waits for: pod default/web-1 &lt;of&gt; budget &quot;web&quot;",
        "worker-0: out of service, 14.0 s\ncordon 08:00:09.200\nuncordon 08:00:23.200",
        "roll 3: no reboot\n0:10",
        "run level 50: beta, gamma, 8.8 s\n08:02:23.100 to 08:02:31.900\nwaits for: gamma: working \
         &lt;towards&gt; 1.0.1",
        ">50 \u{b7} beta, gamma  8.8 s<",
        "step CommenceUpgrade, 0.1 s\n08:02:21.500 to 08:02:21.600",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert_eq!(text.matches("out of service, ").count(), 6);
}

#[test]
fn nothing_is_drawn_outside() {
    let number = |text: &str| text.parse::<f64>().ok();
    for attribute in drawn().split_whitespace() {
        let Some((name, value)) = attribute.split_once('=') else {
            continue;
        };
        let value = number(value.trim_end_matches("/>").trim_matches(['"', '>']));
        if let ("x" | "x1" | "x2", Some(x)) = (name, value) {
            assert!((0.0..=WIDTH).contains(&x), "{attribute}");
        }
    }
}
