//! Requests to the registry, from its log.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One answered request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// When its response began to be made.
    pub started: Timestamp,
    /// When the last byte was handed over, or the asker was gone.
    pub finished: Timestamp,
    /// Such as `GET`.
    pub method: String,
    /// Path with query, such as `/v2/os/blobs/sha256:…`.
    pub path: String,
    /// HTTP status of the response.
    pub status: u16,
    /// Bytes of the response's body that were written.
    pub bytes: u64,
    /// The client; a host has its address.
    pub remote: IpAddr,
    /// What it asked with.
    pub user_agent: String,
}

impl Request {
    /// Whether bytes of an image's layers or configuration were fetched.
    pub fn is_blob_fetch(&self) -> bool {
        self.method == "GET" && self.path.contains("/blobs/sha256:") && self.status < 400
    }

    /// Whether an image's manifest was fetched.
    pub fn is_manifest_fetch(&self) -> bool {
        self.method == "GET" && self.path.contains("/manifests/") && self.status < 400
    }
}

/// A line of the log that ends a request.
///
/// Source: distribution 2.8, `context.GetResponseLogger`, with the JSON formatter.
#[derive(Debug, Deserialize)]
struct Line {
    time: Timestamp,
    #[serde(rename = "http.request.method")]
    method: String,
    #[serde(rename = "http.request.uri")]
    path: String,
    #[serde(rename = "http.request.remoteaddr")]
    remote: SocketAddr,
    #[serde(rename = "http.request.useragent", default)]
    user_agent: String,
    #[serde(rename = "http.response.status")]
    status: u16,
    #[serde(rename = "http.response.written")]
    bytes: u64,
    #[serde(rename = "http.response.duration")]
    duration: String,
}

/// Reads the log's text. Lines that end no request are passed over, also a last one that is not
/// complete yet.
///
/// # Errors
///
/// A line that ends a request has another form.
pub fn parse(text: &str) -> Result<Vec<Request>> {
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n') && line.contains("\"response completed"))
        .map(|line| request(line).with_context(|| format!("cannot read the line {line}")))
        .collect()
}

fn request(line: &str) -> Result<Request> {
    let line: Line = serde_json::from_str(line)?;
    let duration = go_duration(&line.duration)
        .with_context(|| format!("{:?} is no duration", line.duration))?;
    Ok(Request {
        started: line.time - duration,
        finished: line.time,
        method: line.method,
        path: line.path,
        status: line.status,
        bytes: line.bytes,
        remote: line.remote.ip(),
        user_agent: line.user_agent,
    })
}

/// Reads what Go prints for a duration: `763.417µs`, `1m2.5s`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let (number, tail) = rest.split_at(digits);
        let end = tail
            .find(|char: char| char.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let secs = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(number.parse::<f64>().ok()? * secs).ok()?;
        rest = tail;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Real lines of docker-registry 2.8.2, shortened: a start, a response, an error.
    const LOG: &str = r#"{"level":"info","msg":"listening on 10.97.0.1:5000","time":"2026-11-21T19:44:27.125521303Z"}
{"http.request.method":"GET","http.request.remoteaddr":"10.97.0.10:46744","http.request.uri":"/v2/os/blobs/sha256:aa","http.request.useragent":"skopeo/1.9.3","http.response.duration":"1.5s","http.response.status":200,"http.response.written":2000,"level":"info","msg":"response completed","time":"2026-11-21T19:44:28.5Z"}
{"err.code":"blob unknown","http.request.method":"GET","http.request.remoteaddr":"10.97.0.10:46770","http.request.uri":"/v2/os/blobs/sha256:bb","http.request.useragent":"skopeo/1.9.3","http.response.duration":"863.877µs","http.response.status":404,"http.response.written":157,"level":"error","msg":"response completed with error","time":"2026-11-21T19:44:29Z"}
{"level":"info","msg":"response completed","ti"#;

    #[test]
    fn requests_are_read_with_their_begin() {
        let requests = parse(LOG).unwrap();
        assert_eq!(requests.len(), 2);
        assert!(requests[0].is_blob_fetch());
        assert_eq!(requests[0].bytes, 2000);
        assert_eq!(requests[0].started, "2026-11-21T19:44:27Z".parse().unwrap());
        assert_eq!(requests[0].remote, "10.97.0.10".parse::<IpAddr>().unwrap());
        assert!(!requests[1].is_blob_fetch());
    }

    #[test]
    fn durations_of_go_are_read() {
        assert_eq!(
            go_duration("863.877µs"),
            Some(Duration::from_nanos(863_877))
        );
        assert_eq!(
            go_duration("1h2m3.5s"),
            Some(Duration::from_millis(3_723_500))
        );
        assert_eq!(go_duration("3 parsecs"), None);
    }
}
