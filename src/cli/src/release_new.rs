//! `slipway release new`: a release image from operators' images.
//!
//! - `inputs`: the images that it is made of

mod inputs;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use images::draft::Built;
use images::image::Platform;
use images::tree::EntryContent;
use images::{Draft, Image, ImageLocation, Stores, Tree};
use jiff::Timestamp;
use release::assembly::{Assembly, BASE, ReleaseRequest, assemble};
use release::claim::{Claim, ClaimForm};
use release::image_policy::{self, ImageKey};
use release::payload::Files;
use release::references::annotation::FROM_RELEASE;
use release::verification::{self, SignatureTrust};
use release::{
    BASE_LABEL, Manifest, Metadata, RELEASE_LABEL, RELEASE_MANIFESTS, Version, component_versions,
    os_streams, scope,
};
use signatures::sigstore::SigstoreSigner;
use signatures::sigstore::key::VerifyingKey;

use self::inputs::Inputs;
use crate::access::{AccessArgs, open};
use crate::failure::{Several, Usage};
use crate::image_signatures::{self, SigningArgs};
use crate::output::{print, warn};
use crate::{release_extract, release_sign};

/// Modes of the directory and the files of a release, as `oc` gives them.
const DIRECTORY_MODE: u32 = 0o777;
const FILE_MODE: u32 = 0o444;

/// `slipway release new`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("to").required(true).multiple(true).args(["to_image", "to_dir", "dry_run"]))]
pub struct NewArgs {
    /// Image of this name, in place of one of the inputs; manifests of all of its layers count
    #[arg(value_name = "NAME=IMAGE", value_parser = named_image)]
    pub images: Vec<(String, ImageLocation)>,
    /// ImageStream whose tags name the images
    #[arg(long, short = 'f', value_name = "FILE", conflicts_with_all = ["from_release", "from_dir"])]
    pub from_image_stream_file: Option<PathBuf>,
    /// Release whose images, neighbours and metadata are taken over
    #[arg(long, value_name = "IMAGE", conflicts_with = "from_dir")]
    pub from_release: Option<ImageLocation>,
    /// Directory with image-references, which names the images, and a directory of manifests for
    /// each operator
    #[arg(long, value_name = "DIRECTORY")]
    pub from_dir: Option<PathBuf>,
    /// Version of the release [default: that of --from-release]
    #[arg(long, value_name = "VERSION")]
    pub name: Option<Version>,
    /// Releases that may be updated to this one
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    pub previous: Vec<Version>,
    /// Releases that this one may be updated to
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    pub next: Vec<Version>,
    /// What else is known of the release: a JSON object of texts
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
    /// Versions of components that no image carries: a=1.0.0,b=2.0.0
    #[arg(long, value_name = "LIST", default_value = "")]
    pub component_versions: String,
    /// Images that are kept although no manifest needs them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub include: Vec<String>,
    /// Images of the inputs that are left out
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub exclude: Vec<String>,
    /// Keep placeholders of images that are not among the inputs
    #[arg(long)]
    pub allow_missing_images: bool,
    /// Name the streams of OS images that labels io.openshift.os.streamclass of the images name
    #[arg(long)]
    pub os_streams: bool,
    /// Public key whose signatures clusters ask for, once for each keyring; named by the file
    #[arg(long, value_name = "FILE", requires = "verification_store")]
    pub verification_key: Vec<PathBuf>,
    /// Where clusters find signatures: https://…, http://… or file://…
    #[arg(long, value_name = "ADDRESS", requires = "verification_key")]
    pub verification_store: Vec<String>,
    /// Public key of cosign that must have signed images: becomes ClusterImagePolicy openshift
    #[arg(long, value_name = "FILE")]
    pub verification_sigstore_key: Option<PathBuf>,
    /// Registry, repository or image that it must have signed [default: repository of --to-image]
    #[arg(long, value_name = "SCOPE", requires = "verification_sigstore_key")]
    pub verification_scope: Vec<String>,
    /// Sigstore.
    #[command(flatten)]
    pub signing: SigningArgs,
    /// Where images of layout directories are published: each is named REPOSITORY/NAME, by its name
    /// in the directory and its digest
    #[arg(long, value_name = "REPOSITORY")]
    pub published_at: Option<String>,
    /// Image to stand on [default: the input cluster-version-operator, else none]
    #[arg(long, value_name = "IMAGE")]
    pub to_image_base: Option<ImageLocation>,
    /// Where the release image is put
    #[arg(long, value_name = "IMAGE")]
    pub to_image: Option<ImageLocation>,
    /// Directory that the release's files are written to
    #[arg(long, value_name = "DIRECTORY")]
    pub to_dir: Option<PathBuf>,
    /// Make the release and put it nowhere
    #[arg(long)]
    pub dry_run: bool,
    /// When the image was made, as it says [default: when the newest of its images was made]
    #[arg(long, value_name = "TIME")]
    pub created: Option<Timestamp>,
    /// File that the statement to sign is written to
    #[arg(long, value_name = "FILE", requires = "to_image")]
    pub to_signature: Option<PathBuf>,
    /// Registries.
    #[command(flatten)]
    pub access: AccessArgs,
}

