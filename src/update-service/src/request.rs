//! What a request asks for.

use std::collections::BTreeMap;

use http::{HeaderMap, StatusCode, header};
use serde_json::json;
use update_graph::channel_file::{CHANNEL_PATTERN, is_channel_name};

/// The vendor's type of a graph: what clients get that name none.
pub const VENDOR_TYPE: &str = "application/vnd.redhat.cincinnati.v1+json";

pub const JSON: &str = "application/json";

/// Pattern of architectures.
const ARCHITECTURE_PATTERN: &str = "^[0-9a-z]+$";

/// Architecture of a request that names none.
const ARCHITECTURE: &str = "amd64";

/// A form of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GraphForm {
    /// JSON, under the vendor's type.
    Vendor,
    Json,
    Page,
    Svg,
    Dot,
}

impl GraphForm {
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Vendor => VENDOR_TYPE,
            Self::Json => JSON,
            Self::Page => "text/html; charset=utf-8",
            Self::Svg => "image/svg+xml",
            Self::Dot => "text/vnd.graphviz; charset=utf-8",
        }
    }

    /// The forms, in the order of preference where a client has none.
    const ALL: [(&'static str, Self); 5] = [
        (JSON, Self::Json),
        (VENDOR_TYPE, Self::Vendor),
        ("text/html", Self::Page),
        ("image/svg+xml", Self::Svg),
        ("text/vnd.graphviz", Self::Dot),
    ];
}

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceError {
    /// Parameters are missing.
    MissingParams(Vec<String>),
    InvalidParams(String),
    /// No form is left.
    InvalidContentType,
    /// There is no such thing.
    DoesNotExist(String),
    /// No path takes the method.
    Method,
    /// There is no graph yet.
    NotBuilt(String),
    /// Another drawing is made at this time.
    Busy,
    /// A response could not be built.
    Internal(String),
}

impl ServiceError {
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::MissingParams(_) | Self::InvalidParams(_) => StatusCode::BAD_REQUEST,
            Self::InvalidContentType => StatusCode::NOT_ACCEPTABLE,
            Self::DoesNotExist(_) => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotBuilt(_) | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub const fn kind(&self) -> &'static str {
        match self {
            Self::MissingParams(_) => "missing_params",
            Self::InvalidParams(_) => "invalid_params",
            Self::InvalidContentType => "invalid_content_type",
            Self::DoesNotExist(_) => "does_not_exist",
            Self::Method => "method_not_allowed",
            Self::NotBuilt(_) => "failed_upstream_fetch",
            Self::Busy => "drawing_busy",
            Self::Internal(_) => "failed_json_out",
        }
    }

    /// The body that reports it.
    pub fn body(&self) -> String {
        let value = match self {
            Self::MissingParams(names) => {
                format!("mandatory client parameters missing: {}", names.join(", "))
            }
            Self::InvalidParams(why) => format!("invalid client parameters: {why}"),
            Self::InvalidContentType => "invalid Content-Type requested".to_owned(),
            Self::DoesNotExist(what) => format!("does not exist: {what}"),
            Self::Method => "only GET, HEAD and OPTIONS are answered".to_owned(),
            Self::NotBuilt(why) => format!("no graph has been built yet: {why}"),
            Self::Busy => "another drawing is being made: request it again".to_owned(),
            Self::Internal(why) => why.clone(),
        };
        json!({ "kind": self.kind(), "value": value }).to_string()
    }
}

/// The parameters of a query; of those that are there twice the last counts.
pub fn parameters(query: Option<&str>) -> BTreeMap<String, String> {
    let pairs = query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    });
    pairs.collect()
}

