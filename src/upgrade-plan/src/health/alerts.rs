//! Which alerts fire: queries to Prometheus, and what its responses say.

use release::prometheus::partial::PartialResponse;
use serde_json::Value;

use crate::config::OperatorConfig;

/// Alerts of this operator: they must not hold what they report on.
pub const OWN_ALERTS: [&str; 5] = [
    "UpgradeConfigValidationFailedSRE",
    "UpgradeClusterCheckFailedSRE",
    "UpgradeControlPlaneUpgradeTimeoutSRE",
    "UpgradeNodeUpgradeTimeoutSRE",
    "UpgradeNodeDrainFailedSRE",
];

/// Why the alerts that fire cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Prometheus refuses the query, with its reason.
    #[error("{status}: {reason}")]
    Refused {
        status: http::StatusCode,
        reason: String,
    },
    /// What responds is no Prometheus.
    #[error("{status}, and the answer is no JSON")]
    NoJson {
        status: http::StatusCode,
        /// What the body is not.
        source: serde_json::Error,
    },
    /// Prometheus warns that samples may be missing.
    #[error(transparent)]
    Partial(#[from] PartialResponse),
    /// The response holds no result.
    #[error("the answer has no data.result")]
    NoResult,
    /// A sample is none of an alert.
    #[error("a sample has no alertname")]
    NoName,
    /// Prometheus scrapes nothing.
    #[error("Prometheus has no data: no target is up")]
    NoData,
}

/// The query for alerts that hold an upgrade.
pub fn alert_query(config: &OperatorConfig) -> String {
    use std::fmt::Write as _;
    let mut query = String::from(
        "ALERTS{alertstate=\"firing\",severity=\"critical\",\
         namespace=~\"^openshift.*|^kube-.*|^default$\"",
    );
    let excluded = [
        ("namespace", &config.ignored_namespaces),
        ("alertname", &config.ignored_criticals),
    ];
    for (label, values) in excluded {
        for value in values {
            let value = value.replace('\\', r"\\").replace('"', "\\\"");
            if write!(query, ",{label}!=\"{value}\"").is_err() {
                // Writing to a String cannot fail.
                break;
            }
        }
    }
    query.push('}');
    query
}

/// The query for servers that are scraped. Where none is, no alert can fire.
pub const SCRAPED_QUERY: &str = "count(up == 1)";

/// Whether Prometheus scrapes anything, so that silence means health.
///
/// # Errors
/// [`Error::NoData`], or what keeps the response from being read.
pub fn check_scraped(status: http::StatusCode, body: &[u8]) -> Result<(), Error> {
    if read_result(status, body)?.is_empty() {
        return Err(Error::NoData);
    }
    Ok(())
}

/// Reads which alerts fire, but for this operator's own. What is no response of Prometheus is
/// no "none".
///
/// # Errors
/// [`Error`].
pub fn read_alerts(status: http::StatusCode, body: &[u8]) -> Result<Vec<String>, Error> {
    let mut names = read_all_alerts(status, body)?;
    names.retain(|name| !OWN_ALERTS.contains(&name.as_str()));
    Ok(names)
}

/// Reads the names of all alerts of a response, each once, by name.
///
/// # Errors
/// As of [`read_alerts`].
pub fn read_all_alerts(status: http::StatusCode, body: &[u8]) -> Result<Vec<String>, Error> {
    let result = read_result(status, body)?;
    let mut names = Vec::new();
    for sample in &result {
        let name = sample.pointer("/metric/alertname").and_then(Value::as_str);
        names.push(name.ok_or(Error::NoName)?.to_owned());
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The samples of a response.
fn read_result(status: http::StatusCode, body: &[u8]) -> Result<Vec<Value>, Error> {
    let response: Value =
        serde_json::from_slice(body).map_err(|source| Error::NoJson { status, source })?;
    let text = |pointer: &str| response.pointer(pointer).and_then(Value::as_str);
    if !status.is_success() || text("/status") != Some("success") {
        let reason = text("/error").unwrap_or("no reason given").to_owned();
        return Err(Error::Refused { status, reason });
    }
    release::prometheus::partial::check_whole(&response)?;
    let result = response.pointer("/data/result").and_then(Value::as_array);
    let result = result.ok_or(Error::NoResult)?;
    Ok(result.clone())
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;
    use crate::fixture::config;

    #[test]
    fn query_leaves_out_what_is_ignored() {
        let query = alert_query(&config(""));
        let expected = "ALERTS{alertstate=\"firing\",severity=\"critical\",\
                        namespace=~\"^openshift.*|^kube-.*|^default$\"}";
        assert_eq!(query, expected);
        let config = config("healthCheck: {ignoredNamespaces: [a, b], ignoredCriticals: ['C\"']}");
        let query = alert_query(&config);
        assert!(
            query.ends_with(",namespace!=\"a\",namespace!=\"b\",alertname!=\"C\\\"\"}"),
            "{query}"
        );
    }

    #[test]
    fn what_is_no_answer_of_prometheus_is_no_healthy_cluster() {
        let result = |names: &[&str]| {
            let samples: Vec<Value> = names
                .iter()
                .map(|name| json!({ "metric": { "alertname": name }, "value": [0, "1"] }))
                .collect();
            json!({ "status": "success", "data": { "resultType": "vector", "result": samples } })
        };
        let ok = |body: Value| {
            let read = read_alerts(StatusCode::OK, body.to_string().as_bytes());
            read.map_err(|error| error.to_string())
        };
        assert_eq!(ok(result(&[])), Ok(vec![]));
        assert_eq!(
            ok(result(&["B", "A", "B"])),
            Ok(vec!["A".to_owned(), "B".to_owned()])
        );
        assert_eq!(ok(result(&["UpgradeNodeDrainFailedSRE"])), Ok(vec![]));
        for (status, body) in [
            (
                StatusCode::OK,
                json!({ "status": "error", "error": "parse error" }),
            ),
            (StatusCode::OK, json!({})),
            (StatusCode::OK, json!({ "status": "success", "data": {} })),
            (StatusCode::OK, json!("x")),
            (StatusCode::FORBIDDEN, result(&[])),
            (StatusCode::BAD_GATEWAY, json!(null)),
        ] {
            let found = read_alerts(status, body.to_string().as_bytes());
            assert!(found.is_err(), "{status} {body}");
        }
        assert!(read_alerts(StatusCode::OK, b"<html>").is_err());
        let with = |key: &str| {
            let mut response = result(&[]);
            response[key] = json!(["store 10.0.0.7:10901 is away"]);
            response
        };
        let partial = "the answer may be partial: store 10.0.0.7:10901 is away";
        assert_eq!(ok(with("warnings")), Err(partial.to_owned()));
        assert_eq!(ok(with("infos")), Ok(vec![]));
        let scraped = |body: Value| check_scraped(StatusCode::OK, body.to_string().as_bytes());
        assert!(scraped(result(&["any"])).is_ok());
        let error = scraped(result(&[])).unwrap_err();
        assert_eq!(error.to_string(), "Prometheus has no data: no target is up");
        let error = ok(json!({ "status": "error", "error": "parse error" })).unwrap_err();
        assert_eq!(error, "200 OK: parse error");
    }
}