pub(crate) async fn run(arguments: NewArgs) -> anyhow::Result<()> {
    let stores = arguments.access.stores()?;
    let signer = signer(&arguments)?;
    let inputs = inputs::read(&stores, &arguments).await?;
    let (assembly, is_unchanged) = assembly(&arguments, &inputs)?;
    let version = assembly.references.name.clone();
    for warning in &assembly.warnings {
        warn(warning);
    }
    let created = created(&arguments, &inputs);
    // Made whole before anything is put anywhere.
    let built = match &inputs.release {
        Some(release) if is_unchanged => Built::copy_of(&stores, &release.image).await?,
        _ => build(&stores, &arguments, &inputs, &assembly, created).await?,
    };
    let digest = built.digest().clone();
    let shown_created = match &inputs.release {
        Some(release) if is_unchanged => release.image.created().unwrap_or(created),
        _ => created,
    };
    if let Some(directory) = &arguments.to_dir {
        release_extract::write(directory, &assembly.files)?;
    }
    if let Some(location) = &arguments.to_image {
        stores.put(&built, location).await?;
        if let Some(file) = &arguments.to_signature {
            let claim = Claim {
                digest: digest.clone(),
                reference: location.to_string(),
                creator: None,
                timestamp_secs: None,
            };
            release_extract::write_file(file, &claim.print(ClaimForm::OpenPgp))?;
        }
        if let Some(signer) = signer {
            let named = (&*location.to_string(), release_sign::CREATOR);
            let digests = [digest.clone()];
            image_signatures::sign(&stores, &signer, location, &digests, named).await?;
        }
    }
    print(format!("{digest} {version} {shown_created}\n"))
}

/// The release's files, and whether they are those of the release that was taken over.
fn assembly(arguments: &NewArgs, inputs: &Inputs) -> anyhow::Result<(Assembly, bool)> {
    let mut request = request(arguments, inputs)?;
    let mut assembly = assemble(&request).map_err(Several::new)?;
    let Some(release) = &inputs.release else {
        return Ok((assembly, false));
    };
    let has_verification = |files: &Files| files.contains_key(verification::FILE);
    if has_verification(&release.files) && !has_verification(&assembly.files) {
        // No operator brings it: the release was made with the options that ask for it.
        let taken = SignatureTrust::of(&release.payload.manifests).transpose();
        request.verification = taken.with_context(|| format!("image {}", release.image.name()))?;
        assembly = assemble(&request).map_err(Several::new)?;
    }
    let policy = release.files.get(image_policy::FILE);
    if policy.is_some() && !assembly.files.contains_key(image_policy::FILE) {
        // No operator brings it, either.
        request.image_policy = policy.cloned();
        assembly = assemble(&request).map_err(Several::new)?;
    }
    if has_streams(&release.files) && !has_streams(&assembly.files) {
        // No operator brings them: the release was made with the option.
        request.os_streams = true;
        assembly = assemble(&request).map_err(Several::new)?;
    }
    if assembly.files == release.files && arguments.to_image_base.is_none() {
        return Ok((assembly, true));
    }
    let digest = release.image.outer_digest();
    let from = release.image.name().pull_spec(digest);
    let from = from.map_or_else(|| digest.to_string(), |spec| spec.to_string());
    request.annotations.insert(FROM_RELEASE.to_owned(), from);
    Ok((assemble(&request).map_err(Several::new)?, false))
}

