//! `docs/release-state.md` has the drawing, and the table of transitions, which `UPDATE_GOLDENS=1`
//! writes.

use std::fmt::Write as _;

use super::*;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
const PAGE: &str = "../../docs/release-state.md";

const STATES: [&str; 8] = [
    "Starting",
    "Resuming",
    "Switching",
    "Applying",
    "Running",
    "Requested",
    "Retrieving",
    "Checking",
];

const EVENTS: [&str; 8] = [
    "Loaded",
    "Unreadable",
    "Ended",
    "SpecRead",
    "Retrieved",
    "NotRetrieved",
    "Checked",
    "NotLoaded",
];

/// A transition: from, event, to, and what is to be done.
type Transition = (usize, usize, usize, String);

/// The name of a variant: the first word of its debug text.
fn word(debug: &str) -> String {
    debug
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect()
}

fn position(names: &[&str], name: &str) -> usize {
    names.iter().position(|listed| *listed == name).unwrap()
}

fn shown(commands: &ReleaseCommands) -> String {
    let mut all: Vec<String> = commands
        .at_once
        .iter()
        .map(|command| word(&format!("{command:?}")))
        .collect();
    all.push(match commands.then {
        Wait(wait) => format!("Wait {}", word(&format!("{wait:?}"))),
        task @ (Retrieve | Check | Record | Pass) => word(&format!("{task:?}")),
    });
    all.join(", ")
}

fn transitions() -> BTreeSet<Transition> {
    let mut transitions = BTreeSet::new();
    for state in samples::states() {
        for event in samples::events(&state) {
            let from = position(&STATES, state.name());
            let name = position(&EVENTS, &word(&format!("{event:?}")));
            let (to, commands) = step(&state, event);
            let to = position(&STATES, to.name());
            transitions.insert((from, name, to, shown(&commands)));
        }
    }
    transitions
}

#[test]
fn the_drawing_is_the_table() {
    let edges = transitions()
        .into_iter()
        .filter(|(from, _, to, _)| from != to)
        .map(|(from, event, to, _)| {
            let (from, event, to) = (STATES[from], EVENTS[event], STATES[to]);
            (from.to_owned(), event.to_owned(), to.to_owned())
        })
        .collect();
    golden::assert_drawing(CRATE, PAGE, &edges);
}

#[test]
fn the_page_has_every_transition() {
    let mut text = String::new();
    let mut before = (usize::MAX, usize::MAX);
    let requested = position(&STATES, "Requested");
    let spec_read = position(&EVENTS, "SpecRead");
    for (from, event, to, commands) in transitions() {
        if from >= requested && event < spec_read {
            // They are those of the applied release.
            continue;
        }
        let from_shown = if before.0 == from { "" } else { STATES[from] };
        let event_shown = if before == (from, event) {
            ""
        } else {
            EVENTS[event]
        };
        before = (from, event);
        let to = STATES[to];
        writeln!(
            text,
            "{from_shown:<10}  {event_shown:<12}  {to:<10}  {commands}"
        )
        .unwrap();
    }
    golden::assert_block(CRATE, PAGE, "transitions", &text);
}

#[test]
fn every_state_and_event_is_met() {
    let transitions = transitions();
    for (state, name) in STATES.iter().enumerate() {
        let is_left = |(from, _, to, _): &Transition| *from == state && *to != state;
        assert!(transitions.iter().any(is_left), "{name}");
    }
    for (event, name) in EVENTS.iter().enumerate() {
        let is_met = |(_, met, ..): &Transition| *met == event;
        assert!(transitions.iter().any(is_met), "{name}");
    }
}
