//! A response that is one sample of 1 or 0.

use serde_json::Value;

use super::partial::{self, PartialResponse};

/// Why a response is no sample of 1 or 0.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSample {
    #[error("the answer is no JSON")]
    Json(#[source] serde_json::Error),
    #[error("the query failed: {reason}")]
    Failed { reason: String },
    #[error(transparent)]
    Partial(#[from] PartialResponse),
    #[error("invalid PromQL result type is {kind:?}, not vector")]
    Kind { kind: String },
    #[error("invalid PromQL result (must be 0 or 1): {value}")]
    Value { value: String },
    #[error("invalid PromQL result length must be one, but is {count}")]
    Length { count: usize },
}

/// Reads the response of the cluster's metrics: one sample, 1 or 0.
///
/// # Errors
/// It is no such response.
pub fn read(body: &[u8]) -> Result<bool, InvalidSample> {
    let response: Value = serde_json::from_slice(body).map_err(InvalidSample::Json)?;
    let text = |pointer| response.pointer(pointer).and_then(Value::as_str);
    if text("/status") != Some("success") {
        let reason = text("/error").unwrap_or("no reason").to_owned();
        return Err(InvalidSample::Failed { reason });
    }
    partial::check_whole(&response)?;
    if text("/data/resultType") != Some("vector") {
        let kind = text("/data/resultType").unwrap_or_default().to_owned();
        return Err(InvalidSample::Kind { kind });
    }
    let samples = response.pointer("/data/result").and_then(Value::as_array);
    match samples.map(Vec::as_slice) {
        Some([sample]) => {
            let value = sample.pointer("/value/1").and_then(Value::as_str);
            match value.map(|value| (value, value.parse::<f64>())) {
                Some((_, Ok(1.0))) => Ok(true),
                Some((_, Ok(0.0))) => Ok(false),
                value => Err(InvalidSample::Value {
                    value: value.map_or("none", |(value, _)| value).to_owned(),
                }),
            }
        }
        samples => Err(InvalidSample::Length {
            count: samples.map_or(0, <[Value]>::len),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn answer_is_one_sample_of_one_or_zero() {
        let vector = |values: &[&str]| {
            let samples = values
                .iter()
                .map(|value| json!({ "metric": {}, "value": [1, value] }));
            let samples: Vec<Value> = samples.collect();
            json!({ "status": "success", "data": { "resultType": "vector", "result": samples } })
        };
        let partial = |values: &[&str]| {
            let mut response = vector(values);
            response["warnings"] = json!(["store 10.0.0.7:10901 is away"]);
            response
        };
        let read = |response: Value| super::read(response.to_string().as_bytes());
        assert!(read(vector(&["1"])).unwrap());
        assert!(!read(vector(&["0"])).unwrap());
        for (response, expected) in [
            (vector(&["2"]), "must be 0 or 1): 2"),
            (vector(&["1", "1"]), "must be one, but is 2"),
            (vector(&[]), "must be one, but is 0"),
            (
                partial(&["1"]),
                "may be partial: store 10.0.0.7:10901 is away",
            ),
            (partial(&["0"]), "may be partial"),
            (
                json!({
                    "status": "error", "errorType": "bad_data",
                    "error": "invalid parameter \"query\": 1:5: parse error: unclosed left parenthesis",
                }),
                "the query failed: invalid parameter \"query\": 1:5: parse error: unclosed left",
            ),
            (
                json!({ "status": "success", "data": { "resultType": "scalar" } }),
                "\"scalar\", not vector",
            ),
        ] {
            let why = read(response).unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
        }
        assert!(super::read(b"<html>").is_err());
    }
}
