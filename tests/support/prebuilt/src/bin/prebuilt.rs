//! Makes one part where it is missing, and prints which versions of packages it has; of the
//! compiler for another processor, where it is.

use std::io::{Write as _, stderr, stdout};
use std::process::ExitCode;

use prebuilt::container_runtime::ContainerRuntime;
use prebuilt::control_plane::Programs;
use prebuilt::tree::{BaseTree, Form};
use prebuilt::{cross, helm, skopeo};

const USAGE: &str =
    "usage: prebuilt control-plane | container-runtime | cross | helm | skopeo | tree";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let made = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["control-plane"] => Programs::find().and_then(|it| it.versions()),
        ["container-runtime"] => ContainerRuntime::find().and_then(|it| it.versions()),
        ["cross"] => cross::find().map(|folder| format!("{}\n", folder.display())),
        ["helm"] => helm::find().and_then(|_| helm::version()),
        ["skopeo"] => skopeo::find().and_then(|_| skopeo::version()),
        ["tree"] => BaseTree::find(Form::Plain).map(|tree| tree.packages + "\n"),
        _ => {
            // Nowhere is left to report that standard error is closed.
            drop(writeln!(stderr(), "{USAGE}"));
            return ExitCode::from(2);
        }
    };
    match made.and_then(|versions| Ok(write!(stdout(), "{versions}")?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // As above.
            drop(writeln!(stderr(), "prebuilt: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
