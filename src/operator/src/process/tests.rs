use std::sync::Mutex;

use chassis::health::Probes as _;
use chassis::shutdown;
use tokio::sync::Notify;

use super::*;

/// Why a key fails.
#[derive(Debug, thiserror::Error)]
#[error("the key fails")]
struct Failure;

/// Keeps the keys that it was called with, in order.
#[derive(Debug, Default)]
struct Recorder {
    keys: Vec<&'static str>,
    called: Arc<Mutex<Vec<String>>>,
    /// What `slow` waits for.
    slow: Arc<Notify>,
    /// Whether it has a last word.
    has_last: bool,
}

impl Reconcile for Recorder {
    type Key = String;
    type Error = Failure;

    fn keys(&self) -> Vec<String> {
        self.keys.iter().map(ToString::to_string).collect()
    }

    async fn reconcile(&self, key: &String) -> Result<Next, Failure> {
        self.called.lock().unwrap().push(key.clone());
        match key.as_str() {
            "bad" => Err(Failure),
            "slow" => {
                self.slow.notified().await;
                self.called
                    .lock()
                    .unwrap()
                    .push("slow has ended".to_owned());
                Ok(Next::Gone)
            }
            _ => Ok(Next::Settled),
        }
    }

    async fn finish(&self) {
        if self.has_last {
            self.called.lock().unwrap().push("last".to_owned());
            std::future::pending::<()>().await;
        }
    }
}

fn operator() -> Operator<String> {
    let (_, client) = apimock::Script::start(vec![]);
    Operator::new("toy", Arc::new(Access::of_client(client)))
}

/// Runs a controller of these keys for `time`; the calls.
async fn run_for(keys: &[&'static str], time: Duration) -> Vec<String> {
    let recorder = Recorder {
        keys: keys.to_vec(),
        ..Recorder::default()
    };
    let called = Arc::clone(&recorder.called);
    let (trigger, shutdown) = shutdown::pair();
    let (result, ()) = tokio::join!(operator().run(recorder, shutdown), async {
        tokio::time::sleep(time).await;
        trigger.fire();
    });
    result.unwrap();
    let called = called.lock().unwrap();
    called.clone()
}

#[tokio::test(start_paused = true)]
async fn each_key_is_reconciled_at_the_start_and_with_each_resync() {
    let mut called = run_for(&["a", "b"], Duration::from_secs(1)).await;
    called.sort_unstable();
    assert_eq!(called, ["a", "b"]);
    let called = run_for(&["a"], Duration::from_hours(1)).await.len();
    assert!((6..=13).contains(&called), "{called}");
}

#[tokio::test(start_paused = true)]
async fn failing_key_is_tried_again_and_keeps_no_other_waiting() {
    let called = run_for(&["bad", "good"], Duration::from_secs(30)).await;
    let count = |name: &str| called.iter().filter(|key| *key == name).count();
    assert!((5..=8).contains(&count("bad")), "{called:?}");
    assert_eq!(count("good"), 1);
}

#[tokio::test(start_paused = true)]
async fn running_reconcile_ends_before_the_process() {
    let recorder = Recorder {
        keys: vec!["slow"],
        ..Recorder::default()
    };
    let (called, slow) = (Arc::clone(&recorder.called), Arc::clone(&recorder.slow));
    let (trigger, shutdown) = shutdown::pair();
    let (result, ()) = tokio::join!(operator().run(recorder, shutdown), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        trigger.fire();
        tokio::time::sleep(GRACE / 2).await;
        slow.notify_one();
    });
    result.unwrap();
    assert_eq!(*called.lock().unwrap(), ["slow", "slow has ended"]);
}

#[tokio::test(start_paused = true)]
async fn reconcile_that_does_not_end_keeps_the_process_for_its_grace_at_most() {
    let began = Instant::now();
    assert_eq!(run_for(&["slow"], Duration::from_secs(1)).await, ["slow"]);
    assert_eq!(began.elapsed(), Duration::from_secs(1) + GRACE);
}

#[tokio::test(start_paused = true)]
async fn last_word_comes_after_all_reconciles_and_has_a_few_seconds() {
    let recorder = Recorder {
        keys: vec!["slow"],
        has_last: true,
        ..Recorder::default()
    };
    let (called, slow) = (Arc::clone(&recorder.called), Arc::clone(&recorder.slow));
    let (trigger, shutdown) = shutdown::pair();
    let began = Instant::now();
    let (result, ()) = tokio::join!(operator().run(recorder, shutdown), async {
        trigger.fire();
        tokio::time::sleep(Duration::from_secs(1)).await;
        slow.notify_one();
    });
    result.unwrap();
    let called = called.lock().unwrap().clone();
    assert_eq!(
        called.last().map(String::as_str),
        Some("last"),
        "{called:?}"
    );
    assert!(began.elapsed() >= LAST && began.elapsed() < LAST + GRACE);
}

#[tokio::test(start_paused = true)]
async fn key_is_stuck_from_its_deadline_to_its_end() {
    let recorder = Recorder::default();
    let health = Health::new(Duration::from_mins(10));
    let work = reconcile(&recorder, &health, "slow".to_owned());
    let looking = async {
        tokio::time::sleep(Duration::from_mins(9)).await;
        health.healthy().unwrap();
        tokio::time::sleep(Duration::from_mins(2)).await;
        let why = health.healthy().unwrap_err().to_string();
        assert!(why.ends_with("600 s: slow"), "{why}");
        recorder.slow.notify_one();
    };
    tokio::join!(work, looking);
    health.healthy().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_ends_the_process() {
    let mut operator = operator();
    operator.watches.push(Watch {
        has_synced: Box::new(|| false),
        follow: Box::pin(async { panic!("a watch panics") }),
    });
    let (_trigger, shutdown) = shutdown::pair();
    let result = operator.run(Recorder::default(), shutdown).await;
    assert!(matches!(result, Err(Error::Watch(_))), "{result:?}");
}
