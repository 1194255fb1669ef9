//! An update service with one response.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

/// Serves each connection once, and returns the request lines.
pub(crate) fn service(
    response: String,
    connections: usize,
) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/api/graph", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let streams = listener.incoming().take(connections);
        let lines = streams.map(|stream| {
            let mut stream = BufReader::new(stream.unwrap());
            let mut request = String::new();
            stream.read_line(&mut request).unwrap();
            let mut line = String::new();
            while stream.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            stream.get_mut().write_all(response.as_bytes()).unwrap();
            request.trim_end().to_owned()
        });
        lines.collect()
    });
    (address, served)
}

pub(crate) fn response(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}
