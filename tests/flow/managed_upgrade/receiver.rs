//! A receiver of CloudEvents, which refuses the first ones.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use lab::{PATIENCE, wait};
use serde_json::Value;

pub(crate) struct Receiver {
    pub(crate) url: String,
    /// What it took.
    taken: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    /// One that refuses so many events before it takes one.
    pub(crate) fn start(mut refused: usize) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let url = format!("http://{}/events", listener.local_addr()?);
        let taken = Arc::new(Mutex::new(Vec::new()));
        let events = Arc::clone(&taken);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let event = read(&stream);
                let status = match event {
                    Ok(event) if refused == 0 => {
                        let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
                        events.push(event);
                        "204 No Content"
                    }
                    _ => {
                        refused = refused.saturating_sub(1);
                        "503 Service Unavailable"
                    }
                };
                let response =
                    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ignored = stream.write_all(response.as_bytes());
            }
        });
        Ok(Self { url, taken })
    }

    /// The states of the events that it took, once there are so many. One that came again, as an
    /// operator sends it that was killed before it noted the first delivery, has the same id.
    pub(crate) async fn until(&self, count: usize) -> Result<Vec<String>> {
        let events = wait::until("CloudEvents", PATIENCE, async || {
            let taken = self.taken.lock();
            let mut events = taken.unwrap_or_else(PoisonError::into_inner).clone();
            events.sort_by_key(|event| event["id"].to_string());
            events.dedup();
            Ok(if events.len() >= count {
                Ok(events)
            } else {
                Err(format!("{events:?}"))
            })
        })
        .await?;
        let mut ids: Vec<String> = events.iter().map(|event| event["id"].to_string()).collect();
        ids.dedup();
        ensure!(
            ids.len() == events.len(),
            "two events share an id: {events:?}"
        );
        let states = events.iter();
        let states = states.filter_map(|event| event.pointer("/data/state")?.as_str());
        Ok(states.map(ToOwned::to_owned).collect())
    }
}

fn read(stream: &TcpStream) -> Result<Value> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut is_event) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse()?;
        }
        is_event |= line.starts_with("content-type: application/cloudevents+json");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    ensure!(is_event, "it is no CloudEvent");
    serde_json::from_slice(&body).context("the body is no JSON")
}
