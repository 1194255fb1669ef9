//! Writes the CustomResourceDefinitions to `crds` and `cvo/crds` below the directory given as the
//! only argument.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory: PathBuf = std::env::args_os()
        .nth(1)
        .ok_or("usage: crdgen DIRECTORY")?
        .into();
    for crd in api::crds::all() {
        let text = serde_saphyr::to_string(&crd)?;
        // A build tool's output, regenerated at will; nothing is lost with a torn file.
        let mut file = File::create(directory.join(api::crds::file_name(&crd)))?;
        file.write_all(api::crds::HEADER.as_bytes())?;
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}
