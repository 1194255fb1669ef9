//! The timeline as a picture: groups of lanes under their titles, time from left to right.

use display::svg::Element;
use jiff::Timestamp;

use super::{LaneGroup, LaneKind, LaneMark, LaneSpan, TimelineLane, UpdatePart, UpdateTimeline};
use crate::decide::blocks::duration;

const WIDTH: f64 = 1200.0;
/// Where time begins: right of the names.
const LEFT: f64 = 250.0;
const RIGHT: f64 = WIDTH - 36.0;
const MARGIN: f64 = 24.0;
/// Title, time of the start, and the texts of lines through all lanes.
const TOP: f64 = 112.0;
const LANE: f64 = 24.0;
const BAR: f64 = 15.0;
/// Title of a group, and the space before it.
const TITLE: f64 = 30.0;
/// How much of the title's height nodes out of service take.
const OUT: f64 = 14.0;
/// Width of a character of the small font, about.
const CHARACTER: f64 = 6.3;

const INK: &str = "#1f2933";
const SOFT: &str = "#5b6875";
const HAIR: &str = "#e3e8ee";
const BAND: &str = "#f5f7fa";
const BAD: &str = "#b4423c";
const GOOD: &str = "#3f9b6e";
const FORECAST: &str = "#eee6f7";

/// Fill, and dashes of the frame: parts differ without colours, too.
const fn looks(part: UpdatePart) -> (&'static str, &'static str) {
    match part {
        UpdatePart::Progress => ("#c5d9f1", "none"),
        UpdatePart::Fetch => ("#ffffff", "2 2"),
        UpdatePart::Drain => ("#f7cf8e", "6 2"),
        UpdatePart::Reboot => ("#e79a93", "none"),
    }
}

pub(crate) fn draw(timeline: &UpdateTimeline) -> Element {
    let scale = Scale(timeline);
    let height_of = |group: &LaneGroup| {
        let lanes = group.lanes.iter().map(|_| LANE).sum::<f64>();
        TITLE + lanes
    };
    let bottom = TOP + timeline.groups.iter().map(height_of).sum::<f64>() + 8.0;
    let height = bottom + 76.0;
    let started = timeline.started.strftime("%Y-%m-%d %H:%M:%S UTC");
    let mut document = Element::document(WIDTH, height)
        .with("font-family", "'DejaVu Sans', 'Noto Sans', sans-serif")
        .with("font-size", 12)
        .with("fill", INK)
        .holding([
            Element::rect(0.0, 0.0, WIDTH, height).with("fill", "#ffffff"),
            Element::text(MARGIN, 36.0, format!("Update {}", timeline.head()))
                .with("font-size", 18)
                .with("font-weight", 600),
            Element::text(MARGIN, 58.0, format!("Started {started}")).with("fill", SOFT),
        ])
        .holding(scale.forecast(bottom));
    let mut y = TOP;
    let mut stripes = Vec::new();
    for group in &timeline.groups {
        y += TITLE;
        for (number, _) in group.lanes.iter().enumerate() {
            if number % 2 == 0 {
                let stripe = Element::rect(MARGIN, y - 4.0, WIDTH - MARGIN - 12.0, LANE);
                stripes.push(stripe.with("fill", BAND));
            }
            y += LANE;
        }
    }
    document = document.holding(stripes).holding(scale.axis(bottom));
    let mut y = TOP;
    for group in &timeline.groups {
        document = document.holding([scale.group(y, group)]);
        y += TITLE;
        for lane in &group.lanes {
            document = document.holding([scale.lane(y, group.kind, lane)]);
            y += LANE;
        }
    }
    document
        .holding(scale.lines(bottom))
        .holding([legend(bottom + 52.0)])
}

/// Places of moments.
struct Scale<'a>(&'a UpdateTimeline);

