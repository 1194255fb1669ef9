//! Disks, partitions, arrays, encrypted volumes and file systems.

use super::super::{Disk, Filesystem, Luks, Partition, Raid, Storage};
use super::paths::check_path;
use super::{Verdict, is_unset};

/// Bytes of a LUKS2 label without its final NUL (`LUKS2_LABEL_L` of cryptsetup).
const MAX_LUKS_LABEL: usize = 47;
/// Characters of a partition name in a GPT.
const MAX_PARTITION_LABEL: usize = 36;

pub(super) fn validate(storage: &Storage, verdict: &mut Verdict) {
    for (index, disk) in storage.disks.iter().enumerate() {
        check_disk(disk, &format!("storage.disks[{index}]"), verdict);
    }
    for (index, raid) in storage.raid.iter().enumerate() {
        check_raid(raid, &format!("storage.raid[{index}]"), verdict);
    }
    for (index, luks) in storage.luks.iter().enumerate() {
        check_luks(luks, &format!("storage.luks[{index}]"), verdict);
    }
    for (index, filesystem) in storage.filesystems.iter().enumerate() {
        check_filesystem(
            filesystem,
            &format!("storage.filesystems[{index}]"),
            verdict,
        );
    }
}

fn check_disk(disk: &Disk, at: &str, verdict: &mut Verdict) {
    check_path(&disk.device, format!("{at}.device"), verdict);
    for (index, partition) in disk.partitions.iter().enumerate() {
        let at = format!("{at}.partitions[{index}]");
        check_partition(partition, &at, verdict);
        for other in disk.partitions.iter().take(index) {
            if partition.number != 0 && partition.number == other.number {
                let why = format!("partition numbers collide: {}", partition.number);
                verdict.refuse(format!("{at}.number"), why);
            }
            if partition.label.is_some() && partition.label == other.label {
                let why = format!(
                    "cannot use the same partition label twice: {:?}",
                    other.label
                );
                verdict.refuse(format!("{at}.label"), why);
            }
            if overlap(partition, other) {
                verdict.refuse(&at, "partitions overlap");
            }
        }
    }
    let absent = disk
        .partitions
        .iter()
        .any(|partition| partition.should_exist == Some(false));
    let unnumbered = disk
        .partitions
        .iter()
        .any(|partition| partition.number == 0);
    if absent && unnumbered {
        let why = "shouldExist is false for a partition and another has number 0";
        verdict.refuse(format!("{at}.partitions"), why);
    }
}

/// First and last mebibyte of a partition that says where it lies.
fn extent(partition: &Partition) -> Option<(i64, i64)> {
    match (partition.start_mib, partition.size_mib) {
        (Some(start), Some(0)) if start != 0 => Some((start, start)),
        (Some(start), Some(size)) if start != 0 => Some((start, start.saturating_add(size - 1))),
        _ => None,
    }
}

fn overlap(one: &Partition, other: &Partition) -> bool {
    match (extent(one), extent(other)) {
        (Some((start, end)), Some((from, to))) => start <= to && from <= end,
        _ => false,
    }
}

fn check_partition(partition: &Partition, at: &str, verdict: &mut Verdict) {
    let says_more = partition.label.is_some()
        || !is_unset(partition.type_guid.as_deref())
        || !is_unset(partition.guid.as_deref())
        || partition.start_mib.is_some()
        || partition.size_mib.is_some();
    if partition.should_exist == Some(false) && says_more {
        let why = "shouldExist specified false with other options also specified";
        verdict.refuse(format!("{at}.shouldExist"), why);
    }
    if partition.number == 0 && partition.label.is_none() {
        let why = "a partition number >= 1 or a label must be specified";
        verdict.refuse(format!("{at}.number"), why);
    }
    if let Some(label) = &partition.label {
        if label.len() > MAX_PARTITION_LABEL {
            let why = format!("partition labels may not exceed 36 characters: {label:?}");
            verdict.refuse(format!("{at}.label"), why);
        } else if label.contains(':') {
            let why = format!("partition label will be cut at the colon: {label:?}");
            verdict.refuse(format!("{at}.label"), why);
        }
    }
    for (guid, member) in [
        (&partition.guid, "guid"),
        (&partition.type_guid, "typeGuid"),
    ] {
        if let Some(guid) = guid
            && !is_guid(guid)
        {
            let form = "01234567-89AB-CDEF-EDCB-A98765432101";
            let why = format!("doesn't match the form {form:?}: {guid:?}");
            verdict.refuse(format!("{at}.{member}"), why);
        }
    }
}

fn is_guid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    text.is_empty()
        || (lengths.eq([8, 4, 4, 4, 12])
            && text
                .bytes()
                .all(|byte| byte == b'-' || byte.is_ascii_hexdigit()))
}