/// Undoes the encoding of a query. What is no valid escape stays.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(byte) = rest.next().copied() {
        let hex = || {
            let digits = rest.as_slice().get(..2)?;
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        };
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => match hex() {
                Some(value) => {
                    bytes.push(value);
                    rest.nth(1);
                }
                None => bytes.push(b'%'),
            },
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Channel and architecture of a request for a graph.
///
/// # Errors
/// Parameters are missing or wrong.
pub fn channel<'a>(
    parameters: &'a BTreeMap<String, String>,
    mandatory: &[String],
) -> Result<(&'a str, &'a str), ServiceError> {
    let given = |name: &str| parameters.get(name).map(String::as_str);
    let missing = mandatory.iter().filter(|name| given(name).is_none());
    let mut missing: Vec<String> = missing.cloned().collect();
    if !missing.is_empty() {
        missing.sort();
        return Err(ServiceError::MissingParams(missing));
    }
    let invalid = |name: &str, value: &str, pattern: &str| {
        let why = format!("{name} '{value}' does not match regex '{pattern}'");
        Err(ServiceError::InvalidParams(why))
    };
    let channel = given("channel").unwrap_or_default();
    if given("channel").is_some() && !is_channel_name(channel) {
        return invalid("channel", channel, CHANNEL_PATTERN);
    }
    let architecture = given("arch").unwrap_or(ARCHITECTURE);
    let is_word = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    if architecture.is_empty() || !architecture.bytes().all(is_word) {
        return invalid("arch", architecture, ARCHITECTURE_PATTERN);
    }
    Ok((channel, architecture))
}

/// The form that a client prefers.
///
/// # Errors
/// It accepts none.
pub fn form(headers: &HeaderMap) -> Result<GraphForm, ServiceError> {
    let Some(accepted) = listed(headers, header::ACCEPT) else {
        return Ok(GraphForm::Vendor);
    };
    // The most exact range of a form decides about it; the highest quality wins, then the order of
    // the client's ranges.
    let mut best: Option<((u16, usize), GraphForm)> = None;
    for (name, form) in GraphForm::ALL {
        let (main, _) = name.split_once('/').unwrap_or((name, ""));
        let exactness = |range: &str| match range {
            range if range.eq_ignore_ascii_case(name) => Some(2),
            "*/*" | "*" => Some(0),
            range => range.strip_suffix("/*").filter(|of| *of == main).map(|_| 1),
        };
        let ranges = accepted.iter().enumerate();
        let ranges =
            ranges.filter_map(|(at, (range, quality))| Some((exactness(range)?, at, *quality)));
        let Some((_, at, quality)) = ranges.max_by_key(|(exact, at, _)| (*exact, usize::MAX - at))
        else {
            continue;
        };
        let rank = (quality, usize::MAX - at);
        if quality > 0 && best.as_ref().is_none_or(|(highest, _)| rank > *highest) {
            best = Some((rank, form));
        }
    }
    best.map(|(_, form)| form)
        .ok_or(ServiceError::InvalidContentType)
}

/// Whether a client takes gzip.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = listed(headers, header::ACCEPT_ENCODING).unwrap_or_default();
    let quality = |wanted: &str| {
        let found = accepted
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, quality)| *quality)
    };
    quality("gzip")
        .or_else(|| quality("*"))
        .is_some_and(|quality| quality > 0)
}

/// Whether a client has the body of this tag.
pub fn has(headers: &HeaderMap, tag: &str) -> bool {
    let cached = listed(headers, header::IF_NONE_MATCH).unwrap_or_default();
    cached
        .iter()
        .any(|(cached, _)| cached == "*" || cached.trim_start_matches("W/") == tag)
}

/// The members of a list header, with their quality in thousandths; none without the header.
fn listed(headers: &HeaderMap, name: header::HeaderName) -> Option<Vec<(String, u16)>> {
    let values: Vec<&str> = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    if values.iter().all(|value| value.trim().is_empty()) {
        return None;
    }
    let members = values
        .iter()
        .flat_map(|value| value.split(','))
        .map(|member| {
            let mut parts = member.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_owned();
            let quality =
                parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            (name, quality.map_or(1000, thousandths))
        });
    Some(members.filter(|(name, _)| !name.is_empty()).collect())
}

