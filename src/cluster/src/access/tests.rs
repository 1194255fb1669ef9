//! Credentials that rotate under an identity, at a server that writes down what it is shown.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use super::*;

const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";

/// A server that responds to each request with an empty object; its address, and the token of each
/// request.
fn server() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, tokens) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut lines = BufReader::new(&stream).lines();
            let head: Vec<String> = lines
                .by_ref()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let token = head
                .iter()
                .find_map(|line| line.strip_prefix("authorization: Bearer "));
            let is_heard = sender.send(token.unwrap_or_default().to_owned());
            let response = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
            (&stream).write_all(response).unwrap();
            if is_heard.is_err() {
                break;
            }
        }
    });
    (address, tokens)
}

fn kubeconfig(server: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{token: {token}}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    )
}

#[tokio::test]
async fn a_request_is_sent_with_the_credentials_as_they_are_then() {
    let (server, tokens) = server();
    let text = Arc::new(Mutex::new(kubeconfig(&server, "old")));
    let file = Arc::clone(&text);
    let access = Access::kubeconfig(
        KUBECONFIG,
        Box::new(move |_| Ok(file.lock().unwrap().clone().into_bytes())),
    );
    for token in ["old", "old", "new"] {
        *text.lock().unwrap() = kubeconfig(&server, token);
        access.get::<Value>("/api/v1/nodes/n").await.unwrap();
        assert_eq!(tokens.recv().unwrap(), token);
    }
    // A file that is being written is an error, and no reason to go on with what was.
    *text.lock().unwrap() = String::new();
    access.get::<Value>("/api/v1/nodes/n").await.unwrap_err();
}
