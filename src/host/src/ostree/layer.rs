//! Layers of an image, read ahead of what takes their archive.
//!
//! The image library reads a layer 8 KiB at a time, and each read crosses two threads. What
//! [`import`] has put into the repository, the library finds there and does not fetch.

use std::error::Error as StdError;
use std::io;

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use ostree_ext::container::store::{ManifestLayerState, PreparedImport};
use ostree_ext::gio::Cancellable;
use ostree_ext::oci_spec::image::{Descriptor, MediaType};
use ostree_ext::{ostree, tar};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::sync::oneshot;

use super::image::Opened;

/// Bytes of one read: as many as skopeo's pipe holds.
const READ_BYTES: usize = 64 << 10;

/// Bytes of a layer, as it is fetched, that wait for what takes its archive.
const AHEAD_BYTES: usize = 1 << 20;

pub(super) type Cause = Box<dyn StdError + Send + Sync>;

/// The archive in a layer.
pub(super) type LayerArchive = Box<dyn AsyncRead + Send + Unpin>;

/// Imports the layers that make up the commit of a native image, those that the repository lacks.
/// Layers on top of it are left to the image library.
///
/// # Errors
/// The cause, behind the digest of the layer.
pub(super) async fn import(
    repo: &ostree::Repo,
    opened: &Opened,
    import: &mut PreparedImport,
) -> Result<(), Cause> {
    let objects = import.ostree_layers.iter_mut().map(|layer| (layer, false));
    // The commit comes last, when its objects are there.
    let commit = (&mut import.ostree_commit_layer, true);
    for (layer, is_commit) in objects.chain([commit]) {
        if layer.commit.is_none() {
            import_one(repo, opened, layer, is_commit)
                .await
                .map_err(|cause| format!("layer {}: {cause}", layer.layer().digest()))?;
        }
    }
    Ok(())
}

async fn import_one(
    repo: &ostree::Repo,
    opened: &Opened,
    layer: &mut ManifestLayerState,
    is_commit: bool,
) -> Result<(), Cause> {
    let commit = read(opened, layer.layer(), async |archive| {
        let imported = if is_commit {
            tar::import_tar(repo, archive, None).await
        } else {
            tar::import_tar_objects(repo, archive).await
        };
        imported.map_err(|error| format!("{error:#}").into())
    })
    .await?;
    repo.set_ref_immediate(None, &layer.ostree_ref, Some(&commit), Cancellable::NONE)?;
    layer.commit = Some(commit);
    Ok(())
}

/// Has `take` read the archive of a layer. What follows the archive in the layer is read too: the
/// layer's digest covers it.
///
/// # Errors
/// That of `take`, or that of the fetch, which skopeo reports once all is read.
pub(super) async fn read<T>(
    opened: &Opened,
    layer: &Descriptor,
    take: impl AsyncFnOnce(LayerArchive) -> Result<T, Cause>,
) -> Result<T, Cause> {
    let (blob, driver) = opened
        .proxy
        .get_blob(&opened.image, layer.digest(), layer.size())
        .await?;
    let blob = BufReader::with_capacity(READ_BYTES, blob);
    let (taken, fetched) = tokio::join!(read_ahead(blob, layer.media_type(), take), driver);
    match (taken, fetched) {
        (Ok(taken), Ok(())) => Ok(taken),
        (Ok(_), Err(fetched)) => Err(fetched.into()),
        (Err(taken), Ok(())) => Err(taken),
        // skopeo finds its pipe closed where the archive is not taken to its end.
        (Err(taken), Err(fetched)) if fetched.to_string().ends_with("broken pipe") => Err(taken),
        (Err(taken), Err(fetched)) => Err(format!("{fetched}; {taken}").into()),
    }
}

async fn read_ahead<T>(
    blob: impl AsyncBufRead + Unpin,
    kind: &MediaType,
    take: impl AsyncFnOnce(LayerArchive) -> Result<T, Cause>,
) -> Result<T, Cause> {
    let (filled, ahead) = tokio::io::duplex(AHEAD_BYTES);
    let archive = archive(kind, BufReader::with_capacity(READ_BYTES, ahead));
    let (ended, is_taken) = oneshot::channel();
    let taking = async {
        let taken = take(archive).await;
        // Without a receiver, all is read already.
        ended.send(taken.is_ok()).ok();
        taken
    };
    let (taken, filled) = tokio::join!(taking, fill(blob, filled, is_taken));
    let taken = taken?;
    filled?;
    Ok(taken)
}

