//! `timeline.svg`: steps of a managed upgrade, run levels of a release, then a lane a node, with
//! its phases, its time out of service, and the ready replicas.

use display::svg::Element;
use jiff::{SignedDuration, Timestamp};
use observer::phases::{Phase, Span};
use observer::release::RunLevel;

use crate::steps::StepSpan;
use crate::timeline::{Lane, Timeline};

/// What is drawn. Times outside the span of the rolls are drawn at its edge.
#[derive(Debug)]
pub(crate) struct Picture<'a> {
    pub(crate) timeline: &'a Timeline,
    /// In order.
    pub(crate) rolls: &'a [Roll],
    /// When each node was out of service, in the order of the timeline's lanes.
    pub(crate) outages: &'a [Vec<Outage>],
    /// Ready replicas, and since when, in order.
    pub(crate) ready: &'a [(Timestamp, usize)],
    /// How many there are when all are well.
    pub(crate) replicas: usize,
    /// Fewest that the budget allows.
    pub(crate) needed: usize,
}

/// One roll of the whole pool.
#[derive(Clone, Debug)]
pub(crate) struct Roll {
    pub(crate) title: String,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
}

/// A time out of service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
}

const WIDTH: f64 = 1320.0;
/// Where time begins: right of the names.
const LEFT: f64 = 128.0;
/// Where it ends.
const RIGHT: f64 = WIDTH - 36.0;
/// Baseline of the heading.
const HEADING: f64 = 44.0;
/// Top of the legend.
const LEGEND: f64 = 84.0;
/// Top of the rolls' titles.
const ROLLS: f64 = 122.0;
/// Top of the first line below the titles.
const TOP: f64 = 162.0;
/// Height of the line of a step or run level, of which the bar is the upper part.
const LINE: f64 = 20.0;
const LINE_BAR: f64 = 14.0;
/// Between steps, run levels and nodes.
const GAP: f64 = 14.0;
/// Height of a lane, of which the bar is the upper part and the time out of service the lower.
const LANE: f64 = 66.0;
const BAR: f64 = 28.0;
/// Height of the strip of replicas.
const STRIP: f64 = 60.0;

const INK: &str = "#1f2933";
const SOFT: &str = "#66727f";
const HAIR: &str = "#dfe4ea";
const OUT: &str = "#b4423c";
const GOOD: &str = "#2f8f63";
const SERVICE: &str = "#4a7fb5";
const RELEASE: &str = "#3d8b99";
const STEP: &str = "#6b7fa8";

/// Fill and ink of a phase. Fetch is pale: the node still works.
const fn colours(phase: Phase) -> (&'static str, &'static str) {
    match phase {
        Phase::Fetch => ("#c5d9f1", "#27496d"),
        Phase::Drain => ("#f3b95f", "#5c3d06"),
        Phase::Apply => ("#8f7cc0", "#ffffff"),
        Phase::Reboot => ("#d0605a", "#ffffff"),
        Phase::Verify => ("#58ad83", "#ffffff"),
    }
}

/// What is drawn of a step or a run level.
struct Line {
    /// What stands beside the bar, and what if that has no room.
    name: String,
    short: String,
    tooltip: String,
    waits_for: String,
    start: Timestamp,
    end: Timestamp,
    fill: &'static str,
}

impl Line {
    fn of_step(step: &StepSpan) -> Self {
        Self {
            name: step.step.clone(),
            short: step.step.clone(),
            tooltip: format!("step {}", step.step),
            waits_for: String::new(),
            start: step.start,
            end: step.end,
            fill: STEP,
        }
    }

    fn of_level(level: &RunLevel) -> Self {
        let components = level.components.join(", ");
        Self {
            name: format!("{} \u{b7} {components}", level.level),
            short: level.level.clone(),
            tooltip: format!("run level {}: {components}", level.level),
            waits_for: level.waits_for.clone(),
            start: level.start,
            end: level.end,
            fill: RELEASE,
        }
    }
}