impl Scale<'_> {
    /// The last moment of the picture: a forecast is in it.
    fn last(&self) -> Timestamp {
        let ends = self.0.forecast.map(|(_, most)| most);
        ends.unwrap_or(self.0.until).max(self.0.until)
    }

    fn length(&self) -> f64 {
        let length = self.last().duration_since(self.0.started);
        length.as_secs_f64().max(1.0)
    }

    fn x(&self, at: Timestamp) -> f64 {
        let share = at.duration_since(self.0.started).as_secs_f64() / self.length();
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    }

    /// Marks of time, at most a dozen.
    fn axis(&self, bottom: f64) -> Vec<Element> {
        const STEPS: [i64; 12] = [1, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200];
        let length = self.last().as_second() - self.0.started.as_second();
        let step = STEPS.into_iter().find(|step| length / step <= 12);
        let step = step.unwrap_or((length / 12 / 14_400 + 1) * 14_400);
        let mut marks = Vec::new();
        let mut passed = 0;
        while passed <= length {
            let at = Timestamp::from_second(self.0.started.as_second() + passed);
            let x = self.x(at.unwrap_or(self.0.started));
            marks.push(Element::line((x, TOP), (x, bottom)).with("stroke", HAIR));
            marks.push(
                Element::text(x, bottom + 16.0, duration(passed).replace("now", "0"))
                    .with("text-anchor", "middle")
                    .with("font-size", 11)
                    .with("fill", SOFT),
            );
            passed += step;
        }
        marks
    }

    /// When it is over: the band between half of all cases and nine of ten.
    fn forecast(&self, bottom: f64) -> Vec<Element> {
        let Some((half, most)) = self.0.forecast else {
            return Vec::new();
        };
        let (left, right) = (self.x(half), self.x(most));
        let shown = |at: Timestamp| at.strftime("%H:%M").to_string();
        let text = if shown(half) == shown(most) {
            format!("over about {}", shown(half))
        } else {
            format!(
                "over between {} (p50) and {} (p90)",
                shown(half),
                shown(most)
            )
        };
        vec![
            Element::rect(left, TOP, (right - left).max(3.0), bottom - TOP)
                .with("fill", FORECAST)
                .explained(text.clone()),
            label(RIGHT, TOP - 24.0, &text).with("text-anchor", "end"),
        ]
    }

    /// When the control plane was done, and the present of an update that goes on.
    fn lines(&self, bottom: f64) -> Vec<Element> {
        let line = |at: Timestamp, dashes: &'static str, colour: &'static str, text: String| {
            let x = self.x(at);
            // A text at the edge is moved into the picture.
            let half = CHARACTER / 2.0 * width_of(&text);
            let middle = x.clamp(LEFT + half, RIGHT - half);
            [
                Element::line((x, TOP), (x, bottom))
                    .with("stroke", colour)
                    .with("stroke-dasharray", dashes)
                    .explained(text.clone()),
                label(middle, TOP - 6.0, &text)
                    .with("text-anchor", "middle")
                    .with("fill", colour),
            ]
        };
        let after = |at: Timestamp| duration(at.as_second() - self.0.started.as_second());
        let mut lines = Vec::new();
        if let Some(completed) = self.0.completed {
            let text = format!("control plane done, {}", after(completed));
            lines.extend(line(completed, "4 3", INK, text));
        }
        if self.0.is_open() {
            lines.extend(line(self.0.until, "1 2", BAD, "now".to_owned()));
        }
        lines
    }

    /// Title of a group; of a pool, also how many of its nodes were out of service, and may be.
    fn group(&self, top: f64, group: &LaneGroup) -> Element {
        let base = top + TITLE - 10.0;
        let title = Element::text(MARGIN, base, group.title.as_str()).with("font-weight", 600);
        let mut shown = Element::new("g").holding([title]);
        if group.kind == LaneKind::Operator {
            return shown;
        }
        let levels = out_of_service(group, self.0.until);
        let peak = levels.iter().map(|(_, count)| *count).max();
        let peak = peak.unwrap_or_default();
        let most = peak.max(group.at_once.unwrap_or(1)).max(1);
        let y = |count: usize| base - OUT * ratio(count, most);
        let mut points = vec![(self.x(self.0.started), base)];
        let mut last = 0;
        for (at, count) in levels {
            let x = self.x(at);
            points.extend([(x, y(last)), (x, y(count))]);
            last = count;
        }
        points.push((self.x(self.0.until), y(last)));
        points.push((self.x(self.0.until), base));
        let text = match group.at_once {
            Some(limit) => format!("at most {peak} out at once, {limit} may be"),
            None => format!("at most {peak} out at once"),
        };
        shown = shown.holding([Element::path(points, true)
            .with("fill", "#d5dbe2")
            .with("stroke", "none")
            .explained(format!("{}: {text}", group.title))]);
        if let Some(limit) = group.at_once {
            shown = shown.holding([Element::line((LEFT, y(limit)), (RIGHT, y(limit)))
                .with("stroke", SOFT)
                .with("stroke-dasharray", "2 3")
                .explained(format!("{}: {limit} may be out at once", group.title))]);
        }
        let note = label(LEFT - 12.0, base, &format!("{peak} of {most} out"));
        shown.holding([note.with("text-anchor", "end").with("fill", SOFT)])
    }

    fn lane(&self, top: f64, kind: LaneKind, lane: &TimelineLane) -> Element {
        let kind = match kind {
            LaneKind::Operator => "operator",
            LaneKind::Node => "node",
        };
        let name = Element::text(LEFT - 12.0, top + 12.0, short(&lane.name))
            .with("text-anchor", "end")
            .explained(match &lane.of {
                Some(names) => names.clone(),
                None => format!("{kind} {}", lane.name),
            });
        Element::new("g")
            .holding([name])
            .holding(lane.spans.iter().map(|span| self.bar(top, lane, span)))
            .holding(lane.marks.iter().map(|mark| self.mark(top, lane, mark)))
    }

    fn bar(&self, top: f64, lane: &TimelineLane, span: &LaneSpan) -> Element {
        let (fill, dashes) = looks(span.part);
        let end = span.end.unwrap_or(self.0.until);
        let (left, right) = (self.x(span.start), self.x(end));
        let took = duration(end.as_second() - span.start.as_second()).replace("now", "0s");
        let open = if span.end.is_none() { ", goes on" } else { "" };
        let name = span.part.name();
        let bar = Element::rect(left, top, (right - left).max(1.5), BAR)
            .with("fill", fill)
            .with("stroke", INK)
            .with("stroke-width", 0.8)
            .with("stroke-dasharray", dashes);
        // A bar is as long as what it shows; its length in words where there is room for it.
        let has_room = right - left > CHARACTER * (width_of(&took) + 2.0);
        let words = has_room.then(|| {
            label(f64::midpoint(left, right), top + 11.5, &took).with("text-anchor", "middle")
        });
        Element::new("g")
            .holding([bar])
            .holding(words)
            .explained(format!("{}: {name}, {took}{open}", lane.name))
    }

    fn mark(&self, top: f64, lane: &TimelineLane, mark: &LaneMark) -> Element {
        let x = self.x(mark.at);
        // A warning stands above what it happened in, whose length stays readable.
        let middle = if mark.is_warning {
            top - 1.0
        } else {
            top + BAR / 2.0
        };
        let diamond = [
            (x, middle - 6.0),
            (x + 6.0, middle),
            (x, middle + 6.0),
            (x - 6.0, middle),
        ];
        let fill = if mark.is_warning { BAD } else { GOOD };
        Element::path(diamond, true)
            .with("fill", fill)
            .with("stroke", "#ffffff")
            .explained(format!(
                "{}: {}, {}",
                lane.name,
                mark.text,
                mark.at.strftime("%H:%M:%S")
            ))
    }
}

