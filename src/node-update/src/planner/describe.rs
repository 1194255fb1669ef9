//! A plan for people.

use crate::plan::{Action, FileState, Mode, Owner, Owners, Plan, Route};

/// Prints what an update will do, one effect a line, without contents.
///
/// Shape: text of several lines, each ended; the first column names the kind of line.
pub fn describe(plan: &Plan) -> String {
    let mut lines = vec![format!("update  {} -> {}", plan.from, plan.to)];
    let way = match (plan.route, plan.drain) {
        (Route::Reboot, true) => "drain, new deployment, reboot",
        (Route::Reboot, false) => "new deployment, reboot; no drain",
        (Route::Live, true) => "drain, then the running system; no reboot",
        (Route::Live, false) => "the running system; no drain, no reboot",
    };
    lines.push(format!("way     {way}"));
    lines.extend(plan.because.iter().map(|why| format!("because {why}")));
    lines.extend(
        plan.without_effect
            .iter()
            .map(|what| format!("ignored {what}")),
    );
    if let Some(deploy) = &plan.deploy {
        let image = deploy.image.as_deref().unwrap_or("the booted one again");
        lines.push(format!("image   {image}"));
        let deleted = deploy
            .delete_arguments
            .iter()
            .map(|argument| format!("karg    - {argument}"));
        lines.extend(deleted);
        let appended = deploy
            .append_arguments
            .iter()
            .map(|argument| format!("karg    + {argument}"));
        lines.extend(appended);
    }
    lines.extend(plan.steps.iter().map(|step| in_words(&step.action)));
    lines.push(format!(
        "check   {} things that must hold then",
        plan.expect.len()
    ));
    lines.join("\n") + "\n"
}

fn in_words(action: &Action) -> String {
    match action {
        Action::WriteFile { path, file } => format!("write   {path} ({})", owned(file)),
        Action::ReleaseFile { path } => {
            format!("release {path} (to what the OS ships, if anything)")
        }
        Action::MaskUnit { unit } => format!("mask    {unit}"),
        Action::UnmaskUnit { unit } => format!("unmask  {unit}"),
        Action::EnableUnit { unit } => format!("enable  {unit}"),
        Action::KeepUnitEnabled { unit } => {
            format!("enable  {unit} (if it was disabled along with another)")
        }
        Action::DisableUnit { unit } => format!("disable {unit}"),
        Action::PresetUnit { unit } => format!("preset  {unit}"),
        Action::WriteAuthorizedKeys { user, .. } => format!("keys    of {user}"),
        Action::SetPassword { user, .. } => format!("passwd  of {user}"),
        Action::DaemonReload => "systemd daemon-reload".to_owned(),
        Action::RestartUnit { unit } => format!("restart {unit}"),
        Action::ReloadUnit { unit } => format!("reload  {unit}"),
    }
}

/// Mode and owner.
fn owned(file: &FileState<Owners>) -> String {
    let (Mode(mode), Owners { user, group }) = (file.mode, &file.owner);
    let name = |owner: &Owner| match owner {
        Owner::Id(0) => "root".to_owned(),
        Owner::Id(id) => id.to_string(),
        Owner::Name(name) => name.clone(),
    };
    format!("{mode:04o} {}:{}", name(user), name(group))
}
