//! Faults in the middle of a rollout, against an API server that keeps its objects: a leader that
//! is killed at each of its writes, objects that change, a node that never returns, an outage.

use std::cell::Cell;

use futures::FutureExt as _;
use http::Method;
use tokio::sync::Notify;

use super::*;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Passes in which each rollout here ends.
const PASSES: usize = 40;

thread_local! {
    /// By how many minutes the clock of this test is late.
    static MINUTES: Cell<i64> = const { Cell::new(0) };
}

fn moved_clock() -> Timestamp {
    clock() + SignedDuration::from_mins(MINUTES.get())
}

/// At which write the controller is killed, counted from 0, and whether the write is carried out.
type Death = (usize, bool);

/// What the API server holds, by path.
#[derive(Default)]
struct Objects {
    by_path: BTreeMap<String, Value>,
    version: u64,
    /// What was written, without names.
    writes: Vec<String>,
    death: Option<Death>,
    is_away: bool,
    /// The most nodes that were on their way at once.
    most_out: usize,
}

#[derive(Clone, Default)]
struct Server {
    objects: Arc<Mutex<Objects>>,
    died: Arc<Notify>,
}

fn pool_path() -> String {
    format!("{GROUP}/machineconfigpools/worker")
}

fn config_path(name: &str) -> String {
    format!("{GROUP}/machineconfigs/{name}")
}

fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

fn annotation_of<'a>(node: &'a Value, key: &str) -> &'a str {
    node["metadata"]["annotations"][key]
        .as_str()
        .unwrap_or_default()
}

const CURRENT: &str = "machineconfiguration.openshift.io/currentConfig";
const DESIRED: &str = "machineconfiguration.openshift.io/desiredConfig";
const STATE: &str = "machineconfiguration.openshift.io/state";

fn is_on_its_way(node: &Value) -> bool {
    annotation_of(node, CURRENT) != annotation_of(node, DESIRED)
        || annotation_of(node, STATE) != "Done"
}

fn refused(code: u16) -> Response<Full<Bytes>> {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code });
    let body = Full::new(Bytes::from(status.to_string()));
    Response::builder().status(code).body(body).unwrap()
}

fn found(value: &Value) -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from(value.to_string())))
}

impl Objects {
    fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.by_path.insert(path.to_owned(), object.clone());
        let nodes = self.nodes();
        let out = nodes.iter().filter(|node| is_on_its_way(node)).count();
        self.most_out = self.most_out.max(out);
        object
    }

    fn change(&mut self, path: &str, change: &Value) -> Value {
        let object = patched(&self.by_path[path], change, "");
        self.put(path, object)
    }

    fn under(&self, prefix: &str) -> Vec<Value> {
        let found = self.by_path.iter();
        let found = found.filter(|(path, _)| path.starts_with(prefix));
        found.map(|(_, object)| object.clone()).collect()
    }

    fn nodes(&self) -> Vec<Value> {
        self.under("/api/v1/nodes/")
    }

    fn respond(&mut self, method: &Method, path: &str, body: &Value) -> Response<Full<Bytes>> {
        let (path, is_list) = match path.split_once('?') {
            Some((path, query)) => (path, query.contains("limit=")),
            None => (path, false),
        };
        if is_list {
            let items = self.under(&format!("{path}/"));
            let role = "/metadata/labels/machineconfiguration.openshift.io~1role";
            let items = items
                .into_iter()
                .filter(|item| item.pointer(role).is_some());
            let items: Vec<Value> = items.collect();
            let metadata = json!({ "resourceVersion": self.version.to_string() });
            return found(&json!({ "metadata": metadata, "items": items }));
        }
        let path = path.trim_end_matches("/status");
        let stored = self.by_path.get(path).cloned();
        match (method.as_str(), stored) {
            ("POST", _) => {
                let name = body["metadata"]["name"].as_str().unwrap();
                let path = format!("{path}/{name}");
                if self.by_path.contains_key(&path) {
                    return refused(409);
                }
                let mut object = body.clone();
                object["metadata"]["uid"] = json!(format!("uid-{name}"));
                object["metadata"]["generation"] = json!(1);
                found(&self.put(&path, object))
            }
            (_, None) => refused(404),
            ("GET", Some(object)) => found(&object),
            ("PATCH", Some(object)) => {
                let expected = &body["metadata"]["resourceVersion"];
                if !expected.is_null() && *expected != object["metadata"]["resourceVersion"] {
                    return refused(409);
                }
                found(&self.change(path, body))
            }
            (method, Some(_)) => panic!("{method} {path}"),
        }
    }
}

