//! Room for the writes of all pools.

use std::time::Duration;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_assignment_waits_for_room_among_those_of_all_pools() {
    // The list, and the claim: no node is written.
    let (store, calls, _, _, _) = round_of(1);
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let (recorder, _sending) = Recorder::new(Arc::clone(&access), speaker());
    let metrics = Arc::new(ControllerMetrics::default());
    let requests = Requests::new(access);
    let controller = Controller::new(requests, store, recorder, metrics, clock);
    let all = u32::try_from(ASSIGNMENTS).unwrap();
    let _taken = controller.assignments.try_acquire_many(all).unwrap();
    let work = Work::Pool("worker".to_owned());
    let work = tokio::time::timeout(Duration::from_mins(1), controller.reconcile(&work));
    let result = Box::pin(script.drive(work)).await;
    assert!(result.is_err(), "{result:?}");
}