/// Top of what is below a block of lines that begins at `top`.
fn below(top: f64, lines: &[Line]) -> f64 {
    match lines.len() {
        0 => top,
        count => top + LINE * real(count) + GAP,
    }
}

impl Picture<'_> {
    /// The whole document.
    pub(crate) fn draw(&self) -> Element {
        let steps: Vec<_> = self.timeline.steps.iter().map(Line::of_step).collect();
        let levels: Vec<_> = self
            .timeline
            .run_levels
            .iter()
            .map(Line::of_level)
            .collect();
        let levels_top = below(TOP, &steps);
        let lanes_top = below(levels_top, &levels);
        let lanes_end = lanes_top + LANE * real(self.timeline.nodes.len());
        let strip_end = lanes_end + 18.0 + STRIP;
        let height = strip_end + 92.0;
        let mut document = Element::document(WIDTH, height)
            .with(
                "font-family",
                "Inter, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif",
            )
            .with("font-size", 12)
            .with("fill", INK)
            .holding([
                Element::rect(0.0, 0.0, WIDTH, height).with("fill", "#ffffff"),
                self.heading(),
                legend(),
            ]);
        document = document
            .holding(self.axis(strip_end))
            .holding(self.roll_bands(strip_end));
        document = document
            .holding(self.lines(TOP, "steps", &steps))
            .holding(self.lines(levels_top, "run levels", &levels));
        let mut y = lanes_top;
        for (lane, outages) in self.timeline.nodes.iter().zip(self.outages) {
            document = document.holding([self.lane(y, lane, outages)]);
            y += LANE;
        }
        document.holding([self.strip(lanes_end + 18.0), self.verdict(height - 26.0)])
    }

    fn start(&self) -> Timestamp {
        self.rolls
            .first()
            .map_or(Timestamp::UNIX_EPOCH, |roll| roll.start)
    }

    fn length(&self) -> SignedDuration {
        self.rolls.last().map_or(SignedDuration::ZERO, |roll| {
            roll.end.duration_since(self.start())
        })
    }

    /// Horizontal place of a moment.
    fn x(&self, at: Timestamp) -> f64 {
        let share = at.duration_since(self.start()).as_secs_f64() / self.length().as_secs_f64();
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    }

    fn heading(&self) -> Element {
        let nodes = self.timeline.nodes.len();
        let rolls = self.rolls.len();
        let began = self.start().strftime("%Y-%m-%d %H:%M:%S UTC");
        Element::new("g").holding([
            Element::text(
                LEFT,
                HEADING,
                format!(
                    "{nodes} nodes, {rolls} {}",
                    if rolls == 1 { "roll" } else { "rolls" }
                ),
            )
            .with("font-size", 22)
            .with("font-weight", 600),
            Element::text(
                LEFT,
                HEADING + 22.0,
                format!("{began}, {}", clock(self.length())),
            )
            .with("fill", SOFT),
        ])
    }

    /// Grid and labels of time.
    fn axis(&self, bottom: f64) -> Vec<Element> {
        let step = step_secs(self.length());
        let mut marks = Vec::new();
        let mut passed = SignedDuration::ZERO;
        while passed <= self.length() {
            let x = self.x(self
                .start()
                .saturating_add(passed)
                .unwrap_or_else(|_| self.start()));
            marks.push(Element::line((x, TOP - 8.0), (x, bottom)).with("stroke", HAIR));
            marks.push(
                Element::text(x, bottom + 18.0, clock(passed))
                    .with("text-anchor", "middle")
                    .with("font-size", 11)
                    .with("fill", SOFT),
            );
            passed += SignedDuration::from_secs(step);
        }
        marks
    }

    /// Titles of the rolls over brackets, and lines between them.
    fn roll_bands(&self, bottom: f64) -> Vec<Element> {
        let mut marks = Vec::new();
        for (number, roll) in (1..).zip(self.rolls) {
            let (left, right) = (self.x(roll.start) + 1.5, self.x(roll.end) - 1.5);
            let names = [
                format!("{number} \u{b7} {}", roll.title),
                format!("roll {number}"),
                number.to_string(),
            ];
            let took = clock(roll.end.duration_since(roll.start));
            let mut band =
                Element::new("g").holding([Element::rect(left, ROLLS, right - left, 24.0)
                    .with("rx", 4)
                    .with("fill", "#eef1f5")
                    .explained(format!("roll {number}: {}\n{took}", roll.title))]);
            if let Some(name) = names
                .into_iter()
                .find(|name| fits(name, 12.0, right - left))
            {
                band =
                    band.holding([
                        Element::text(f64::midpoint(left, right), ROLLS + 16.0, name)
                            .with("text-anchor", "middle")
                            .with("font-weight", 600)
                            .with("pointer-events", "none"),
                    ]);
            }
            marks.push(band);
            if number > 1 {
                marks.push(
                    Element::line((left - 1.5, ROLLS), (left - 1.5, bottom))
                        .with("stroke", "#9aa5b1")
                        .with("stroke-dasharray", "3 3"),
                );
            }
        }
        marks
    }

    /// A block of lines: its name, and a bar and a label each; nothing where there are none.
    fn lines(&self, top: f64, name: &str, lines: &[Line]) -> Vec<Element> {
        let Some(first) = lines.first() else {
            return Vec::new();
        };
        let name = Element::text(LEFT - 16.0, top + 11.0, name)
            .with("text-anchor", "end")
            .with("font-weight", 600)
            .with("font-size", 13);
        let left = self.x(first.start);
        let height = LINE * real(lines.len());
        let ground = Element::rect(left, top - 3.0, RIGHT - left, height)
            .with("fill", "#f6f8fa")
            .with("rx", 4);
        let tops = (0..).map(|number| top + LINE * real(number));
        let drawn = lines
            .iter()
            .zip(tops)
            .map(|(line, top)| self.line(top, line));
        [name, ground].into_iter().chain(drawn).collect()
    }

    fn line(&self, top: f64, line: &Line) -> Element {
        let (left, right) = (self.x(line.start), self.x(line.end));
        let took = seconds(line.end.duration_since(line.start));
        let mut tooltip = format!(
            "{}, {took}\n{} to {}",
            line.tooltip,
            line.start.strftime("%H:%M:%S%.3f"),
            line.end.strftime("%H:%M:%S%.3f")
        );
        if !line.waits_for.is_empty() {
            tooltip.push_str("\nwaits for: ");
            tooltip.push_str(&line.waits_for);
        }
        let bar = Element::rect(left, top, (right - left).max(2.0), LINE_BAR)
            .with("fill", line.fill)
            .with("rx", 2)
            .explained(tooltip);
        let labels = [
            format!("{}  {took}", line.name),
            line.name.clone(),
            line.short.clone(),
        ];
        // Where there is no room before it, behind it.
        let before = left - LEFT;
        let (x, anchor, room) = if before >= RIGHT - right {
            (left - 6.0, "end", before)
        } else {
            (right + 6.0, "start", RIGHT - right)
        };
        let label = labels.into_iter().find(|label| fits(label, 11.0, room));
        Element::new("g").holding([bar]).holding(label.map(|label| {
            Element::text(x, top + 11.0, label)
                .with("text-anchor", anchor)
                .with("font-size", 11)
        }))
    }

    fn lane(&self, top: f64, lane: &Lane, outages: &[Outage]) -> Element {
        let name = Element::text(LEFT - 16.0, top + 19.0, lane.name.as_str())
            .with("text-anchor", "end")
            .with("font-weight", 600)
            .with("font-size", 13);
        let track = Element::rect(LEFT, top, RIGHT - LEFT, BAR)
            .with("fill", "#f6f8fa")
            .with("rx", 4);
        Element::new("g")
            .holding([name, track])
            .holding(
                lane.phases
                    .iter()
                    .map(|span| self.bar(top, &lane.name, span)),
            )
            .holding(
                outages
                    .iter()
                    .map(|outage| self.outage(top + BAR + 8.0, &lane.name, *outage)),
            )
    }

    fn bar(&self, top: f64, node: &str, span: &Span) -> Element {
        let (fill, ink) = colours(span.phase);
        let (left, right) = (self.x(span.start), self.x(span.end));
        let took = seconds(span.end.duration_since(span.start));
        let name = span.phase.name();
        let mut tooltip = format!(
            "{node}: {name}, {took}\n{} to {}",
            span.start.strftime("%H:%M:%S%.3f"),
            span.end.strftime("%H:%M:%S%.3f")
        );
        if !span.waits_for.is_empty() {
            tooltip.push_str("\nwaits for: ");
            tooltip.push_str(&span.waits_for);
        }
        let bar = Element::rect(left, top, (right - left - 1.0).max(1.0), BAR)
            .with("fill", fill)
            .with("rx", 2)
            .explained(tooltip);
        let labels = [format!("{name} {took}"), name.to_owned(), took];
        let label = labels
            .into_iter()
            .find(|label| fits(label, 10.5, right - left))
            .map(|label| {
                Element::text(f64::midpoint(left, right - 1.0), top + 18.0, label)
                    .with("text-anchor", "middle")
                    .with("font-size", 10.5)
                    .with("fill", ink)
                    .with("pointer-events", "none")
            });
        Element::new("g").holding([bar]).holding(label)
    }

    /// A bracket from cordon to uncordon.
    fn outage(&self, y: f64, node: &str, outage: Outage) -> Element {
        let (left, right) = (self.x(outage.start), self.x(outage.end));
        let took = seconds(outage.end.duration_since(outage.start));
        let bracket = [(left, y - 5.0), (left, y), (right, y), (right, y - 5.0)];
        let tooltip = format!(
            "{node}: out of service, {took}\ncordon {}\nuncordon {}",
            outage.start.strftime("%H:%M:%S%.3f"),
            outage.end.strftime("%H:%M:%S%.3f")
        );
        let label = [format!("out {took}"), took]
            .into_iter()
            .find(|label| fits(label, 10.5, (right - left) + 24.0));
        Element::new("g")
            .holding([
                Element::path(bracket, false)
                    .with("fill", "none")
                    .with("stroke", OUT)
                    .with("stroke-width", 1.5),
                Element::rect(left, y - 6.0, right - left, 22.0)
                    .with("fill-opacity", 0)
                    .explained(tooltip),
            ])
            .holding(label.map(|label| {
                Element::text(f64::midpoint(left, right), y + 13.0, label)
                    .with("text-anchor", "middle")
                    .with("font-size", 10.5)
                    .with("fill", OUT)
                    .with("pointer-events", "none")
            }))
    }

    /// Ready replicas over time, and the budget's line.
    fn strip(&self, top: f64) -> Element {
        let bottom = top + STRIP;
        let most = self
            .ready
            .iter()
            .map(|(_, count)| *count)
            .max()
            .unwrap_or(0);
        let full = real(most.max(self.replicas).max(1));
        let y = |count: usize| bottom - (STRIP - 8.0) * real(count) / full;

        let end = self
            .start()
            .saturating_add(self.length())
            .unwrap_or_else(|_| self.start());
        let mut edge = Vec::new();
        let until = self.ready.iter().skip(1).map(|(at, _)| *at).chain([end]);
        for ((since, count), until) in self.ready.iter().zip(until) {
            if until > self.start() && *since < end {
                edge.extend([(self.x(*since), y(*count)), (self.x(until), y(*count))]);
            }
        }
        let area = [(LEFT, bottom)]
            .into_iter()
            .chain(edge.iter().copied())
            .chain([(RIGHT, bottom)]);
        let budget = y(self.needed);
        let label = |y: f64, text: String| {
            Element::text(LEFT - 16.0, y, text)
                .with("text-anchor", "end")
                .with("font-size", 11)
                .with("fill", SOFT)
        };
        Element::new("g").holding([
            Element::path(area, true).with("fill", "#e3edf7"),
            Element::path(edge.iter().copied(), false)
                .with("fill", "none")
                .with("stroke", SERVICE)
                .with("stroke-width", 1.5),
            Element::line((LEFT, bottom), (RIGHT, bottom)).with("stroke", "#9aa5b1"),
            Element::line((LEFT, budget), (RIGHT, budget))
                .with("stroke", OUT)
                .with("stroke-dasharray", "2 4")
                .explained(format!("the budget: at least {} ready", self.needed)),
            Element::text(LEFT - 16.0, top + 14.0, "ready pods")
                .with("text-anchor", "end")
                .with("font-weight", 600),
            label(top + 32.0, format!("of {}", self.replicas)),
            label(top + 48.0, format!("budget {}", self.needed)),
        ])
    }

    /// What the observer found, in a line.
    fn verdict(&self, baseline: f64) -> Element {
        let Timeline {
            max_out,
            min_ready_replicas,
            fetched_while_out_bytes,
            proven,
            ..
        } = self.timeline;
        let nodes = if *max_out == 1 { "node" } else { "nodes" };
        let facts = [
            format!("at most {max_out} {nodes} of a pool out at once"),
            format!("at least {min_ready_replicas} ready pods"),
            format!("{fetched_while_out_bytes} bytes fetched while out"),
        ];
        let (mark, colour) = if *proven {
            ("\u{2713} every node proven", GOOD)
        } else {
            ("\u{2717} not proven", OUT)
        };
        Element::new("g").holding([
            Element::text(LEFT, baseline, mark)
                .with("font-weight", 600)
                .with("font-size", 13)
                .with("fill", colour),
            Element::text(RIGHT, baseline, facts.join("   \u{b7}   "))
                .with("text-anchor", "end")
                .with("fill", SOFT),
        ])
    }
}

