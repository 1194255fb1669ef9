//! The release image: made, signed and read by the `slipway` that is released.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use image_builder::build::BuiltImage;
use image_builder::component::{COMPONENTS, KEYS, OS, ReleaseRole};
use image_builder::run::text;
use release::PullSpec;

/// Name of the release image, in the layout directory and in the registry.
pub const NAME: &str = "slipway-release";

/// Names under which OpenShift's clients look for images in a release: theirs, and ours.
const ALIASES: [(&str, &str); 2] = [
    ("cluster-version-operator", "slipway-cvo"),
    ("machine-config-operator", "slipway-mcc"),
];

const OS_ALIAS: &str = "rhel-coreos";

/// What a release image is made of.
#[derive(Debug, Clone)]
pub struct ReleaseImage<'a> {
    /// The program `slipway`.
    pub program: &'a Path,
    /// Layout directory with the components' images; the release image is put there.
    pub layout: &'a Path,
    /// Repository below which the images are published.
    pub registry: &'a str,
    pub version: &'a str,
    /// The OS of the cluster's hosts.
    pub os: &'a PullSpec,
    /// Whether the layout directory has an image of keys.
    pub has_keys: bool,
    /// Whether the OS's registry may have no TLS, or an unknown certificate.
    pub is_insecure: bool,
}

/// The key that signs a release.
#[derive(Debug, Clone)]
pub struct SigningKey {
    /// OpenPGP secret key.
    pub file: PathBuf,
    /// File with its passphrase.
    pub passphrase: Option<PathBuf>,
}

impl ReleaseImage<'_> {
    /// Makes the image.
    ///
    /// # Errors
    /// `slipway` refuses.
    pub fn make(&self) -> anyhow::Result<BuiltImage> {
        let printed = self.run(&self.new_arguments())?;
        let digest = printed.split_whitespace().next().unwrap_or_default();
        Ok(BuiltImage {
            name: NAME,
            version: self.version.to_owned(),
            digest: digest.parse().context("slipway release new")?,
        })
    }

    /// Signs the image into a directory of signatures; what `slipway` printed.
    ///
    /// # Errors
    /// `slipway` refuses: the key does not sign, or the directory cannot be written.
    pub fn sign(&self, key: &SigningKey, store: &Path) -> anyhow::Result<String> {
        self.run(&self.sign_arguments(key, store))
    }

    fn location(&self, name: &str) -> String {
        format!("oci:{}:{name}", self.layout.display())
    }

    fn new_arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = ["release", "new", "--name", self.version]
            .map(str::to_owned)
            .into();
        arguments.extend(["--published-at".to_owned(), self.registry.to_owned()]);
        arguments.extend(["--to-image".to_owned(), self.location(NAME)]);
        let own = COMPONENTS
            .iter()
            .map(|component| (component.name, component.name));
        let keys = self.has_keys.then_some((KEYS, KEYS));
        for (name, image) in own.chain(ALIASES).chain(keys) {
            arguments.push(format!("{name}={}", self.location(image)));
        }
        if self.is_insecure {
            arguments.push("--insecure".to_owned());
        }
        for name in [OS, OS_ALIAS] {
            arguments.push(format!("{name}={}", self.os));
        }
        // No manifest of a release needs them, and people do.
        let components = COMPONENTS
            .iter()
            .filter(|component| component.role == ReleaseRole::Component);
        let kept = components.map(|component| component.name).chain([OS_ALIAS]);
        arguments.push(format!("--include={}", kept.collect::<Vec<_>>().join(",")));
        arguments
    }

    fn sign_arguments(&self, key: &SigningKey, store: &Path) -> Vec<String> {
        let reference = format!("{}/{NAME}:{}", self.registry, self.version);
        let mut arguments: Vec<String> = ["release", "sign"].map(str::to_owned).into();
        arguments.push(self.location(NAME));
        arguments.extend(["--reference".to_owned(), reference]);
        arguments.extend(["--key".to_owned(), key.file.display().to_string()]);
        if let Some(file) = &key.passphrase {
            arguments.extend(["--passphrase-file".to_owned(), file.display().to_string()]);
        }
        arguments.extend(["--store".to_owned(), store.display().to_string()]);
        arguments
    }

    fn run(&self, arguments: &[String]) -> anyhow::Result<String> {
        let program = self.program.display().to_string();
        let mut words = vec![program.as_str()];
        words.extend(arguments.iter().map(String::as_str));
        text(Path::new("."), &words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_image(check: impl FnOnce(&ReleaseImage<'_>)) {
        let os = format!("registry.example/os@sha256:{}", "0".repeat(64));
        let os: PullSpec = os.parse().unwrap();
        check(&ReleaseImage {
            program: Path::new("slipway"),
            layout: Path::new("out/images"),
            registry: "registry.example/slipway",
            version: "0.2.0",
            os: &os,
            has_keys: true,
            is_insecure: false,
        });
    }

    #[test]
    fn release_has_each_component_the_os_and_the_names_that_clients_know() {
        with_image(|image| {
            let arguments = image.new_arguments();
            let has = |expected: &str| arguments.iter().any(|one| one == expected);
            for component in COMPONENTS {
                let name = component.name;
                assert!(has(&format!("{name}=oci:out/images:{name}")), "{name}");
            }
            assert!(has("cluster-version-operator=oci:out/images:slipway-cvo"));
            assert!(has("machine-config-operator=oci:out/images:slipway-mcc"));
            assert!(has(
                "cluster-update-keys=oci:out/images:cluster-update-keys"
            ));
            assert!(has(&format!("rhel-coreos={}", image.os)));
            assert!(has(&format!("slipway-os={}", image.os)));
            let kept = "--include=slipway-mcs,slipway-os-builder,slipway-muo,\
                        slipway-update-service,rhel-coreos";
            assert!(has(kept), "{arguments:?}");
        });
    }

    #[test]
    fn image_is_signed_under_its_name_in_the_registry() {
        with_image(|image| {
            let key = SigningKey {
                file: "key.asc".into(),
                passphrase: Some("words".into()),
            };
            assert_eq!(
                image
                    .sign_arguments(&key, Path::new("out/signatures"))
                    .join(" "),
                "release sign oci:out/images:slipway-release --reference \
                 registry.example/slipway/slipway-release:0.2.0 --key key.asc --passphrase-file \
                 words --store out/signatures"
            );
        });
    }
}
