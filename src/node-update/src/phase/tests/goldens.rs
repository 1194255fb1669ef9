//! What the machine does and shows, as texts: `docs/state-machine.md` has the drawing and the table
//! of transitions, `golden/shown.txt` what a node shows. `UPDATE_GOLDENS=1` writes them, except for
//! the drawing.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::*;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
const PAGE: &str = "../../docs/state-machine.md";

/// A transition: from, event, to, and what is to be done.
type Transition = (PhaseName, &'static str, PhaseName, String);

const EVENTS: [&str; 24] = [
    "Desired",
    "Next",
    "Observed",
    "Planned",
    "Rejected",
    "Prepared",
    "StillTrying",
    "Fetched",
    "NotFetched",
    "Blocked",
    "Overdue",
    "Drained",
    "Switched",
    "Applied",
    "Reverted",
    "Unmet",
    "Verified",
    "VerificationFailed",
    "InService",
    "StillCordoned",
    "Failed",
    "Drifted",
    "Restored",
    "Retry",
];
const RELEASE: &str = "Release";

/// The name of a variant: the first word of its debug text.
fn word(debug: &str) -> String {
    debug
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect()
}

fn event_name(event: &Event) -> &'static str {
    let name = word(&format!("{event:?}"));
    let all = EVENTS.into_iter().chain([RELEASE]);
    all.into_iter().find(|seen| *seen == name).unwrap()
}

/// Every transition of the table: those of events that are ignored, too.
fn transitions() -> BTreeSet<Transition> {
    let mut transitions = BTreeSet::new();
    for facts in samples::facts() {
        for phase in samples::phases() {
            for event in samples::events(&facts) {
                let (from, name) = (phase.name(), event_name(&event));
                if let Ok((to, commands)) = table::next(phase.clone(), event, &facts) {
                    let commands: Vec<String> = commands
                        .iter()
                        .map(|command| word(&format!("{command:?}")))
                        .collect();
                    transitions.insert((from, name, to.name(), commands.join(", ")));
                }
            }
        }
    }
    transitions
}

fn position(names: &[&str], name: &str) -> usize {
    names
        .iter()
        .position(|seen| *seen == name)
        .unwrap_or(names.len())
}

/// The rows of the table in the order of the drawing: `phase  event  → phase: commands`.
fn table() -> String {
    let mut rows: Vec<Transition> = transitions().into_iter().collect();
    rows.sort_by_key(|(from, event, to, commands)| {
        (*from, position(&EVENTS, event), *to, commands.clone())
    });
    let mut text = String::new();
    let mut before = None;
    for (from, event, to, commands) in &rows {
        let is_ignored = from == to && commands.is_empty();
        let ignorable = [
            "Next",
            "InService",
            "StillCordoned",
            "Drifted",
            "Restored",
            "Retry",
            RELEASE,
        ];
        if is_ignored && ignorable.contains(event) {
            continue;
        }
        let is_same = before.is_some_and(|(phase, _)| phase == *from);
        let from_shown = if is_same { "" } else { from.as_str() };
        let event_shown = if before == Some((*from, *event)) {
            ""
        } else {
            event
        };
        before = Some((*from, *event));
        let commands = if commands.is_empty() { "-" } else { commands };
        writeln!(
            text,
            "{from_shown:<15} {event_shown:<19} {:<15} {commands}",
            to.as_str()
        )
        .unwrap();
    }
    text
}

#[test]
fn the_drawing_is_the_table() {
    let edges = transitions()
        .into_iter()
        .filter(|(from, _, to, _)| from != to)
        .map(|(from, event, to, _)| (from.to_string(), event.to_owned(), to.to_string()))
        .collect();
    golden::assert_drawing(CRATE, PAGE, &edges);
}

#[test]
fn the_page_has_every_transition() {
    golden::assert_block(CRATE, PAGE, "transitions", &table());
}

#[test]
fn every_phase_and_event_is_met() {
    let transitions = transitions();
    for phase in PhaseName::ALL {
        assert!(
            transitions.iter().any(|(from, ..)| *from == phase),
            "nothing leaves {phase}"
        );
        assert!(
            transitions.iter().any(|(_, _, to, _)| *to == phase),
            "nothing leads to {phase}"
        );
    }
    for event in EVENTS.into_iter().chain([RELEASE]) {
        assert!(
            transitions.iter().any(|(_, met, ..)| *met == event),
            "{event} never happens"
        );
    }
}

/// One paragraph a phase; a phase that shows the same as one before it is left out.
#[test]
fn what_a_node_shows() {
    let mut text = String::new();
    let mut seen = BTreeSet::new();
    let facts = Facts {
        desired: Some(target("b")),
        current: Some(target("a")),
        next: None,
    };
    for phase in samples::shown() {
        let machine = Machine {
            facts: facts.clone(),
            phase,
        };
        let phase = machine.phase();
        let state = machine.state().map_or("(left as it is)", NodeState::as_str);
        let mut shown = format!("{}\n  state      {state}\n", phase.name());
        let mut line = |name: &str, value: &str| {
            if !value.is_empty() {
                writeln!(shown, "  {name:<10} {value}").unwrap();
            }
        };
        line("reason", &phase.reason());
        line("waits for", &phase.waits_for());
        let delay = phase.delay();
        line(
            "delay",
            &delay.map_or_else(String::new, |delay| format!("{delay:?}")),
        );
        if seen.insert(shown.clone()) {
            if !text.is_empty() {
                text.push('\n');
            }
            text += &shown;
        }
    }
    golden::assert(CRATE, "src/phase/tests/golden/shown.txt", &text);
}