/// A quality such as `0.5`; what is none is 0.
fn thousandths(text: &str) -> u16 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    match whole {
        "1" => 1000,
        "0" if is_number => format!("{part:0<3}").parse().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        [(name, HeaderValue::from_str(value).unwrap())]
            .into_iter()
            .collect()
    }

    #[test]
    fn accept_is_a_list_with_qualities() {
        use GraphForm::{Dot, Json, Page, Svg, Vendor};
        assert_eq!(form(&HeaderMap::new()), Ok(Vendor));
        for (accept, expected) in [
            ("", Some(Vendor)),
            ("*", Some(Json)),
            ("*/*", Some(Json)),
            ("application/*", Some(Json)),
            ("application/json", Some(Json)),
            ("application/vnd.redhat.cincinnati.v1+json", Some(Vendor)),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                Some(Page),
            ),
            ("image/svg+xml", Some(Svg)),
            ("text/vnd.graphviz", Some(Dot)),
            ("text/plain, application/json;q=0.5", Some(Json)),
            ("application/json;q=0.1, image/svg+xml;q=0.2", Some(Svg)),
            ("application/json;q=0, */*;q=0.1", Some(Vendor)),
            ("text/plain", None),
            ("application/json;q=0", None),
            ("image/png, text/plain", None),
        ] {
            assert_eq!(
                form(&headers(header::ACCEPT, accept)).ok(),
                expected,
                "{accept}"
            );
        }
    }

    #[test]
    fn parameters_are_decoded_and_the_last_counts() {
        let parsed = parameters(Some("channel=a&channel=fast%2D4.1&x&arch=amd64&%zz=1+2"));
        assert_eq!(parsed["channel"], "fast-4.1");
        assert_eq!(parsed["x"], "");
        assert_eq!(parsed["%zz"], "1 2");
        assert_eq!(parameters(None).len(), 0);
    }

    #[test]
    fn wrong_parameters_have_the_texts_of_the_protocol() {
        let mandatory = ["version".to_owned(), "channel".to_owned()];
        let error_body = |query: &str, mandatory: &[String]| {
            let parameters = parameters(Some(query));
            channel(&parameters, mandatory)
                .map_err(|error| error.body())
                .err()
        };
        assert_eq!(
            error_body("arch=amd64", &mandatory).unwrap(),
            r#"{"kind":"missing_params","value":"mandatory client parameters missing: channel, version"}"#
        );
        for channel in ["a_b", "a%3Ab", "Fast", "a%20b", ""] {
            let body = error_body(&format!("channel={channel}"), &[]).unwrap();
            assert!(
                body.contains("invalid client parameters: channel '"),
                "{body}"
            );
            assert!(
                body.contains(r"does not match regex '^[0-9a-z\\-\\.]+$'"),
                "{body}"
            );
        }
        let body = error_body("channel=a&arch=x86_64", &[]).unwrap();
        assert!(
            body.contains("arch 'x86_64' does not match regex '^[0-9a-z]+$'"),
            "{body}"
        );
        assert_eq!(error_body("", &[]), None);
        assert_eq!(error_body("channel=a&id=x&version=y", &[]), None);
    }

    #[test]
    fn encodings_and_tags_are_lists_too() {
        let takes = |value: &str| takes_gzip(&headers(header::ACCEPT_ENCODING, value));
        assert!(takes("gzip") && takes("br, gzip;q=0.1") && takes("*"));
        assert!(!takes("gzip;q=0") && !takes("br") && !takes_gzip(&HeaderMap::new()));
        let has = |value: &str| has(&headers(header::IF_NONE_MATCH, value), "\"a\"");
        assert!(has("\"a\"") && has("\"b\", W/\"a\"") && has("*") && !has("\"b\""));
    }
}
