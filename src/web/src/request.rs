//! A request with its limits, and a response.

use std::time::Duration;

use http::{HeaderMap, HeaderName, Method, StatusCode};
use reqwest::{Client, RequestBuilder};

/// Characters of a response's body that an error shows.
const SHOWN: usize = 200;

#[derive(Debug, Clone)]
pub struct WebRequest<'a> {
    pub method: Method,
    pub url: &'a str,
    pub headers: Vec<(HeaderName, String)>,
    /// Its body; none for no body.
    pub body: Option<String>,
    /// How long it may take to the last byte of the response.
    pub limit: Duration,
    /// The largest body of a response that is read.
    pub max_bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebResponse {
    /// Its status, such as `404 Not Found`.
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Why there is no response, or none that is a success.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be used.
    #[error("cannot use {what}")]
    Setting {
        /// The object and field, or the file.
        what: String,
        /// What is wrong with it.
        source: reqwest::Error,
    },
    /// The address of an update service is none.
    #[error("update service {0:?} is no address")]
    Address(String),
    /// No client can be made.
    #[error("cannot make an HTTP client")]
    Client(#[source] reqwest::Error),
    /// The server was not reached, or did not respond in time.
    #[error("cannot read {url}")]
    Exchange { url: String, source: reqwest::Error },
    /// The body is larger than any that is expected.
    #[error("{url} answers more than {max_bytes} bytes")]
    TooLarge { url: String, max_bytes: usize },
    /// The status is no success.
    #[error("{url} answers {status}{}", shown(.text))]
    Status {
        url: String,
        status: StatusCode,
        /// The begin of the body.
        text: String,
    },
}

fn shown(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}

impl Error {
    pub(crate) fn exchange(url: &str, source: reqwest::Error) -> Self {
        Self::Exchange {
            url: url.to_owned(),
            // The message names it already.
            source: source.without_url(),
        }
    }
}

impl<'a> WebRequest<'a> {
    pub const fn get(url: &'a str, limit: Duration, max_bytes: usize) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: Vec::new(),
            body: None,
            limit,
            max_bytes,
        }
    }

    /// The same with a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same with another method, and a body of this type.
    #[must_use]
    pub fn sending(self, method: Method, content_type: &str, body: String) -> Self {
        let mut request = self.header(http::header::CONTENT_TYPE, content_type);
        request.method = method;
        request.body = Some(body);
        request
    }

    pub(crate) fn on(&self, client: &Client) -> RequestBuilder {
        let mut request = client
            .request(self.method.clone(), self.url)
            .timeout(self.limit);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        match &self.body {
            Some(body) => request.body(body.clone()),
            None => request,
        }
    }
}

impl WebResponse {
    /// The body of a success.
    ///
    /// # Errors
    /// [`Error::Status`].
    pub fn success(self, url: &str) -> Result<Vec<u8>, Error> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        let text = String::from_utf8_lossy(&self.body);
        Err(Error::Status {
            url: url.to_owned(),
            status: self.status,
            text: text.trim().chars().take(SHOWN).collect(),
        })
    }
}
