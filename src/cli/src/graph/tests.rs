use clap::Parser;

use super::*;
use crate::update_service::fixture::{response, service};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: GraphArgs,
}

const GRAPH: &str = r#"{"version":1,
    "nodes":[{"version":"4.17.9","payload":"q/r@sha256:1"},{"version":"4.18.1","payload":"q/r@sha256:2"},
             {"version":"4.18.3","payload":"q/r@sha256:3"}],
    "edges":[[0,1],[1,2]],
    "conditionalEdges":[{"edges":[{"from":"4.17.9","to":"4.18.3"}],
        "risks":[{"url":"https://example.com/1","name":"Slow","message":"m","matchingRules":[{"type":"Always"}]}]}]}"#;

fn arguments(words: &[&str]) -> GraphArgs {
    let words = std::iter::once(&"graph").chain(words);
    Line::try_parse_from(words).unwrap().arguments
}

fn summary(words: &[&str]) -> String {
    let graph = UpdateGraph::parse(GRAPH.as_bytes()).unwrap();
    ChannelSummary::new(&graph, &arguments(words)).text("channel fast-4.18 (amd64)")
}

#[test]
fn a_channel_is_counted_and_its_shortest_path_is_named() {
    let head = "channel fast-4.18 (amd64): 3 releases, 2 recommended updates, 1 conditional \
                updates\nNewest release: 4.18.3\n";
    assert_eq!(summary(&["--channel=fast-4.18"]), head);
    assert_eq!(
        summary(&["--channel=fast-4.18", "--from=4.17.9"]),
        format!("{head}\nShortest path from 4.17.9 to 4.18.3:\n  4.18.1\n  4.18.3\n")
    );
    assert_eq!(
        summary(&["--channel=fast-4.18", "--from=4.18.3"]),
        format!("{head}\n4.18.3 is already there.\n")
    );
    assert_eq!(
        summary(&["--channel=fast-4.18", "--from=4.18.3", "--to=4.18.1"]),
        format!("{head}\nNo path leads from 4.18.3 to 4.18.1.\n")
    );
}

#[test]
fn risks_of_a_path_are_named() {
    let mut graph = UpdateGraph::parse(GRAPH.as_bytes()).unwrap();
    graph.edges.clear();
    let arguments = arguments(&["--channel=c", "--from=4.17.9"]);
    let text = ChannelSummary::new(&graph, &arguments).text("c");
    assert!(text.ends_with("  4.18.3   may apply: Slow\n"), "{text}");
}

#[tokio::test]
async fn a_service_is_asked_for_the_channel_and_drawn() {
    let (address, served) = service(response("200 OK", GRAPH), 1);
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("fast.svg");
    let arguments = arguments(&[
        "--channel=fast-4.18",
        "--from=4.17.9",
        &format!("--upstream={address}"),
        &format!("--svg={}", picture.display()),
    ]);
    run(arguments).await.unwrap();
    assert_eq!(
        served.join().unwrap(),
        ["GET /api/graph?arch=amd64&channel=fast-4.18 HTTP/1.1"]
    );
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg "), "{picture}");
    assert!(picture.contains("4.18.3"), "{picture}");
}

#[tokio::test]
async fn what_cannot_be_drawn_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("graph.json");
    let named = format!("--file={}", file.display());
    let failed = async |words: &[&str]| format!("{:#}", run(arguments(words)).await.unwrap_err());
    assert!(failed(&[&named]).await.starts_with("cannot read file "));
    crate::output::write(&file, b"{\"version\":1,\"nodes\":[{}]}").unwrap();
    let error = failed(&[&named]).await;
    assert!(error.contains("nodes[0]"), "{error}");
    crate::output::write(&file, GRAPH.as_bytes()).unwrap();
    let error = failed(&[&named, "--from=4.16.0"]).await;
    assert!(
        error.starts_with("--from 4.16.0: it is not in file "),
        "{error}"
    );
    let error = failed(&["--channel=c", "--upstream=nowhere"]).await;
    assert!(
        error.starts_with("update service \"nowhere\" is no address"),
        "{error}"
    );
    let body = r#"{"kind":"invalid_params","value":"channel is wrong"}"#;
    let (address, _) = service(response("400 Bad Request", body), 1);
    let error = failed(&["--channel=c", &format!("--upstream={address}")]).await;
    assert!(
        error.ends_with("answers 400 Bad Request: channel is wrong"),
        "{error}"
    );
    let (address, _) = service(response("200 OK", "<html>"), 1);
    let error = failed(&["--channel=c", &format!("--upstream={address}")]).await;
    assert!(error.starts_with("answer of http://"), "{error}");
}
