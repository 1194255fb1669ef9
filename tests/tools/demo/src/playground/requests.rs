//! Requests to the playground's process, which has the hosts: HTTP on a socket, for curl.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use testbed::{DONE_WITHIN, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::setup::{self, JOINS, Playground};
use crate::run::WORKERS;

/// Time between two steps of the machine API.
const STEP_EVERY: Duration = Duration::from_secs(1);

/// How long a client may take to send its request.
const SENT_WITHIN: Duration = Duration::from_secs(5);

/// Largest head of a request that is read.
const HEAD_BYTES: usize = 4096;

/// Boots of a host that joins: its installer's OS, then its pool's.
const BOOTS: usize = 2;

/// The socket.
#[derive(Debug)]
pub(super) struct Requests {
    listener: UnixListener,
    /// Its file.
    pub(super) path: PathBuf,
}

impl Requests {
    /// Listens in a folder that goes with the cluster. A path of a socket has at most 107 bytes.
    pub(super) fn listen(dir: &Path) -> Result<Self> {
        let path = dir.join("requests");
        let listener = UnixListener::bind(&path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        Ok(Self { listener, path })
    }

    /// Carries requests out, and does what a machine API would, for ever.
    pub(super) async fn attend(&self, playground: &mut Playground) -> Result<()> {
        let mut joined = false;
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (stream, _) = accepted?;
                    respond(stream, playground, &mut joined).await;
                }
                () = tokio::time::sleep(STEP_EVERY) => {
                    let Playground { services, cluster, .. } = playground;
                    let pointer = &services.config_server.pointer;
                    // It is the next turn's again: the API server may be slow.
                    drop(services.machines.advance(cluster, pointer).await);
                }
            }
        }
    }
}

/// Responds to one request. A client that is gone sends it again.
async fn respond(mut stream: UnixStream, playground: &mut Playground, joined: &mut bool) {
    let mut head = vec![0; HEAD_BYTES];
    let read = tokio::time::timeout(SENT_WITHIN, stream.read(&mut head)).await;
    let Ok(Ok(count)) = read else {
        return;
    };
    head.truncate(count);
    let response = match request(&String::from_utf8_lossy(&head)) {
        Some(Request::Join) if *joined => response(409, &format!("{JOINS} has joined before\n")),
        Some(Request::Join) => match join(playground).await {
            Ok(text) => {
                *joined = true;
                response(200, &text)
            }
            Err(error) => response(500, &format!("{error:#}\n")),
        },
        None => response(404, "there is no such request\n"),
    };
    drop(stream.write_all(response.as_bytes()).await);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// A host joins.
    Join,
}

/// What the head of a request asks for.
fn request(head: &str) -> Option<Request> {
    head.starts_with("POST /join ").then_some(Request::Join)
}

fn response(status: u16, text: &str) -> String {
    let length = text.len();
    format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}")
}

/// Turns the host on, and waits until its node is Done. What happened, for a person.
async fn join(playground: &mut Playground) -> Result<String> {
    let Playground {
        services, cluster, ..
    } = playground;
    let host = cluster.host_mut(JOINS)?;
    if host.is_on() {
        bail!("{JOINS} is on, and has not joined: its console.log says why");
    }
    host.ignite(&services.config_server.pointer)?;
    host.start()?;
    until("the OS of the pool to boot", DONE_WITHIN, async || {
        let boots = host.boots().len();
        Ok(if boots >= BOOTS {
            Ok(())
        } else {
            Err(format!("{boots} boots"))
        })
    })
    .await?;
    cluster.introduce(&setup::joining()).await?;
    let target = cluster.objects().target(WORKERS).await?;
    cluster.done_in(JOINS, &target, DONE_WITHIN).await?;
    let boots = cluster.host(JOINS)?.boots().len();
    Ok(format!(
        "{JOINS} has its configuration from the config server, and the OS of the release after \
         {boots} boots; it is Done in {target}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_requests_are_carried_out() {
        assert_eq!(request("POST /join HTTP/1.1\r\n\r\n"), Some(Request::Join));
        assert_eq!(request("GET /join HTTP/1.1\r\n\r\n"), None);
        assert_eq!(request("POST /joined HTTP/1.1\r\n\r\n"), None);
        assert!(
            response(200, "done\n")
                .ends_with("content-length: 5\r\nconnection: close\r\n\r\ndone\n")
        );
    }
}
