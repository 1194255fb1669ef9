//! Checks the kubelet's health endpoint, and counts failed checks in a row.
//!
//! Source: `docs/reference/daemon.md`, "Kubelet health".

use std::time::Duration;

use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::metrics::DaemonMetrics;

/// How often the kubelet is checked, and how long its response may take.
const PACE: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(30);

/// The response of a healthy kubelet.
const WELL: &str = "ok";

/// The longest response that is read, in bytes.
const RESPONSE_BYTES: usize = 4096;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Checks `endpoint` until the shutdown.
pub async fn watch(endpoint: &Uri, metrics: &DaemonMetrics, mut shutdown: Shutdown) {
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            () = sleep(PACE) => {}
        }
        let error: Error = match timeout(LIMIT, ask(endpoint)).await {
            Ok(Ok(body)) => {
                if body != WELL {
                    tracing::warn!(reason = body, "the kubelet is not well");
                }
                metrics.set_kubelet_failures(0);
                continue;
            }
            Ok(Err(error)) => error,
            Err(elapsed) => elapsed.into(),
        };
        let failures = metrics.count_kubelet_failure();
        // Clients of OpenShift's MCO look for these words.
        tracing::warn!(
            "kubelet health check has failed {failures} times: {}",
            Chain(error.as_ref())
        );
    }
}

/// The body of the response, whatever its status.
async fn ask(endpoint: &Uri) -> Result<String, Error> {
    let host = endpoint.host().ok_or("the endpoint names no host")?;
    let port = endpoint.port_u16().unwrap_or(80);
    let stream = TcpStream::connect((host, port)).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let path = endpoint.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, format!("{host}:{port}"))
        .body(Empty::<Bytes>::new())?;
    // Ends with the sender, which ends the connection.
    let exchange = async move {
        let response = sender.send_request(request).await?;
        let body = Limited::new(response.into_body(), RESPONSE_BYTES);
        Ok::<_, Error>(body.collect().await?.to_bytes())
    };
    let (body, closed) = tokio::join!(exchange, connection);
    let body = body?;
    closed?;
    Ok(String::from_utf8_lossy(&body).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_answer_is_read_and_a_closed_port_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let endpoint: Uri = format!("http://{address}/healthz").parse().unwrap();
        let answer = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 512];
            let length = stream.read(&mut request).await.unwrap();
            assert!(request[..length].starts_with(b"GET /healthz HTTP/1.1\r\n"));
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(response).await.unwrap();
        };
        let (body, ()) = tokio::join!(ask(&endpoint), answer);
        assert_eq!(body.unwrap(), WELL);
        drop(listener);
        ask(&endpoint).await.unwrap_err();
    }

    #[test]
    fn failures_count_until_the_next_answer() {
        let metrics = Arc::new(DaemonMetrics::new(|| Timestamp::UNIX_EPOCH));
        let line = |count: u32| {
            let text = metrics.registry().text().unwrap();
            text.contains(&format!("mcd_kubelet_state {count}\n"))
        };
        assert_eq!(metrics.count_kubelet_failure(), 1);
        assert_eq!(metrics.count_kubelet_failure(), 2);
        assert!(line(2));
        metrics.set_kubelet_failures(0);
        assert!(line(0));
    }
}
