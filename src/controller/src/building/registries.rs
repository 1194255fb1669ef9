//! What registries have, and what is removed from them.

use std::collections::BTreeMap;
use std::time::Duration;

use api::machineconfiguration::{MachineOSBuild, NAMESPACE};
use cluster::wire;
use image_build::inputs::{registries, trust};
use image_build::login::BuildLogin;
use image_build::observed::{ImageRemoval, RegistryReply, WantedBuild};
use image_build::registries::is_insecure;
use image_build::step::CHECK;
use images::{Credentials, ImageLocation, ImageReply, Stores};
use jiff::{SignedDuration, Timestamp};

use super::Building;
use crate::context::lock;
use crate::decide::building::is_missed;
use crate::store::Snapshot;

/// How long it counts that an image is there, though a node cannot fetch it.
pub(super) const MISSED: Duration = Duration::from_secs(30);

/// What registries said of images, and when.
#[derive(Debug, Default)]
pub(super) struct SeenImages(BTreeMap<String, (Timestamp, RegistryReply)>);

impl SeenImages {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// What a registry said within this time: only that an image is there is remembered.
    fn lately(&self, image: &str, now: Timestamp, within: Duration) -> Option<RegistryReply> {
        let (seen, reply) = self.0.get(image)?;
        let age = now.duration_since(*seen);
        let limit = SignedDuration::try_from(within).ok()?;
        (age < limit && !age.is_negative()).then(|| reply.clone())
    }

    fn note(&mut self, image: &str, now: Timestamp, reply: &RegistryReply) {
        if matches!(reply, RegistryReply::Present(_)) {
            self.0.insert(image.to_owned(), (now, reply.clone()));
        } else {
            self.0.remove(image);
        }
    }
}

impl Building<'_> {
    /// Whether an image is in its registry, or what its tag names.
    pub(super) async fn look_up(
        &self,
        snapshot: &Snapshot,
        wanted: &WantedBuild,
        image: &str,
        may_be_remembered: bool,
    ) -> Result<RegistryReply, wire::Error> {
        let now = self.now();
        let within = if is_missed(snapshot, self.name, image) {
            MISSED
        } else {
            CHECK
        };
        let remembered = lock(self.state).images.lately(image, now, within);
        if let Some(reply) = remembered.filter(|_| may_be_remembered) {
            return Ok(reply);
        }
        let secret = match wanted {
            WantedBuild::Image(plan) => plan.inputs.push_secret.clone(),
            WantedBuild::NotYet | WantedBuild::Refused(_) => String::new(),
        };
        let stores = match self.stores(snapshot, &secret, image).await? {
            Ok(stores) => stores,
            Err(why) => return Ok(RegistryReply::NotAllowed(why)),
        };
        let location: Result<ImageLocation, _> = image.parse();
        let reply = match location {
            Ok(location) => match stores.look_up(&location).await {
                ImageReply::Done(digest) => RegistryReply::Present(digest.to_string()),
                ImageReply::Absent => RegistryReply::Absent,
                ImageReply::NoRepository => RegistryReply::NoRepository,
                ImageReply::NotAllowed(why) => RegistryReply::NotAllowed(why),
                ImageReply::NotSupported(why) => RegistryReply::NotSupported(why),
                ImageReply::Unreachable(why) => RegistryReply::Unreachable(why),
            },
            Err(error) => RegistryReply::NotSupported(error.to_string()),
        };
        lock(self.state).images.note(image, now, &reply);
        Ok(reply)
    }

    /// Has an image removed from its registry.
    pub(super) async fn remove_image(
        &self,
        snapshot: &Snapshot,
        image: &str,
        push_secret: &str,
    ) -> Result<ImageRemoval, wire::Error> {
        let stores = match self.stores(snapshot, push_secret, image).await? {
            Ok(stores) => stores,
            Err(why) => {
                tracing::warn!(
                    image,
                    reason = why,
                    "an unneeded image stays in its registry"
                );
                return Ok(ImageRemoval::Stays(why));
            }
        };
        let location: Result<ImageLocation, _> = image.parse();
        let reply = match location {
            Ok(location) => stores.remove(&location).await,
            Err(error) => ImageReply::NotSupported(error.to_string()),
        };
        Ok(match reply {
            ImageReply::Done(()) => {
                tracing::info!(image, "removed an unneeded image from its registry");
                ImageRemoval::Gone
            }
            ImageReply::Absent | ImageReply::NoRepository => ImageRemoval::Gone,
            ImageReply::NotSupported(why) => {
                tracing::warn!(
                    image,
                    reason = why,
                    "an unneeded image stays in its registry"
                );
                ImageRemoval::Stays(why)
            }
            ImageReply::NotAllowed(why) | ImageReply::Unreachable(why) => ImageRemoval::Later(why),
        })
    }

    /// Whether the pool's nodes take the registry of an image without TLS.
    async fn is_insecure(&self, snapshot: &Snapshot, image: &str) -> Result<bool, wire::Error> {
        if self.options.is_insecure {
            return Ok(true);
        }
        let cached = {
            let state = lock(self.state);
            let inputs = state.inputs.get(self.name).map(|(_, inputs)| inputs);
            let inputs = inputs.and_then(|inputs| inputs.as_ref().ok());
            inputs.map(|inputs| inputs.registries.clone())
        };
        let settings = if let Some(settings) = cached {
            settings
        } else {
            let pool = snapshot.pools.get(self.name);
            match pool.and_then(|pool| pool.object.spec.configuration.name()) {
                Some(name) => {
                    let rendered = self.context.requests.read_config(name).await?;
                    rendered.as_ref().and_then(registries)
                }
                None => None,
            }
        };
        Ok(is_insecure(settings.as_deref(), image))
    }

    /// Access to the registry of an image with the credentials of a Secret; else what is wrong with
    /// it.
    async fn stores(
        &self,
        snapshot: &Snapshot,
        secret: &str,
        image: &str,
    ) -> Result<Result<Stores, String>, wire::Error> {
        let place = (NAMESPACE, secret);
        let found = self.read_secret(place).await?;
        let object = format!("MachineOSConfig {}", self.name);
        let field = "spec.renderedImagePushSecret.name";
        let login = match BuildLogin::read(&object, field, place, found.as_ref()) {
            Ok(login) => login,
            Err(refusal) => return Ok(Err(refusal.why)),
        };
        let credentials = match Credentials::parse(login.as_json().as_bytes()) {
            Ok(credentials) => credentials,
            Err(error) => return Ok(Err(format!("Secret {NAMESPACE}/{secret}: {error}"))),
        };
        let is_insecure = self.is_insecure(snapshot, image).await?;
        let mut stores = Stores::new(credentials, is_insecure);
        // Inputs that cannot be read are refused where they are built from.
        let trusted = snapshot.controller_config().map(trust);
        if let Some(Ok(trusted)) = trusted.filter(|it| it.as_ref().is_ok_and(|it| !it.is_empty())) {
            stores = stores.trusting(trusted.into_bytes());
        }
        Ok(Ok(stores))
    }

    /// What was seen of a build's image is asked again.
    pub(super) fn forget_image(&self, build: &MachineOSBuild) {
        let status = build.status.as_ref();
        let image = status.and_then(|status| status.digested_image_push_spec.as_deref());
        if let Some(image) = image {
            lock(self.state).images.0.remove(image);
        }
    }
}
