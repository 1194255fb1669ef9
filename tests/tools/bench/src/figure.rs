//! What is measured: names, units, targets, and one measured value. Pure.

use serde::{Serialize, Serializer};

/// In what a figure is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    /// Of memory, a file or the wire. A megabyte has a million.
    Bytes,
    /// Milliseconds.
    Ms,
    /// To the API server.
    Requests,
    /// One time divided by another.
    Ratio,
    /// Seconds: of a window of time, never of a figure.
    Seconds,
    /// Things of a kind that the text beside names.
    Count,
}

/// A figure to be measured.
#[derive(Debug, PartialEq)]
pub(crate) struct Spec {
    /// Its name in `figures.json` and on the command line.
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// The most it should be. None where it is only reported, or where the run itself decides it.
    pub(crate) target: Option<f64>,
    pub(crate) bound: Bound,
}

/// On which side of its target a figure should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Bound {
    /// The target is the most.
    Most,
    /// The target is the least.
    Least,
}

/// All figures, in the order they are shown.
pub(crate) const ALL: &[Spec] = &[
    spec("mcd_binary_bytes", Unit::Bytes, Some(12e6)),
    spec("mcd_os_binary_bytes", Unit::Bytes, Some(8e6)),
    spec("mcd_idle_anon_3", Unit::Bytes, Some(5e6)),
    spec("mcd_idle_anon_300", Unit::Bytes, Some(5e6)),
    spec("mcd_idle_anon_growth", Unit::Bytes, Some(0.5e6)),
    spec("mcd_idle_rss_300", Unit::Bytes, Some(12e6)),
    spec("mcd_os_peak_rss", Unit::Bytes, Some(64e6)),
    spec("mcd_api_start_requests", Unit::Requests, Some(2.0)),
    spec("mcd_api_start_bytes", Unit::Bytes, None),
    // A watch, of more than an hour.
    spec("mcd_api_idle_hour_requests", Unit::Requests, Some(1.0)),
    spec("mcd_api_idle_hour_bytes", Unit::Bytes, None),
    // 17, and one more for each attempt to evict.
    spec("mcd_api_update_requests", Unit::Requests, None),
    spec("mcd_api_update_bytes", Unit::Bytes, None),
    spec("mcd_rebootless_ms", Unit::Ms, Some(400.0)),
    spec("mcd_rebootless_p95_ms", Unit::Ms, Some(600.0)),
    // The floor of the same run, and the daemon's own work.
    spec("mcd_out_of_service_ms", Unit::Ms, None),
    spec("mcd_out_of_service_ratio", Unit::Ratio, Some(1.1)),
    spec("mcd_fetch_ratio", Unit::Ratio, Some(1.0)),
    spec("mcd_fetch_rootfs_ratio", Unit::Ratio, Some(1.0)),
    spec("mcd_egress_ratio", Unit::Ratio, Some(1.05)),
    spec("mcc_2000_nodes_anon_bytes", Unit::Bytes, Some(40e6)),
    spec("mcc_lists_after_first", Unit::Requests, Some(0.0)),
    spec("mcc_heartbeats_core_ratio", Unit::Ratio, None),
    spec("mcc_heartbeats_ratio", Unit::Ratio, Some(0.8)),
    spec("mcc_first_told_ms", Unit::Ms, Some(2000.0)),
    spec("mcc_requests_per_node", Unit::Requests, Some(4.0)),
    spec("mcc_rss", Unit::Bytes, Some(40e6)),
    spec("mcc_large_peak_rss", Unit::Bytes, Some(60e6)),
    spec("mcs_p99_ratio", Unit::Ratio, Some(1.0)),
    spec("pool_makespan_ratio", Unit::Ratio, Some(1.05)),
    spec("pool_decide_ms", Unit::Ms, Some(20.0)),
    spec("pool_decide_peak_bytes", Unit::Bytes, Some(20e6)),
    spec("first_round_ms", Unit::Ms, Some(2000.0)),
    spec("drain_ratio", Unit::Ratio, Some(1.2)),
    spec("cvo_binary_bytes", Unit::Bytes, Some(20e6)),
    // kubectl's time for the same files is beside it.
    spec("cvo_first_apply_ms", Unit::Ms, Some(6000.0)),
    spec("cvo_peak_rss", Unit::Bytes, Some(25e6)),
    spec("cvo_idle_writes", Unit::Requests, Some(0.0)),
    spec("cvo_idle_requests_a_kind", Unit::Requests, Some(1.0)),
    spec("cvo_report_ms", Unit::Ms, Some(2000.0)),
    spec("ota_unwaited_ratio", Unit::Ratio, None),
    at_least("update_service_ratio", Unit::Ratio, 0.7),
    spec("update_service_rss", Unit::Bytes, Some(30e6)),
    spec("update_service_scrape_cold_ms", Unit::Ms, None),
    spec("update_service_scrape_warm_ms", Unit::Ms, None),
    spec("update_service_push_ms", Unit::Ms, None),
    spec("muo_binary_bytes", Unit::Bytes, Some(15e6)),
    spec("muo_rss", Unit::Bytes, Some(15e6)),
    spec("muo_idle_requests", Unit::Requests, Some(60.0)),
    spec("muo_start_ms", Unit::Ms, Some(30_000.0)),
];