fn legend() -> Element {
    let mut x = LEFT;
    let mut entries = Vec::new();
    let mut entry = |swatch: &dyn Fn(f64) -> Element, text: &str| {
        entries.push(swatch(x));
        entries.push(Element::text(x + 20.0, LEGEND + 11.0, text).with("fill", SOFT));
        x += 20.0 + width_of(text, 12.0) + 24.0;
    };
    for phase in Phase::ALL {
        let text = match phase {
            Phase::Fetch => "fetch (in service)",
            Phase::Drain | Phase::Apply | Phase::Reboot | Phase::Verify => phase.name(),
        };
        let swatch = |x: f64| {
            Element::rect(x, LEGEND, 14.0, 14.0)
                .with("rx", 2)
                .with("fill", colours(phase).0)
        };
        entry(&swatch, text);
    }
    let bracket = |x: f64| {
        let y = LEGEND + 9.0;
        Element::path(
            [(x, y - 5.0), (x, y), (x + 14.0, y), (x + 14.0, y - 5.0)],
            false,
        )
        .with("fill", "none")
        .with("stroke", OUT)
        .with("stroke-width", 1.5)
    };
    entry(&bracket, "out of service: cordon to uncordon");
    Element::new("g").holding(entries)
}

/// Seconds between marks of the axis: at most a dozen of them.
fn step_secs(length: SignedDuration) -> i64 {
    let steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600];
    steps
        .into_iter()
        .find(|step| length.as_secs() / step <= 12)
        .unwrap_or(1800)
}

/// `m:ss`
pub(crate) fn clock(length: SignedDuration) -> String {
    let secs = length.as_secs();
    format!("{}:{:02}", secs / 60, secs % 60)
}

fn seconds(length: SignedDuration) -> String {
    format!("{:.1} s", length.as_secs_f64())
}

/// Whether a text of this font size has room.
fn fits(text: &str, size: f64, room: f64) -> bool {
    width_of(text, size) + 8.0 <= room
}

/// About as wide as the widest of the fonts asked for draws it.
fn width_of(text: &str, size: f64) -> f64 {
    text.chars().map(|_| 0.58 * size).sum()
}

/// A count as a length.
fn real(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests;