/// Passes on what is read, and reads the rest where the archive was taken before it came.
async fn fill(
    mut blob: impl AsyncBufRead + Unpin,
    mut ahead: impl AsyncWrite + Unpin,
    is_taken: oneshot::Receiver<bool>,
) -> io::Result<()> {
    match tokio::io::copy_buf(&mut blob, &mut ahead).await {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        copied => return copied.map(drop),
    }
    if is_taken.await != Ok(true) {
        return Ok(());
    }
    loop {
        let read = blob.fill_buf().await?.len();
        if read == 0 {
            return Ok(());
        }
        blob.consume(read);
    }
}

fn archive(kind: &MediaType, blob: impl AsyncBufRead + Send + Unpin + 'static) -> LayerArchive {
    if *kind == MediaType::ImageLayerGzip {
        let mut decoder = GzipDecoder::new(blob);
        decoder.multiple_members(true);
        Box::new(decoder)
    } else if *kind == MediaType::ImageLayerZstd {
        let mut decoder = ZstdDecoder::new(blob);
        decoder.multiple_members(true);
        Box::new(decoder)
    } else {
        // What is no archive was refused before.
        Box::new(blob)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
    use tokio::io::{AsyncReadExt as _, ReadBuf};
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    /// More than all buffers on the way hold.
    const TAIL: usize = 4 * AHEAD_BYTES;

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    async fn all(mut reader: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).await?;
        Ok(bytes)
    }

    async fn taken(kind: &MediaType, mut blob: &[u8]) -> Result<Vec<u8>, Cause> {
        read_ahead(&mut blob, kind, async |archive| Ok(all(archive).await?)).await
    }

    #[test]
    fn an_archive_is_unpacked_however_it_was_packed() {
        runtime().block_on(async {
            let bytes: Vec<u8> = (0..3 * AHEAD_BYTES).map(|at| at.to_le_bytes()[0]).collect();
            let (first, second) = bytes.split_at(AHEAD_BYTES + 1);
            let gzip = all(GzipEncoder::new(bytes.as_slice())).await.unwrap();
            let mut members = all(GzipEncoder::new(first)).await.unwrap();
            members.extend(all(GzipEncoder::new(second)).await.unwrap());
            let mut frames = all(ZstdEncoder::new(first)).await.unwrap();
            frames.extend(all(ZstdEncoder::new(second)).await.unwrap());
            let table = [
                (MediaType::ImageLayer, &bytes),
                (MediaType::ImageLayerGzip, &gzip),
                (MediaType::ImageLayerGzip, &members),
                (MediaType::ImageLayerZstd, &frames),
            ];
            for (kind, blob) in table {
                assert_eq!(taken(&kind, blob).await.unwrap(), bytes, "{kind}");
            }
            let cut = &gzip[..gzip.len() / 2];
            taken(&MediaType::ImageLayerGzip, cut).await.unwrap_err();
        });
    }

    #[test]
    fn what_follows_an_archive_is_read_and_what_follows_a_fault_is_not() {
        runtime().block_on(async {
            let bytes = vec![7; TAIL];
            for fails in [false, true] {
                let mut blob = bytes.as_slice();
                let taken = read_ahead(&mut blob, &MediaType::ImageLayer, async |mut archive| {
                    let byte = archive.read_u8().await?;
                    if fails {
                        Err("it is broken".into())
                    } else {
                        Ok(byte)
                    }
                });
                match taken.await {
                    Ok(byte) => assert_eq!((byte, blob.len()), (7, 0)),
                    Err(error) => {
                        assert_eq!(error.to_string(), "it is broken");
                        assert!(fails && blob.len() > TAIL / 2, "{} left", blob.len());
                    }
                }
            }
        });
    }

    /// A connection that ends.
    struct Gone;

    impl AsyncRead for Gone {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::other("the registry is gone")))
        }
    }

    #[test]
    fn a_fetch_that_ends_in_the_middle_is_a_fault() {
        runtime().block_on(async {
            let broken = BufReader::new((&b"begin"[..]).chain(Gone));
            let taken = read_ahead(broken, &MediaType::ImageLayer, async |archive| {
                Ok(all(archive).await?)
            });
            assert_eq!(taken.await.unwrap_err().to_string(), "the registry is gone");
        });
    }
}
