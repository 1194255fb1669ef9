//! What is answered. Requests cost no graph work; pages for people do, and are made elsewhere.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use chassis::report::Chain;
use http::header::{
    ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CACHE_CONTROL,
    CONTENT_ENCODING, CONTENT_TYPE, ETAG, LAST_MODIFIED, RETRY_AFTER, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use release::ImageDigest;

use crate::body::PackedBody;
use crate::drawings::DrawingBoard;
use crate::kept_drawings::DrawingKey;
use crate::metrics::ServiceMetrics;
use crate::openapi::openapi;
use crate::request::{self, GraphForm, JSON, ServiceError};
use crate::responses::GraphResponses;
use crate::scrape::InService;

/// Seconds after which a client asks again where there is no graph yet.
const RETRY: &str = "30";

/// Seconds after which a client asks again for a drawing.
const DRAWING_RETRY: &str = "1";

/// Seconds that a response may be cached: clients send a request every two minutes at most.
const MAX_AGE: &str = "max-age=60";

/// Header of the graph's age, in seconds.
const AGE: HeaderName = HeaderName::from_static("x-graph-age-seconds");

const METHODS: &str = "GET, HEAD, OPTIONS";

#[derive(Debug)]
pub struct Responder {
    pub service: Arc<InService>,
    pub metrics: Arc<ServiceMetrics>,
    /// In front of all paths.
    pub prefix: String,
    /// Parameters that a request for a graph must have.
    pub mandatory: Vec<String>,
    /// Directory of signatures.
    pub signatures: Option<PathBuf>,
    pub board: DrawingBoard,
}

type Routed = Result<Response<Full<Bytes>>, ServiceError>;

impl Responder {
    pub async fn respond<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let answered = match *request.method() {
            Method::GET | Method::HEAD => self.route(request).await,
            Method::OPTIONS => Ok(preflight()),
            _ => Err(ServiceError::Method),
        };
        let mut response = answered.unwrap_or_else(|error| self.refuse(&error));
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        response
    }

    async fn route<B>(&self, request: &Request<B>) -> Routed {
        let path = request.uri().path();
        let unknown = || ServiceError::DoesNotExist(path.to_owned());
        let below = path
            .strip_prefix(self.prefix.as_str())
            .ok_or_else(unknown)?;
        match below {
            "/graph" | "/v1/graph" => {
                self.metrics.count_request("/graph");
                let began = Instant::now();
                let answered = self.graph(request).await;
                self.metrics.observe(began.elapsed().as_secs_f64());
                answered
            }
            "/openapi" | "/v1/openapi" => {
                self.metrics.count_request("/openapi");
                Ok(response(JSON, openapi(&self.prefix).to_string()))
            }
            "/graph-data" => {
                self.metrics.count_request("/graph-data");
                let data = self.responses()?.data.clone();
                Ok(response("application/gzip", data))
            }
            // Also at its public place where the prefix is another.
            "/problems" | "/api/upgrades_info/problems" => {
                self.metrics.count_request("/problems");
                let responses = self.responses()?;
                let problems = &responses.problems;
                let plain = || responses.unpacked(problems);
                self.kept(request.headers(), &responses, problems, plain, JSON)
            }
            _ => match below.strip_prefix("/signatures/") {
                Some(rest) => {
                    self.metrics.count_request("/signatures");
                    self.signature(rest).await
                }
                None => Err(unknown()),
            },
        }
    }

    fn responses(&self) -> Result<Arc<GraphResponses>, ServiceError> {
        self.service.responses().ok_or_else(|| {
            let cause = self.service.cause();
            ServiceError::NotBuilt(Chain(&cause).to_string())
        })
    }

    async fn graph<B>(&self, request: &Request<B>) -> Routed {
        let form = request::form(request.headers())?;
        let parameters = request::parameters(request.uri().query());
        let (channel, architecture) = request::channel(&parameters, &self.mandatory)?;
        let responses = self.responses()?;
        let headers = request.headers();
        if matches!(form, GraphForm::Vendor | GraphForm::Json) {
            let body = responses.graph(channel, architecture);
            let plain = || responses.unpacked(body);
            return self.kept(headers, &responses, body, plain, form.content_type());
        }
        let version = |name: &str| {
            let text = parameters.get(name).filter(|text| !text.is_empty());
            text.map(|text| {
                let version = text.parse();
                version.map_err(|error: release::version::Error| {
                    ServiceError::InvalidParams(format!("{name}: {error}"))
                })
            })
            .transpose()
        };
        let key = DrawingKey {
            channel: channel.to_owned(),
            architecture: architecture.to_owned(),
            form,
            from: version("from")?,
            to: version("to")?,
            all: parameters.get("all").is_some_and(|value| value == "true"),
        };
        let drawn = self.board.draw(&responses, key).await?;
        let plain = || Ok(drawn.bytes.clone());
        self.kept(headers, &responses, &drawn.body, plain, form.content_type())
    }

    /// A stored body in the encoding that the client takes; status 304 if the client has it.
    fn kept(
        &self,
        request_headers: &HeaderMap,
        responses: &GraphResponses,
        body: &PackedBody,
        plain: impl FnOnce() -> std::io::Result<Bytes>,
        content_type: &'static str,
    ) -> Routed {
        let is_packed = request::takes_gzip(request_headers);
        let tag = if is_packed {
            format!("\"{}-gzip\"", body.tag)
        } else {
            format!("\"{}\"", body.tag)
        };
        let mut made = if request::has(request_headers, &tag) {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else if is_packed {
            let mut response = response(content_type, body.gzip.clone());
            let headers = response.headers_mut();
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        } else {
            let bytes = plain();
            response(
                content_type,
                bytes.map_err(|error| ServiceError::Internal(error.to_string()))?,
            )
        };
        let headers = made.headers_mut();
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(ETAG, tag);
        }
        headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(MAX_AGE));
        self.date(headers, responses);
        Ok(made)
    }

    fn date(&self, headers: &mut HeaderMap, responses: &GraphResponses) {
        let made = responses
            .made
            .strftime("%a, %d %b %Y %H:%M:%S GMT")
            .to_string();
        if let Ok(made) = HeaderValue::try_from(made) {
            headers.insert(LAST_MODIFIED, made);
        }
        headers.insert(AGE, HeaderValue::from(self.service.age()));
    }

    /// `<algorithm>=<digits>/signature-<n>`.
    async fn signature(&self, rest: &str) -> Routed {
        let missing = || ServiceError::DoesNotExist(format!("/signatures/{rest}"));
        let invalid = |why: String| ServiceError::InvalidParams(why);
        let (image, name) = rest.split_once('/').ok_or_else(missing)?;
        let (algorithm, digits) = image
            .split_once('=')
            .ok_or_else(|| invalid(format!("{image:?} is no digest")))?;
        if !["sha256", "sha"].contains(&algorithm) {
            return Err(invalid(format!("algo not supported: {algorithm}")));
        }
        let digest: ImageDigest = format!("sha256:{digits}")
            .parse()
            .map_err(|error: release::digest::Error| invalid(error.to_string()))?;
        let number = name
            .strip_prefix("signature-")
            .and_then(|number| number.parse::<usize>().ok());
        let number = number.filter(|number| *number > 0).ok_or_else(missing)?;
        let store = self.signatures.clone().ok_or_else(missing)?;
        let read = tokio::task::spawn_blocking(move || signatures::store::read(&store, &digest));
        let internal = |error: &dyn std::fmt::Display| ServiceError::Internal(error.to_string());
        let signatures = read.await.map_err(|error| internal(&error))?;
        let signatures = signatures.map_err(|error| internal(&error))?;
        let signature = signatures.into_iter().nth(number - 1).ok_or_else(missing)?;
        Ok(response("application/octet-stream", signature))
    }

    fn refuse(&self, error: &ServiceError) -> Response<Full<Bytes>> {
        let status = error.status();
        self.metrics.count_error(status.as_u16(), error.kind());
        let mut response = response(JSON, error.body());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        match error {
            ServiceError::NotBuilt(_) => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY));
            }
            ServiceError::Busy => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(DRAWING_RETRY));
            }
            ServiceError::Method => {
                headers.insert(ALLOW, HeaderValue::from_static(METHODS));
            }
            ServiceError::MissingParams(_)
            | ServiceError::InvalidParams(_)
            | ServiceError::InvalidContentType
            | ServiceError::DoesNotExist(_)
            | ServiceError::Internal(_) => {}
        }
        response
    }
}