impl Server {
    /// A pool whose nodes run what its one source renders to.
    fn start() -> Self {
        let server = Self::default();
        let (cluster, sources, target) = settled();
        let mut objects = server.objects();
        objects.version = 100;
        objects.put(&config_path("50-a"), sources[0].clone());
        let (_, spec) = rendered(&sources);
        let mut config = cluster.configs[1].clone();
        config["spec"] = spec;
        objects.put(&config_path(&target), config);
        objects.put(&pool_path(), cluster.pools[0].clone());
        for name in NODES {
            objects.put(&node_path(name), node(name, &target));
        }
        drop(objects);
        server
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap()
    }

    /// Adds a source: the pool gets another configuration. Its name.
    fn configure(&self) -> String {
        let sources = [
            source("50-a", &spec_with("a=1")),
            source("60-b", &spec_with("b=1")),
        ];
        self.objects().put(&config_path("60-b"), sources[1].clone());
        rendered(&sources).0
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let method = request.method().clone();
                let path = request.uri().to_string();
                let body = request.into_body().collect_bytes().await?;
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (response, dies) = server.handle(&method, &path, &body)?;
                if dies {
                    server.died.notify_one();
                    futures::future::pending::<()>().await;
                }
                Ok::<_, tower::BoxError>(response)
            }
        });
        kube::Client::new(service, "default")
    }

    /// The response, and whether the controller is killed before it gets it.
    fn handle(
        &self,
        method: &Method,
        path: &str,
        body: &Value,
    ) -> Result<(Response<Full<Bytes>>, bool), tower::BoxError> {
        let mut objects = self.objects();
        if objects.is_away {
            return Err("no route to host".into());
        }
        if method == Method::GET {
            return Ok((objects.respond(method, path, body), false));
        }
        let number = objects.writes.len();
        let kind = path.split('?').next().unwrap_or_default();
        let is_part = |part: &&str| !NODES.contains(part) && *part != "worker";
        let kind: Vec<&str> = kind.split('/').filter(is_part).collect();
        objects.writes.push(format!("{method} {}", kind.join("/")));
        match objects.death {
            Some((at, is_carried_out)) if at == number => {
                if is_carried_out {
                    objects.respond(method, path, body);
                }
                Ok((refused(500), true))
            }
            _ => Ok((objects.respond(method, path, body), false)),
        }
    }

    /// The watches deliver all that there is.
    fn fill(&self, store: &Store, policy: Option<&Value>) {
        let objects = self.objects();
        let cluster = Cluster {
            pools: objects.under(&pool_path()),
            nodes: objects.nodes(),
            configs: objects
                .under(&config_path(""))
                .iter()
                .map(metadata)
                .collect(),
            policies: policy.into_iter().cloned().collect(),
            ..Cluster::default()
        };
        cluster.fill(store);
    }

    /// A process that reconciles all work once. False if it was killed.
    async fn pass(&self, store: &Store) -> bool {
        let (recorder, sending) = Recorder::new(
            Arc::new(Access::of_client(listener(&SentEvents::default()))),
            speaker(),
        );
        let sending = tokio::spawn(sending);
        let controller = Controller::new(
            Requests::new(Arc::new(Access::of_client(self.client()))),
            store.clone(),
            recorder,
            Arc::new(ControllerMetrics::default()),
            moved_clock,
        );
        let work = async {
            let is_other = |work: &Work| !matches!(work, Work::NodeObjects | Work::Unused);
            for work in controller.keys().into_iter().filter(is_other) {
                // It is tried again in the next pass.
                drop(controller.reconcile(&work).await);
            }
            true
        };
        let died = self.died.notified().map(|()| false);
        let lives = tokio::select! { lives = work => lives, lives = died => lives };
        sending.abort();
        lives
    }

    /// A node that is on its way is done, unless it is named.
    fn finish_one(&self, never: &str) {
        let mut objects = self.objects();
        let node = objects
            .nodes()
            .into_iter()
            .find(|node| is_on_its_way(node) && node["metadata"]["name"].as_str() != Some(never));
        let Some(node) = node else {
            return;
        };
        let patch = json!({ "metadata": { "annotations": {
            CURRENT: annotation_of(&node, DESIRED),
            STATE: "Done",
            "slipway.dev/phase": "Idle",
            "slipway.dev/since": moved_clock().to_string()
        } } });
        objects.change(
            &node_path(node["metadata"]["name"].as_str().unwrap()),
            &patch,
        );
    }

    /// Whether the pool says that so many nodes run `target`, all of them.
    fn is_updated(&self, target: &str, count: usize) -> bool {
        let objects = self.objects();
        let status = &objects.by_path[&pool_path()]["status"];
        status["configuration"]["name"] == target && status["updatedMachineCount"] == count
    }

    /// Rolls on until the pool has so many nodes in `target`. How often a controller was killed.
    async fn roll(&self, target: &str, count: usize) -> usize {
        let mut killed = 0;
        for _ in 0..PASSES {
            let store = Store::default();
            self.fill(&store, None);
            killed += usize::from(!self.pass(&store).await);
            self.finish_one("");
            if self.is_updated(target, count) {
                return killed;
            }
        }
        panic!("it never ends: {:#?}", self.objects().by_path[&pool_path()]);
    }

    /// Begins a rollout: one node is on its way to the second configuration.
    async fn begun() -> (Self, String) {
        let server = Self::start();
        let target = server.configure();
        let store = Store::default();
        server.fill(&store, None);
        assert!(server.pass(&store).await);
        assert_eq!(server.objects().most_out, 1);
        (server, target)
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_may_be_killed_at_each_of_its_writes() {
    let server = Server::start();
    let target = server.configure();
    server.roll(&target, NODES.len()).await;
    let writes = server.objects().writes.clone();
    let kinds: BTreeSet<&str> = writes.iter().map(String::as_str).collect();
    let expected = [
        "PATCH /api/v1/nodes",
        "PATCH /apis/machineconfiguration.openshift.io/v1/machineconfigpools",
        "PATCH /apis/machineconfiguration.openshift.io/v1/machineconfigpools/status",
        "PATCH /apis/operator.openshift.io/v1/machineconfigurations/cluster/status",
        "POST /apis/machineconfiguration.openshift.io/v1/machineconfigs",
        "POST /apis/operator.openshift.io/v1/machineconfigurations",
    ];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected);
    for (at, write) in writes.iter().enumerate() {
        for is_carried_out in [false, true] {
            let server = Server::start();
            let target = server.configure();
            server.objects().death = Some((at, is_carried_out));
            let killed = server.roll(&target, NODES.len()).await;
            assert_eq!(killed, 1, "at {write} {is_carried_out}");
            let most_out = server.objects().most_out;
            assert_eq!(most_out, 1, "killed at {write} {is_carried_out}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_config_that_is_deleted_in_the_middle_turns_the_rollout_back() {
    let (server, _) = Server::begun().await;
    server.objects().by_path.remove(&config_path("60-b"));
    let (first, _) = rendered(&[source("50-a", &spec_with("a=1"))]);
    for _ in 0..PASSES {
        let store = Store::default();
        server.fill(&store, None);
        server.pass(&store).await;
        server.finish_one("");
    }
    assert!(server.is_updated(&first, NODES.len()));
    assert_eq!(server.objects().most_out, 1);
}

#[tokio::test(start_paused = true)]
async fn a_rendered_configuration_that_is_deleted_in_the_middle_is_made_again() {
    let (server, target) = Server::begun().await;
    server.objects().by_path.remove(&config_path(&target));
    server.roll(&target, NODES.len()).await;
    assert!(server.objects().by_path.contains_key(&config_path(&target)));
    assert_eq!(server.objects().most_out, 1);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_selects_other_nodes_in_the_middle_rolls_those() {
    let (server, target) = Server::begun().await;
    let part = "example.com/part";
    for name in &NODES[1..] {
        let labels = json!({ "metadata": { "labels": { part: "" } } });
        server.objects().change(&node_path(name), &labels);
    }
    let selector = json!({ "spec": { "nodeSelector": { "matchLabels": { part: "" } } } });
    {
        let mut objects = server.objects();
        let mut pool = patched(&objects.by_path[&pool_path()], &selector, "");
        pool["spec"]["nodeSelector"] = selector["spec"]["nodeSelector"].clone();
        objects.put(&pool_path(), pool);
    }
    server.roll(&target, 2).await;
    let objects = server.objects();
    let of = |name: &str| annotation_of(&objects.by_path[&node_path(name)], CURRENT).to_owned();
    assert_eq!([of("n2"), of("n3")], [target.clone(), target]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_returns_holds_the_others_and_is_named() {
    let (server, target) = Server::begun().await;
    for _ in 0..PASSES {
        let store = Store::default();
        server.fill(&store, None);
        server.pass(&store).await;
        server.finish_one("n1");
    }
    assert!(!server.is_updated(&target, NODES.len()));
    let objects = server.objects();
    assert_eq!(objects.most_out, 1);
    let conditions = &objects.by_path[&pool_path()]["status"]["conditions"];
    let waiting = conditions.as_array().unwrap().iter();
    let waiting = waiting.filter(|condition| condition["type"] == "Waiting");
    let says: Vec<&str> = waiting
        .filter_map(|waits| waits["message"].as_str())
        .collect();
    assert_eq!(says, ["n2, n3: 1 may be out at once, out: n1"]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_ten_minutes_ends_a_soak_and_keeps_the_budget() {
    let server = Server::start();
    let target = server.configure();
    let policy = json!({
        "metadata": { "name": "worker", "resourceVersion": "1" },
        "spec": { "canaries": { "soak": "5m" } }
    });
    let store = Store::default();
    for _ in 0..3 {
        server.fill(&store, Some(&policy));
        server.pass(&store).await;
        server.finish_one("");
    }
    let out = |server: &Server| {
        let nodes = server.objects().nodes();
        nodes.iter().filter(|node| is_on_its_way(node)).count()
    };
    server.fill(&store, Some(&policy));
    assert_eq!(out(&server), 0, "the others wait for the canary");
    server.objects().is_away = true;
    for _ in 0..10 {
        server.pass(&store).await;
        MINUTES.set(MINUTES.get() + 1);
    }
    // The kubelets report first; what the controller knows of the nodes is ten minutes old.
    server.objects().is_away = false;
    for name in NODES {
        server
            .objects()
            .change(&node_path(name), &json!({ "metadata": {} }));
    }
    server.pass(&store).await;
    assert_eq!(
        out(&server),
        0,
        "a node was written by what is no longer so"
    );
    for _ in 0..PASSES {
        server.fill(&store, Some(&policy));
        server.pass(&store).await;
        server.finish_one("");
        MINUTES.set(MINUTES.get() + 1);
    }
    assert!(server.is_updated(&target, NODES.len()));
    assert_eq!(server.objects().most_out, 1);
}
