//! Image records of containerd: one a name, with labels.
//!
//! The Container Runtime Interface shows an image as pinned while one of its records has
//! containerd's label, and has no call that sets it.

use std::collections::BTreeMap;
use std::time::Duration;

use http::uri::PathAndQuery;
use tonic::Request;
use tonic::metadata::MetadataValue;

use crate::client::RuntimeClient;
use crate::error::Error;
use crate::wire::{
    Empty, FieldMask, GetRequest, GetResponse, ListRequest, ListResponse, Record, UpdateRequest,
};

/// How long a call may take.
const WITHIN: Duration = Duration::from_mins(1);

/// The header that names the namespace of a request, and the namespace of Kubernetes' images.
const NAMESPACE: (&str, &str) = ("containerd-namespace", "k8s.io");

/// A name that containerd has for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRecord {
    /// In full: `docker.io/library/a:latest`, `quay.io/a@sha256:…`; or the image's id, `sha256:…`.
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

impl RuntimeClient {
    /// The records with a label; `value` as it is.
    ///
    /// # Errors
    /// [`Error::Call`], also where the runtime is not containerd; [`Error::Late`].
    pub async fn records(&self, (key, value): (&str, &str)) -> Result<Vec<ImageRecord>, Error> {
        let filters = vec![format!("labels.{key:?}=={value:?}")];
        let response: ListResponse = self
            .call(
                PathAndQuery::from_static("/containerd.services.images.v1.Images/List"),
                of_kubernetes(ListRequest { filters }),
                WITHIN,
                || "list its images".to_owned(),
            )
            .await?;
        let records = response.images.into_iter();
        Ok(records.map(ImageRecord::from).collect())
    }

    /// The record of a name; `None` where there is none.
    ///
    /// # Errors
    /// Those of [`Self::records`].
    pub async fn record(&self, name: &str) -> Result<Option<ImageRecord>, Error> {
        let name = name.to_owned();
        let operation = format!("read its image {name}");
        let response: Result<GetResponse, Error> = self
            .call(
                PathAndQuery::from_static("/containerd.services.images.v1.Images/Get"),
                of_kubernetes(GetRequest { name }),
                WITHIN,
                || operation.clone(),
            )
            .await;
        match response {
            Ok(response) => Ok(response.image.map(ImageRecord::from)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets labels of a record; an empty value removes one. All others stay.
    ///
    /// # Errors
    /// Those of [`Self::records`]; a record that is not there is one of them.
    pub async fn label(&self, name: &str, labels: &[(&str, &str)]) -> Result<(), Error> {
        let paths = labels.iter().map(|(key, _)| format!("labels.{key}"));
        let set = labels.iter();
        let set = set.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let request = UpdateRequest {
            update_mask: Some(FieldMask {
                paths: paths.collect(),
            }),
            image: Some(Record {
                name: name.to_owned(),
                labels: set.collect(),
                target: Some(Empty {}),
            }),
        };
        let updated: Result<Empty, Error> = self
            .call(
                PathAndQuery::from_static("/containerd.services.images.v1.Images/Update"),
                of_kubernetes(request),
                WITHIN,
                || format!("label its image {name}"),
            )
            .await;
        updated.map(|_| ())
    }

    /// The same, where a record that is gone meanwhile needs no label any more.
    ///
    /// # Errors
    /// Those of [`Self::records`].
    pub async fn label_if_there(&self, name: &str, labels: &[(&str, &str)]) -> Result<(), Error> {
        match self.label(name, labels).await {
            Err(error) if error.is_not_found() => Ok(()),
            labelled => labelled,
        }
    }
}

impl From<Record> for ImageRecord {
    fn from(record: Record) -> Self {
        Self {
            name: record.name,
            labels: record.labels,
        }
    }
}

fn of_kubernetes<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let (key, namespace) = NAMESPACE;
    let metadata = request.metadata_mut();
    metadata.insert(key, MetadataValue::from_static(namespace));
    request
}
