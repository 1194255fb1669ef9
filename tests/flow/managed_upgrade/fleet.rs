//! A fleet manager with one cluster and one upgrade policy.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::env::CLUSTER_ID;

/// The secret that authenticates the cluster.
pub(crate) const TOKEN: &str = "of-the-lab";

/// How it responds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// Each request fails.
    Broken,
    /// Its responses are cut off.
    Lying,
}

struct FleetState {
    mood: Mood,
    version: String,
    next_run: String,
    state: String,
    description: String,
    /// States that were set.
    states: Vec<String>,
    /// Summaries of service logs.
    logs: Vec<String>,
    /// Requests that did not prove the cluster.
    refused: usize,
}

pub(crate) struct Fleet {
    pub(crate) url: String,
    shared: Arc<Mutex<FleetState>>,
}

impl Fleet {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let url = format!("http://{}", listener.local_addr()?);
        let fleet = Arc::new(Mutex::new(FleetState {
            mood: Mood::Well,
            version: String::new(),
            next_run: String::new(),
            state: String::new(),
            description: String::new(),
            states: Vec::new(),
            logs: Vec::new(),
            refused: 0,
        }));
        let shared = Arc::clone(&fleet);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut fleet = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let (status, body) = match read(&stream) {
                    Ok(request) => respond(&mut fleet, &request),
                    Err(error) => (400, json!(error.to_string())),
                };
                let mut body = body.to_string();
                if fleet.mood == Mood::Lying {
                    body.truncate(body.len() / 2);
                }
                let response = format!(
                    "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ignored = stream.write_all(response.as_bytes());
            }
        });
        Ok(Self { url, shared: fleet })
    }

    fn lock(&self) -> MutexGuard<'_, FleetState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn be(&self, mood: Mood) {
        self.lock().mood = mood;
    }

    /// Has a policy for a version after so many seconds, in place of the one that it had.
    pub(crate) fn plan(&self, version: &str, secs: i64) -> Result<()> {
        let at = Timestamp::now() + SignedDuration::from_secs(secs);
        let mut fleet = self.lock();
        version.clone_into(&mut fleet.version);
        fleet.next_run = Timestamp::from_second(at.as_second())?.to_string();
        "scheduled".clone_into(&mut fleet.state);
        fleet.description = String::new();
        Ok(())
    }

    /// States that were set, and summaries of service logs.
    pub(crate) fn received(&self) -> Result<(Vec<String>, Vec<String>)> {
        let fleet = self.lock();
        ensure!(
            fleet.refused == 0,
            "{} requests without proof",
            fleet.refused
        );
        Ok((fleet.states.clone(), fleet.logs.clone()))
    }
}

/// A request: its first line, its proof, its body.
struct Request {
    line: String,
    proof: String,
    body: Value,
}

impl Request {
    /// A text of the body.
    fn text(&self, key: &str) -> &str {
        let value = self.body.get(key).and_then(Value::as_str);
        value.unwrap_or_default()
    }
}

fn respond(fleet: &mut FleetState, request: &Request) -> (u16, Value) {
    if request.proof != format!("AccessToken {CLUSTER_ID}:{TOKEN}") {
        fleet.refused += 1;
        return (403, json!({ "reason": "who is that?" }));
    }
    if fleet.mood == Mood::Broken {
        return (500, json!({ "reason": "broken" }));
    }
    let line = request.line.as_str();
    let policies = "/api/clusters_mgmt/v1/clusters/c1/upgrade_policies";
    if line.starts_with("GET /api/clusters_mgmt/v1/clusters?search=external_id") {
        let cluster = json!({
            "id": "c1", "version": { "channel_group": "stable" },
            "node_drain_grace_period": { "value": 30, "unit": "minutes" }
        });
        (200, json!({ "total": 1, "items": [cluster] }))
    } else if line.starts_with(&format!("GET {policies}?page=")) {
        let policy = json!({ "id": "p1", "version": fleet.version, "next_run": fleet.next_run });
        (200, json!({ "total": 1, "items": [policy] }))
    } else if line.starts_with(&format!("GET {policies}/p1/state ")) {
        let state = json!({ "value": fleet.state, "description": fleet.description });
        (200, state)
    } else if line.starts_with(&format!("PATCH {policies}/p1/state ")) {
        request.text("value").clone_into(&mut fleet.state);
        request
            .text("description")
            .clone_into(&mut fleet.description);
        let state = fleet.state.clone();
        fleet.states.push(state);
        (200, json!({}))
    } else if line.starts_with("POST /api/service_logs/v1/cluster_logs ") {
        fleet.logs.push(request.text("summary").to_owned());
        (201, json!({}))
    } else {
        (404, json!({ "reason": line }))
    }
}

fn read(stream: &TcpStream) -> Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let (mut length, mut proof) = (0, String::new());
    loop {
        let mut head = String::new();
        reader.read_line(&mut head)?;
        let head = head.trim();
        let Some((name, value)) = head.split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse()?,
            "authorization" => value.clone_into(&mut proof),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&body).context("the body is no JSON")?
    };
    Ok(Request { line, proof, body })
}