const fn spec(name: &'static str, unit: Unit, target: Option<f64>) -> Spec {
    let bound = Bound::Most;
    Spec {
        name,
        unit,
        target,
        bound,
    }
}

const fn at_least(name: &'static str, unit: Unit, target: f64) -> Spec {
    Spec {
        bound: Bound::Least,
        ..spec(name, unit, Some(target))
    }
}

/// What is known of a name, as the command line takes it.
pub(crate) fn find(name: &str) -> Result<&'static Spec, String> {
    let found = ALL.iter().find(|spec| spec.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|spec| spec.name).collect();
        format!("the figures are {}", names.join(", "))
    })
}

/// A figure that was measured: an item of `figures.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    #[serde(serialize_with = "number")]
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    /// How many measurements the value was made of.
    pub(crate) samples: usize,
    /// What it should be at most, or at least; null where there is no such number.
    #[serde(serialize_with = "optional_number")]
    pub(crate) target: Option<f64>,
    pub(crate) bound: Bound,
    /// What it was measured against, and under which conditions, in the same run.
    pub(crate) beside: Vec<Beside>,
}

/// A value that a figure is to be read beside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Beside {
    pub(crate) what: &'static str,
    #[serde(serialize_with = "number")]
    pub(crate) value: f64,
    pub(crate) unit: Unit,
}

impl Figure {
    /// A figure of one measurement, with the target of its specification.
    ///
    /// Errors: there is no figure of this name.
    pub(crate) fn new(name: &'static str, value: f64) -> anyhow::Result<Self> {
        let Spec {
            unit,
            target,
            bound,
            ..
        } = *find(name).map_err(anyhow::Error::msg)?;
        Ok(Self {
            name,
            value,
            unit,
            samples: 1,
            target,
            bound,
            beside: Vec::new(),
        })
    }

    /// Made of so many measurements.
    pub(crate) fn of(mut self, samples: usize) -> Self {
        self.samples = samples;
        self
    }

    /// With a target that only the run knows.
    pub(crate) fn at_most(mut self, target: f64) -> Self {
        self.target = Some(target);
        self
    }

    /// To be read beside this.
    pub(crate) fn beside(mut self, what: &'static str, value: f64, unit: Unit) -> Self {
        self.beside.push(Beside { what, value, unit });
        self
    }

    /// Whether the target is met; none where there is none.
    pub(crate) fn is_met(&self) -> Option<bool> {
        self.target.map(|target| match self.bound {
            Bound::Most => self.value <= target,
            Bound::Least => self.value >= target,
        })
    }
}

/// A count as an integer, a ratio or a time with at most three digits behind the point.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "whole, and far below 2^53: a count that a float holds exactly"
)]
fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let value = (value * 1e3).round() / 1e3;
    if value.fract() == 0.0 && value.abs() < 2_f64.powi(53) {
        serializer.serialize_i64(value as i64)
    } else {
        serializer.serialize_f64(value)
    }
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn optional_number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_figure_is_written_as_its_readers_expect() {
        let figure = Figure::new("mcd_out_of_service_ms", 11_250.123_456)
            .unwrap()
            .of(3)
            .at_most(12_000.0)
            .beside("the floor", 9000.0, Unit::Ms);
        let expected = json!({
            "name": "mcd_out_of_service_ms",
            "value": 11250.123,
            "unit": "ms",
            "samples": 3,
            "target": 12000,
            "bound": "most",
            "beside": [{ "what": "the floor", "value": 9000, "unit": "ms" }],
        });
        assert_eq!(serde_json::to_value(&figure).unwrap(), expected);
        let bare = Figure::new("mcd_api_start_bytes", 31_337.0).unwrap();
        let text = serde_json::to_string(&bare).unwrap();
        assert!(
            text.contains(r#""value":31337,"#) && text.contains(r#""target":null"#),
            "{text}"
        );
    }

    #[test]
    fn a_target_is_the_most_that_is_allowed() {
        let at = |value| {
            Figure::new("mcd_api_idle_hour_requests", value)
                .unwrap()
                .is_met()
        };
        assert_eq!((at(1.0), at(1.5)), (Some(true), Some(false)));
        assert_eq!(
            Figure::new("mcd_api_start_bytes", 1.0).unwrap().is_met(),
            None
        );
        let ratio = |value| Figure::new("update_service_ratio", value).unwrap().is_met();
        assert_eq!((ratio(0.69), ratio(0.7)), (Some(false), Some(true)));
    }

    #[test]
    fn no_two_figures_share_a_name() {
        for (index, spec) in ALL.iter().enumerate() {
            assert_eq!(
                ALL.iter().position(|other| other.name == spec.name),
                Some(index)
            );
        }
        assert!(find("mcd_no_such").unwrap_err().contains("mcd_fetch_ratio"));
    }
}