/// How many nodes of a pool are out of service from when on.
fn out_of_service(group: &LaneGroup, until: Timestamp) -> Vec<(Timestamp, usize)> {
    let mut changes: Vec<(Timestamp, bool)> = Vec::new();
    for lane in &group.lanes {
        let out: Vec<&LaneSpan> = lane
            .spans
            .iter()
            .filter(|span| matches!(span.part, UpdatePart::Drain | UpdatePart::Reboot))
            .collect();
        for (number, span) in out.iter().enumerate() {
            let follows = number.checked_sub(1).and_then(|before| out.get(before));
            if follows.is_none_or(|before| before.end != Some(span.start)) {
                changes.push((span.start, true));
            }
            let next = out.get(number + 1);
            if next.is_none_or(|next| span.end != Some(next.start)) {
                changes.push((span.end.unwrap_or(until), false));
            }
        }
    }
    // A node that returns when another leaves was not out beside it.
    changes.sort_unstable();
    let mut count: usize = 0;
    changes
        .into_iter()
        .map(|(at, is_out)| {
            count = if is_out {
                count + 1
            } else {
                count.saturating_sub(1)
            };
            (at, count)
        })
        .collect()
}

fn label(x: f64, y: f64, text: &str) -> Element {
    Element::text(x, y, text).with("font-size", 11)
}

/// A name that fits left of the bars; the tooltip has all of it.
fn short(name: &str) -> String {
    const MOST: usize = 30;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    let start: String = name.chars().take(MOST - 1).collect();
    format!("{start}…")
}

#[expect(clippy::cast_precision_loss, reason = "characters of a short text")]
fn width_of(text: &str) -> f64 {
    text.chars().count() as f64
}

#[expect(clippy::cast_precision_loss, reason = "a number of nodes")]
fn ratio(part: usize, all: usize) -> f64 {
    part as f64 / all as f64
}

fn legend(y: f64) -> Element {
    let entries = [
        (UpdatePart::Progress, "operator changes"),
        (UpdatePart::Fetch, "fetch (in service)"),
        (UpdatePart::Drain, "drain and apply"),
        (UpdatePart::Reboot, "reboot and verify"),
    ];
    let mut x = LEFT;
    let mut shown = Vec::new();
    for (part, text) in entries {
        let (fill, dashes) = looks(part);
        shown.push(
            Element::rect(x, y - 11.0, 14.0, 14.0)
                .with("fill", fill)
                .with("stroke", INK)
                .with("stroke-width", 0.8)
                .with("stroke-dasharray", dashes),
        );
        shown.push(label(x + 20.0, y, text).with("fill", SOFT));
        x += 160.0;
    }
    for (fill, text) in [(GOOD, "done"), (BAD, "warning")] {
        let diamond = [
            (x, y - 10.0),
            (x + 6.0, y - 4.0),
            (x, y + 2.0),
            (x - 6.0, y - 4.0),
        ];
        shown.push(Element::path(diamond, true).with("fill", fill));
        shown.push(label(x + 14.0, y, text).with("fill", SOFT));
        x += 90.0;
    }
    Element::new("g").holding(shown)
}