/// The response to a preflight request of a browser.
fn preflight() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static(METHODS),
    );
    response
}

fn response(content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::header::ACCEPT;
    use http_body_util::BodyExt as _;
    use jiff::Timestamp;

    use super::*;
    use crate::responses::tests::responses;

    fn responder() -> Responder {
        let service = InService::new(None, Duration::from_mins(5), Timestamp::now);
        service.replace(Arc::new(responses()), Timestamp::now());
        Responder {
            service: Arc::new(service),
            metrics: Arc::new(ServiceMetrics::new(Timestamp::now)),
            prefix: String::new(),
            mandatory: Vec::new(),
            signatures: None,
            board: DrawingBoard::default(),
        }
    }

    fn request(method: &Method, from: &str, accept: &str) -> Request<()> {
        Request::builder()
            .method(method)
            .uri(format!("/graph?channel=fast-1&from={from}"))
            .header(ACCEPT, accept)
            .body(())
            .unwrap()
    }

    #[tokio::test]
    async fn a_drawing_is_served_as_other_answers_are() {
        let responder = responder();
        for form in [GraphForm::Page, GraphForm::Svg, GraphForm::Dot] {
            let accept = form.content_type().split(';').next().unwrap();
            let ask = request(&Method::GET, "1.0.0", accept);
            let made = responder.respond(&ask).await;
            assert_eq!(made.status(), StatusCode::OK);
            assert_eq!(made.headers()[CONTENT_TYPE], form.content_type());
            let tag = made.headers()[ETAG].clone();
            let body = made.into_body().collect().await.unwrap().to_bytes();
            assert!(!body.is_empty());
            let mut again = request(&Method::GET, "1.0.0", accept);
            again.headers_mut().insert(http::header::IF_NONE_MATCH, tag);
            let unchanged = responder.respond(&again).await;
            assert_eq!(unchanged.status(), StatusCode::NOT_MODIFIED);
        }
    }

    #[tokio::test]
    async fn a_second_drawing_is_asked_for_later_and_json_is_not() {
        let responder = responder();
        let (page, json) = ("text/html", JSON);
        let kept = request(&Method::GET, "1.0.0", page);
        assert_eq!(responder.respond(&kept).await.status(), StatusCode::OK);
        let _turn = responder.board.turns.acquire().await.unwrap();
        for (method, from, accept, status) in [
            (Method::GET, "1.0.1", page, 503),
            (Method::HEAD, "1.0.1", page, 503),
            (Method::GET, "1.0.0", page, 200),
            (Method::HEAD, "1.0.0", page, 200),
            (Method::GET, "1.0.1", json, 200),
            (Method::HEAD, "1.0.1", json, 200),
        ] {
            let response = responder.respond(&request(&method, from, accept)).await;
            let what = format!("{method} {from} {accept}");
            assert_eq!(response.status().as_u16(), status, "{what}");
            let later = response.headers().get(RETRY_AFTER);
            assert_eq!(later.is_some(), status == 503, "{what}");
        }
    }
}