fn check_raid(raid: &Raid, at: &str, verdict: &mut Verdict) {
    for (index, device) in raid.devices.iter().enumerate() {
        check_path(device, format!("{at}.devices[{index}]"), verdict);
    }
    if raid.devices.is_empty() {
        verdict.refuse(format!("{at}.devices"), "raid devices required");
    }
    let field = format!("{at}.level");
    match raid.level.as_deref().unwrap_or_default() {
        "" => verdict.refuse(field, "raid level is required"),
        "linear" | "raid0" | "0" | "stripe" => {
            if let Some(spares) = raid.spares.filter(|spares| *spares != 0) {
                let why = format!("spares unsupported for linear and raid0 arrays: {spares}");
                verdict.refuse(format!("{at}.spares"), why);
            }
        }
        "raid1" | "1" | "mirror" | "raid4" | "4" | "raid5" | "5" | "raid6" | "6" | "raid10"
        | "10" => {}
        other => verdict.refuse(field, format!("unrecognized raid level {other:?}")),
    }
}

fn check_luks(luks: &Luks, at: &str, verdict: &mut Verdict) {
    if luks.name.contains('/') {
        let why = format!("device names cannot contain slashes: {:?}", luks.name);
        verdict.refuse(format!("{at}.name"), why);
    }
    if luks
        .label
        .as_deref()
        .is_some_and(|label| label.len() > MAX_LUKS_LABEL)
    {
        let why = "luks device labels cannot be longer than 47 characters";
        verdict.refuse(format!("{at}.label"), why);
    }
    check_path(
        luks.device.as_deref().unwrap_or_default(),
        format!("{at}.device"),
        verdict,
    );
    let clevis = &luks.clevis;
    let custom = &clevis.custom;
    let has_pin = !is_unset(custom.pin.as_deref());
    let has_threshold = clevis.threshold.is_some_and(|threshold| threshold != 0);
    let has_other = !clevis.tang.is_empty() || clevis.tpm2 == Some(true) || has_threshold;
    if has_pin && has_other {
        let why = "cannot use custom clevis config with tpm2, tang, or threshold";
        verdict.refuse(format!("{at}.clevis.custom"), why);
    }
    if has_pin || !is_unset(custom.config.as_deref()) || custom.needs_network == Some(true) {
        match custom.pin.as_deref().unwrap_or_default() {
            "tpm2" | "tang" | "sss" => {}
            "" => verdict.refuse(format!("{at}.clevis.custom.pin"), "missing clevis pin"),
            pin => {
                let why = format!("unsupported clevis pin {pin:?}");
                verdict.refuse(format!("{at}.clevis.custom.pin"), why);
            }
        }
        if is_unset(custom.config.as_deref()) {
            verdict.refuse(
                format!("{at}.clevis.custom.config"),
                "missing clevis config",
            );
        }
    }
    for (index, tang) in clevis.tang.iter().enumerate() {
        let at = format!("{at}.clevis.tang[{index}]");
        if !matches!(tang.url.split_once(':'), Some(("http" | "https", _))) {
            verdict.refuse(
                format!("{at}.url"),
                format!("invalid url scheme: {:?}", tang.url),
            );
        }
        if is_unset(tang.thumbprint.as_deref()) {
            verdict.refuse(format!("{at}.thumbprint"), "thumbprint is required");
        }
        let advertisement = tang
            .advertisement
            .as_deref()
            .filter(|text| !text.is_empty());
        if advertisement.is_some_and(|text| !is_json(text)) {
            verdict.refuse(
                format!("{at}.advertisement"),
                "advertisement is not valid JSON",
            );
        }
    }
    if luks.cex.enabled == Some(true) {
        if has_pin || has_other {
            verdict.refuse(format!("{at}.cex"), "cannot use cex with clevis");
        }
        if !is_unset(luks.key_file.source.as_deref()) {
            verdict.refuse(format!("{at}.cex"), "cannot use key file with cex");
        }
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn check_filesystem(filesystem: &Filesystem, at: &str, verdict: &mut Verdict) {
    check_path(&filesystem.device, format!("{at}.device"), verdict);
    if let Some(path) = filesystem.path.as_deref().filter(|path| !path.is_empty()) {
        check_path(path, format!("{at}.path"), verdict);
    }
    let label = filesystem.label.as_deref().unwrap_or_default();
    let format = filesystem.format.as_deref().unwrap_or_default();
    let longest = match format {
        "" => {
            let says_more = !label.is_empty()
                || !is_unset(filesystem.path.as_deref())
                || !is_unset(filesystem.uuid.as_deref())
                || filesystem.wipe_filesystem == Some(true)
                || !filesystem.mount_options.is_empty()
                || !filesystem.options.is_empty();
            if says_more {
                let why = "format cannot be empty when path, label, uuid, wipeFilesystem, options, or mountOptions is specified";
                verdict.refuse(format!("{at}.format"), why);
            }
            return;
        }
        // Longest labels as the manual page of each mkfs has them; mkswap was found to cut at 15.
        "ext4" => 16,
        "btrfs" => 256,
        "xfs" => 12,
        "swap" => 15,
        "vfat" => 11,
        "none" => usize::MAX,
        other => {
            verdict.refuse(
                format!("{at}.format"),
                format!("invalid filesystem format {other:?}"),
            );
            return;
        }
    };
    if label.len() > longest {
        let why = format!(
            "filesystem labels cannot be longer than {longest} characters when using {format}: {label:?}"
        );
        verdict.refuse(format!("{at}.label"), why);
    }
}