/// Whether files of a release name streams of OS images.
fn has_streams(files: &Files) -> bool {
    let is_map = |manifest: &Manifest| {
        let data = manifest.object.get("data");
        let streams = data.and_then(|data| data.get(os_streams::STREAMS_KEY));
        let is_it = manifest.id.kind == "ConfigMap" && manifest.id.name == os_streams::OS_IMAGE;
        is_it && streams.is_some()
    };
    files.iter().any(|(file, bytes)| {
        let manifests = Manifest::parse(file, bytes);
        manifests.is_ok_and(|manifests| manifests.iter().any(is_map))
    })
}

fn request(arguments: &NewArgs, inputs: &Inputs) -> anyhow::Result<ReleaseRequest> {
    let taken = inputs
        .release
        .as_ref()
        .map(|release| &release.payload.metadata);
    let mut metadata = match (&arguments.name, taken) {
        (Some(version), Some(taken)) => Metadata {
            version: version.clone(),
            ..taken.clone()
        },
        (Some(version), None) => Metadata::new(version.clone()),
        (None, Some(taken)) => taken.clone(),
        (None, None) => return Err(anyhow!("--name is missing: what is the release's version?")),
    };
    if !arguments.previous.is_empty() {
        metadata.previous = arguments.previous.iter().cloned().collect();
    }
    if !arguments.next.is_empty() {
        metadata.next = arguments.next.iter().cloned().collect();
    }
    if let Some(json) = &arguments.metadata {
        let more: BTreeMap<String, String> =
            serde_json::from_str(json).context("--metadata is no JSON object of texts")?;
        metadata.metadata.extend(more);
    }
    // The version operator would refuse each return because of it.
    metadata.rollback_sources().context("--metadata")?;
    let components = component_versions::parse(&arguments.component_versions, "");
    Ok(ReleaseRequest {
        metadata,
        annotations: inputs.annotations.clone(),
        images: inputs.images.clone(),
        include: arguments.include.iter().cloned().collect(),
        component_versions: components.context("--component-versions")?,
        verification: asked_verification(arguments)?,
        image_policy: asked_policy(arguments)?,
        allow_missing_images: arguments.allow_missing_images,
        os_streams: arguments.os_streams,
    })
}

fn asked_verification(arguments: &NewArgs) -> anyhow::Result<Option<SignatureTrust>> {
    if arguments.verification_key.is_empty() {
        return Ok(None);
    }
    let mut keyrings = BTreeMap::new();
    for path in &arguments.verification_key {
        let shown = path.display();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| anyhow!("{shown} is no file name"))?;
        let ring = signatures::Keyring::parse(name, &bytes);
        let ring = ring.with_context(|| format!("key {shown}"))?;
        for (key, algorithm) in ring.unknown_to_clients() {
            warn(&format!(
                "key {shown}: OpenShift's clients cannot read {key} ({algorithm}), and `oc adm release mirror` refuses a release with it: take an RSA key"
            ));
        }
        if keyrings.insert(name.to_owned(), bytes).is_some() {
            return Err(anyhow!("two keys are named {name}"));
        }
    }
    let stores = arguments.verification_store.iter().enumerate();
    let stores = stores.map(|(number, address)| {
        let address = address.trim_end_matches('/').to_owned();
        (format!("{}", number + 1), address)
    });
    Ok(Some(SignatureTrust {
        keyrings,
        stores: stores.collect(),
    }))
}

