use super::*;
use crate::ink::strip;

const WIDE: ScreenSize = ScreenSize {
    columns: 80,
    lines: 24,
};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn node(name: &str, phase: &str, waits_for: &str, secs: i64, is_out: bool) -> LiveNode {
    LiveNode {
        name: name.into(),
        phase: phase.into(),
        waits_for: waits_for.into(),
        since: Some(now() - SignedDuration::from_secs(secs)),
        is_out,
        ..LiveNode::default()
    }
}

fn nodes() -> Vec<LiveNode> {
    vec![
        node("worker-0", "Idle", "", 3700, false),
        node(
            "worker-1",
            "Draining",
            "pod default/web-7f of budget web\nsays no",
            75,
            true,
        ),
        LiveNode {
            since: None,
            ..node("worker-2", "", "", 0, false)
        },
    ]
}

fn heading() -> LiveHeading {
    LiveHeading {
        title: "Roll 1".into(),
        notes: vec!["ready: 5 of 6 replicas".into()],
    }
}

fn drawn(nodes: &[LiveNode], size: ScreenSize) -> String {
    let lines = draw(Ink::Coloured, &heading(), nodes, now(), size);
    let lines: Vec<String> = lines.iter().map(|line| strip(line)).collect();
    lines.join("\n")
}

#[test]
fn a_table_has_a_line_a_node() {
    let expected = "
Roll 1
ready: 5 of 6 replicas

  NODE      PHASE            SINCE  WAITS FOR
\u{25cf} worker-0  Idle             1h01m
\u{25cb} worker-1  Draining         1m15s  pod default/web-7f of budget web says no
\u{25cf} worker-2
";
    assert_eq!(drawn(&nodes(), WIDE), expected);
}

#[test]
fn pools_have_a_column_and_failures_their_reason() {
    let mut nodes = nodes();
    nodes.truncate(1);
    let failed = LiveNode {
        pool: "infra".into(),
        reason: "target lacks skopeo".into(),
        ..node("infra-0", "Held", "", 5, false)
    };
    nodes.push(failed);
    let expected = "
Roll 1
ready: 5 of 6 replicas

  NODE      POOL   PHASE            SINCE  WAITS FOR
\u{25cf} worker-0         Idle             1h01m
\u{25cf} infra-0   infra  Held                5s  target lacks skopeo
";
    assert_eq!(drawn(&nodes, WIDE), expected);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in [40, 60, 80] {
        for line in drawn(&nodes(), ScreenSize { columns, ..WIDE }).lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn a_small_terminal_shows_nodes_under_way_first() {
    let mut many: Vec<LiveNode> = (0..40)
        .map(|number| node(&format!("worker-{number:02}"), "Idle", "", 60, false))
        .collect();
    many.insert(30, node("worker-xx", "Rebooting", "", 5, true));
    let text = drawn(&many, ScreenSize { lines: 14, ..WIDE });
    // The cursor stands below the last line.
    assert_eq!(text.split('\n').count(), 13, "{text}");
    assert!(text.contains("worker-xx"), "{text}");
    assert!(text.contains("  and 35 more nodes"), "{text}");
    let text = drawn(&many, ScreenSize { lines: 1, ..WIDE });
    assert!(text.contains("worker-xx"), "{text}");
}

#[test]
fn a_table_is_drawn_over_the_last_one() {
    let mut view = LiveView::new(Medium::Terminal(Ink::Plain));
    let first = view.show(&heading(), nodes(), now(), WIDE);
    assert_eq!(first.lines().count(), 9, "{first}");
    assert!(!first.contains('\x1b'), "{first}");
    let second = view.show(&heading(), nodes(), now(), WIDE);
    assert_eq!(second, format!("\x1b[9A\x1b[J{first}"));
    assert_eq!(view.say("over"), "\x1b[9A\x1b[Jover\n");
    assert_eq!(view.say("over"), "over\n");
    assert_eq!(view.show(&heading(), nodes(), now(), WIDE), first);
}

#[test]
fn in_lines_only_changes_are_written() {
    let mut view = LiveView::new(Medium::Lines);
    let mut show = |nodes: &[LiveNode]| view.show(&heading(), nodes.to_vec(), now(), WIDE);
    let mut nodes = nodes();
    assert_eq!(
        show(&nodes),
        "08:00:00  ready: 5 of 6 replicas\n08:00:00  worker-0  Idle\n\
         08:00:00  worker-1  Draining  (out of service)  waits for pod default/web-7f of budget web \
         says no\n"
    );
    nodes[0].since = None;
    assert_eq!(show(&nodes), "");
    nodes[0].phase = "Held".into();
    nodes[0].reason = "unit x failed".into();
    nodes.remove(1);
    assert_eq!(
        show(&nodes),
        "08:00:00  worker-0  Held  unit x failed\n08:00:00  worker-1  deleted\n"
    );
}
