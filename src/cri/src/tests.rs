//! The client against a runtime that is not made of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use fakecri::{FakePull, FakeRuntime, SeenPull, id};
use node_update::pins::RegistryLogin;

use crate::{Error, RuntimeClient, RuntimeKind};

const NOW: Duration = Duration::ZERO;

#[tokio::test]
async fn the_first_runtime_that_responds_is_found() {
    let host = tempfile::tempdir().unwrap();
    let _containerd = FakeRuntime::containerd(host.path());
    let found = RuntimeClient::find(host.path(), NOW).await.unwrap();
    assert_eq!(found.kind(), RuntimeKind::Containerd);
    // A socket that a killed runtime left.
    let socket = host.path().join("var/run/crio/crio.sock");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    drop(UnixListener::bind(&socket).unwrap());
    let found = RuntimeClient::find(host.path(), NOW).await.unwrap();
    assert_eq!(found.kind(), RuntimeKind::Containerd);
    fs::remove_file(&socket).unwrap();
    let _crio = FakeRuntime::crio(host.path());
    let found = RuntimeClient::find(host.path(), NOW).await.unwrap();
    assert_eq!(found.kind(), RuntimeKind::CriO);
}

#[tokio::test]
async fn without_a_runtime_both_sockets_are_named() {
    let host = tempfile::tempdir().unwrap();
    let error = RuntimeClient::find(host.path(), NOW).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::NoRuntime), "{text}");
    for kind in RuntimeKind::ALL {
        assert!(text.contains(kind.socket()), "{text}");
        let socket = host.path().join(kind.socket().trim_start_matches('/'));
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        drop(UnixListener::bind(&socket).unwrap());
    }
    let error = RuntimeClient::find(host.path(), NOW).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::NoResponse { .. }), "{text}");
    for kind in RuntimeKind::ALL {
        let cause = format!("{}: Connection refused", kind.socket());
        assert!(text.contains(&cause), "{text}");
    }
}

#[tokio::test]
async fn a_runtime_that_restarts_is_waited_for() {
    let host = tempfile::tempdir().unwrap();
    let (found, _crio) = tokio::join!(
        RuntimeClient::find(host.path(), Duration::from_mins(1)),
        async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            FakeRuntime::crio(host.path())
        }
    );
    assert_eq!(found.unwrap().kind(), RuntimeKind::CriO);
}

#[tokio::test]
async fn an_image_is_there_once_it_is_pulled() {
    let host = tempfile::tempdir().unwrap();
    let crio = FakeRuntime::crio(host.path());
    let client = RuntimeClient::find(host.path(), NOW).await.unwrap();
    assert_eq!(client.image_status("a").await.unwrap(), None);
    client.pull("a", None).await.unwrap();
    let state = client.image_status("a").await.unwrap().unwrap();
    assert_eq!((state.id, state.is_pinned), (id("a"), false));
    let login = RegistryLogin {
        server: "quay.io:443".to_owned(),
        user: "robot".to_owned(),
        password: "hunter2".to_owned(),
        identity_token: String::new(),
    };
    client.pull("b", Some(&login)).await.unwrap();
    let seen = |image: &str, login: Option<[&str; 3]>| SeenPull {
        image: image.to_owned(),
        login: login.map(|[user, password, server]| {
            (user.to_owned(), password.to_owned(), server.to_owned())
        }),
    };
    assert_eq!(
        crio.pulls(),
        [
            seen("a", None),
            seen("b", Some(["robot", "hunter2", "https://quay.io:443"]))
        ]
    );
    assert_eq!(client.image_file_systems().await.unwrap(), ["/"]);
    crio.lose_file_system();
    assert_eq!(client.image_file_systems().await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_fault_has_the_runtimes_words() {
    let host = tempfile::tempdir().unwrap();
    let crio = FakeRuntime::crio(host.path());
    let client = RuntimeClient::find(host.path(), NOW).await.unwrap();
    crio.plan("a", FakePull::Fails(1, "manifest unknown"));
    let error = client.pull("a", None).await.unwrap_err();
    assert_eq!(error.to_string(), "CRI-O cannot pull a");
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "manifest unknown");
    client.records(("a", "b")).await.unwrap_err();
}

#[tokio::test]
async fn labels_change_alone() {
    let host = tempfile::tempdir().unwrap();
    let containerd = FakeRuntime::containerd(host.path());
    let client = RuntimeClient::find(host.path(), NOW).await.unwrap();
    containerd.has("a", &[("other", "1")]);
    containerd.has("b", &[("other", "1")]);
    client
        .label(&id("a"), &[("x.y/z", "1"), ("w", "2")])
        .await
        .unwrap();
    let labels = |labels: &[(&str, &str)]| -> BTreeMap<String, String> {
        let labels = labels.iter();
        let labels = labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        labels.collect()
    };
    let all = labels(&[("other", "1"), ("x.y/z", "1"), ("w", "2")]);
    assert_eq!(containerd.labels("a").unwrap(), all);
    let found = client.records(("x.y/z", "1")).await.unwrap();
    let names: Vec<&str> = found.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, [id("a")]);
    assert_eq!(found[0].labels, all);
    client
        .label(&id("a"), &[("x.y/z", ""), ("w", "")])
        .await
        .unwrap();
    assert_eq!(containerd.labels("a").unwrap(), labels(&[("other", "1")]));
    assert_eq!(client.record(&id("c")).await.unwrap(), None);
    let there = client.record(&id("b")).await.unwrap().unwrap();
    assert_eq!(there.labels, labels(&[("other", "1")]));
    assert!(
        client
            .label(&id("c"), &[("w", "1")])
            .await
            .unwrap_err()
            .is_not_found()
    );
    client.label_if_there(&id("c"), &[("w", "")]).await.unwrap();
}