/// The policy of the public key, which has to be one that clusters can use.
fn asked_policy(arguments: &NewArgs) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(path) = &arguments.verification_sigstore_key else {
        return Ok(None);
    };
    let shown = path.display();
    let key = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    VerifyingKey::of_pem(&key).with_context(|| format!("key {shown}"))?;
    let repository = match &arguments.to_image {
        Some(location @ ImageLocation::Registry(_)) => {
            Some(scope::repository(&location.to_string()).to_owned())
        }
        Some(ImageLocation::Layout { .. }) | None => None,
    };
    let mut scopes = arguments.verification_scope.clone();
    if scopes.is_empty() {
        scopes.extend(repository);
    }
    if scopes.is_empty() {
        bail!(Usage(
            "--verification-sigstore-key: --verification-scope names no images, and --to-image no \
             repository of a registry"
                .to_owned()
        ));
    }
    if let Some(scope) = scopes.iter().find(|scope| scope.is_empty()) {
        bail!(Usage(format!(
            "--verification-scope: {scope:?} is no scope"
        )));
    }
    Ok(Some(ImageKey { key, scopes }.print()))
}

/// The key that signs the release once it is put there.
fn signer(arguments: &NewArgs) -> anyhow::Result<Option<SigstoreSigner>> {
    let signer = arguments.signing.signer()?;
    let is_in_registry = matches!(arguments.to_image, Some(ImageLocation::Registry(_)));
    if signer.is_some() && !is_in_registry {
        bail!(Usage(
            "--sigstore-key: a signature lies beside an image, and --to-image names none in a \
             registry"
                .to_owned()
        ));
    }
    Ok(signer)
}

/// When the image was made: as requested, or when the newest of what it is made of was.
///
/// So the same images make the same release, to the byte, whenever it is made.
fn created(arguments: &NewArgs, inputs: &Inputs) -> Timestamp {
    let newest = inputs.opened.values().filter_map(Image::created).max();
    arguments
        .created
        .or(newest)
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

async fn build(
    stores: &Stores,
    arguments: &NewArgs,
    inputs: &Inputs,
    assembly: &Assembly,
    created: Timestamp,
) -> anyhow::Result<Built> {
    let chosen = match &arguments.to_image_base {
        Some(location) => Some(open(stores, location).await?),
        None => None,
    };
    let base = chosen.as_ref().or_else(|| inputs.opened.get(BASE));
    let any = base.or_else(|| inputs.opened.values().next());
    let platform = any.map_or_else(Platform::of_this_machine, Image::platform);
    let mut draft = Draft::new(platform, created);
    let version = &assembly.references.name;
    draft
        .labels
        .insert(RELEASE_LABEL.to_owned(), version.clone());
    match base {
        Some(base) => {
            draft.push_image(stores, base).await?;
            let digest = base.digest().to_string();
            draft.labels.insert(BASE_LABEL.to_owned(), digest);
        }
        None => warn(&format!(
            "no input is named {BASE}: the image holds the release's files only"
        )),
    }
    let layer = tree(&assembly.files)?.layer(created);
    let layer = layer.context("cannot make the release's layer")?;
    draft.push(layer, &format!("release {version}"));
    draft.build().context("cannot make the release image")
}

fn tree(files: &Files) -> anyhow::Result<Tree> {
    let mut tree = Tree::new();
    tree.put_directory(RELEASE_MANIFESTS, DIRECTORY_MODE)?;
    for (name, bytes) in files {
        let path = format!("{RELEASE_MANIFESTS}/{name}");
        tree.put(&path, FILE_MODE, EntryContent::Bytes(bytes.clone()))?;
    }
    Ok(tree)
}

/// Why a text is no named image.
#[derive(Debug, thiserror::Error)]
enum NoNamedImage {
    #[error("it is not NAME=IMAGE")]
    NoPair,
    #[error(transparent)]
    Image(#[from] images::location::Error),
}

fn named_image(text: &str) -> Result<(String, ImageLocation), NoNamedImage> {
    let (name, image) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or(NoNamedImage::NoPair)?;
    Ok((name.to_owned(), image.parse()?))
}
