use std::time::Duration;

use apimock::{Call, Reply, Script};
use http_body_util::BodyExt as _;

use super::*;
use crate::rate_limit::RateLimitPolicy;

const OWN: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs/";

const POOL: &str = "/config/worker";

fn config() -> MachineConfig {
    let config = json!({ "ignition": { "version": "3.4.0" } });
    let object = json!({
        "metadata": { "name": "rendered-worker-1" },
        "spec": { "config": config },
    });
    serde_json::from_value(object).unwrap()
}

/// An open server with windows all the same, so that a machine needs no review.
fn server(script: Vec<Call>) -> (Script, ConfigServer) {
    let (script, client) = Script::start(script);
    let access = Arc::new(Access::of_client(client));
    let store = ServedStore::of("worker", config());
    let server = ConfigServer {
        metrics: Arc::new(ServerMetrics::new(store.clone(), true)),
        store,
        rate_limits: Mutex::new(RateLimits::new(RateLimitPolicy {
            window: Some(Duration::from_hours(1)),
            is_shared: false,
            burst: RateLimitPolicy::BURST,
            pause: RateLimitPolicy::PAUSE,
        })),
        in_flight: ResponsesInFlight::default(),
        token_bytes: AtomicUsize::new(0),
        access: Arc::clone(&access),
        bootstrap: Bootstrap {
            server: "https://api:6443".to_owned(),
            authority: concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into(),
            account: ("n".to_owned(), "a".to_owned()),
            token_secs: 3600,
        },
        authorizer: Authorizer::new(access, Vec::new()),
        is_open: true,
        clock: Instant::now,
    };
    (script, server)
}

fn token(reply: Reply) -> Call {
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": { "audiences": [], "expirationSeconds": 3600 },
    });
    Call::post("/api/v1/namespaces/n/serviceaccounts/a/token", body, reply)
}

fn made(token: &str) -> Reply {
    let end = "2026-11-28T00:00:00Z";
    let spec = json!({ "audiences": [] });
    Reply::ok(json!({ "spec": spec, "status": { "token": token, "expirationTimestamp": end } }))
}

/// Status and bytes of a response; those of HEAD are what its length is taken from.
async fn ask(server: &ConfigServer, method: Method) -> (u16, Bytes) {
    let peer = Peer {
        address: ([10, 0, 0, 1], 1000).into(),
        certificate: None,
    };
    let request = Request::builder().method(method).uri(POOL);
    let request = request.extension(peer).body(()).unwrap();
    let response = server.respond(&request, false).await;
    let status = response.status().as_u16();
    (
        status,
        response.into_body().collect().await.unwrap().to_bytes(),
    )
}

#[tokio::test]
async fn head_has_the_length_of_get() {
    let (script, server) = server(vec![token(made("abc")), token(made("xyz"))]);
    let (status, unknown) = ask(&server, Method::HEAD).await;
    assert_eq!((status, unknown.len()), (200, 0));
    let (status, got) = ask(&server, Method::GET).await;
    assert_eq!(status, 200);
    let (status, head) = ask(&server, Method::HEAD).await;
    assert_eq!((status, head.len()), (200, got.len()));
    let (_, again) = ask(&server, Method::GET).await;
    assert_eq!(again.len(), got.len());
    assert_eq!(script.remaining(), 0);
}

#[tokio::test]
async fn answer_that_fails_leaves_the_credential_to_others() {
    let failure = Reply::failure(500, "InternalError", "etcd is away");
    let (script, server) = server(vec![token(failure), token(made("abc"))]);
    let other = "10.0.0.2".parse().unwrap();
    let credential = format!("{ANONYMOUS} 10.0.0.1");
    let reserve = || rate_limit::reserve(&server.rate_limits, &credential, other, Instant::now());
    let (status, _) = ask(&server, Method::GET).await;
    assert_eq!(status, 503);
    drop(reserve().unwrap());
    let (status, _) = ask(&server, Method::GET).await;
    assert_eq!(status, 200);
    assert_eq!(reserve().unwrap_err(), ClosedWindow::Taken);
    assert_eq!(script.remaining(), 0);
}

#[tokio::test]
async fn answers_that_are_not_sent_keep_others_waiting() {
    let (script, server) = server(vec![token(made("abc"))]);
    let large = "x".repeat(48 << 20);
    let held = server.in_flight.hold("10.0.0.1".parse().unwrap(), large);
    let (status, _) = ask(&server, Method::GET).await;
    assert_eq!(status, 503);
    drop(held.unwrap());
    let (status, _) = ask(&server, Method::GET).await;
    assert_eq!(status, 200);
    assert_eq!(script.remaining(), 0);
}

#[test]
fn path_names_the_pool_by_its_last_element() {
    let table = [
        ("/config/worker", Some("worker")),
        ("/config/worker/", Some("worker")),
        ("/config/any/worker", Some("worker")),
        ("/config/", None),
        ("/config", None),
        ("/config/Worker", None),
        ("/config/..%2f", None),
        ("/", None),
        ("/healthz/worker", None),
    ];
    for (path, expected) in table {
        let found = match requested_resource(&Method::GET, path) {
            Ok(Resource::Pool(pool)) => Some(pool),
            Ok(Resource::Health | Resource::Own(_)) | Err(_) => None,
        };
        assert_eq!(found, expected, "{path}");
    }
    let (own, below) = (format!("{OWN}rendered-worker-1"), format!("{OWN}a/b"));
    let own = requested_resource(&Method::GET, &own);
    assert!(matches!(own, Ok(Resource::Own("rendered-worker-1"))));
    let below = requested_resource(&Method::GET, &below);
    assert!(matches!(below, Err(Refusal::Path)));
    for path in ["/config/worker", "/healthz", "/elsewhere"] {
        let posted = requested_resource(&Method::POST, path);
        assert!(matches!(posted, Err(Refusal::Method)), "{path}");
    }
    assert!(matches!(
        requested_resource(&Method::HEAD, "/healthz"),
        Ok(Resource::Health)
    ));
}
