//! The fields of a KubeletConfiguration: which there are, and what each may hold.
//!
//! The kubelet's own types cannot tell zero from absent where a field is no pointer, and programs
//! that are written in Go write such zeros without a wish. So a zero there is "not set". Behind a
//! pointer it is a wish, and stays.
//!
//! Source: `k8s.io/kubelet/config/v1beta1` and the types of `k8s.io/component-base` that it uses,
//! of Kubernetes 1.36.

use api::quantity;
use serde_json::{Map, Value};

use super::Error;

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Bool,
    /// Numbers that its type has.
    Int(i64, i64),
    Float,
    /// As Go writes it, such as `1m30s`.
    Duration,
    /// A duration, or nanoseconds as a number.
    Flush,
    /// An amount, as a text or a number.
    Amount,
    /// An amount, or a share such as `10%`.
    AmountOrShare,
    Share,
    List(&'static Self),
    /// Members whose names are free.
    Members(&'static Self),
    Object(&'static [Field]),
}

/// A field of an object.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Whether the kubelet can tell a zero from an absent value.
    pub(super) has_zero: bool,
}

const fn plain(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        has_zero: false,
    }
}

const fn pointer(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        has_zero: true,
    }
}

const I32: Kind = Kind::Int(i32::MIN as i64, i32::MAX as i64);
const I64: Kind = Kind::Int(i64::MIN, i64::MAX);
const U32: Kind = Kind::Int(0, u32::MAX as i64);
const TEXTS: Kind = Kind::List(&Kind::Text);
const TEXT_BY_NAME: Kind = Kind::Members(&Kind::Text);
const AMOUNTS: Kind = Kind::Members(&Kind::Amount);
const THRESHOLDS: Kind = Kind::Members(&Kind::AmountOrShare);

const OUTPUT: Kind = Kind::Object(&[
    plain("splitStream", Kind::Bool),
    plain("infoBufferSize", Kind::Amount),
]);

/// All fields but `apiVersion` and `kind`.
pub(super) const FIELDS: &[Field] = &[
    pointer("enableServer", Kind::Bool),
    // The type has no pointer; but on workers, turning static pods off is a wish.
    pointer("staticPodPath", Kind::Text),
    plain("podLogsDir", Kind::Text),
    plain("syncFrequency", Kind::Duration),
    plain("fileCheckFrequency", Kind::Duration),
    plain("httpCheckFrequency", Kind::Duration),
    plain("staticPodURL", Kind::Text),
    plain("staticPodURLHeader", Kind::Members(&TEXTS)),
    plain("address", Kind::Text),
    plain("port", I32),
    plain("readOnlyPort", I32),
    plain("tlsCertFile", Kind::Text),
    plain("tlsPrivateKeyFile", Kind::Text),
    plain("tlsCipherSuites", TEXTS),
    plain("tlsCurvePreferences", Kind::List(&I32)),
    plain("tlsMinVersion", Kind::Text),
    plain("rotateCertificates", Kind::Bool),
    plain("serverTLSBootstrap", Kind::Bool),
    plain(
        "authentication",
        Kind::Object(&[
            plain("x509", Kind::Object(&[plain("clientCAFile", Kind::Text)])),
            plain(
                "webhook",
                Kind::Object(&[
                    pointer("enabled", Kind::Bool),
                    plain("cacheTTL", Kind::Duration),
                ]),
            ),
            plain("anonymous", Kind::Object(&[pointer("enabled", Kind::Bool)])),
        ]),
    ),
    plain(
        "authorization",
        Kind::Object(&[
            plain("mode", Kind::Text),
            plain(
                "webhook",
                Kind::Object(&[
                    plain("cacheAuthorizedTTL", Kind::Duration),
                    plain("cacheUnauthorizedTTL", Kind::Duration),
                ]),
            ),
        ]),
    ),
    pointer("registryPullQPS", I32),
    plain("registryBurst", I32),
    plain("imagePullCredentialsVerificationPolicy", Kind::Text),
    plain("preloadedImagesVerificationAllowlist", TEXTS),
    pointer("eventRecordQPS", I32),
    plain("eventBurst", I32),
    pointer("enableDebuggingHandlers", Kind::Bool),
    plain("enableContentionProfiling", Kind::Bool),
    pointer("healthzPort", I32),
    plain("healthzBindAddress", Kind::Text),
    pointer("oomScoreAdj", I32),
    plain("clusterDomain", Kind::Text),
    plain("clusterDNS", TEXTS),
    plain("streamingConnectionIdleTimeout", Kind::Duration),
    plain("nodeStatusUpdateFrequency", Kind::Duration),
    plain("nodeStatusReportFrequency", Kind::Duration),
    plain("nodeLeaseDurationSeconds", I32),
    plain("imageMinimumGCAge", Kind::Duration),
    plain("imageMaximumGCAge", Kind::Duration),
    pointer("imageGCHighThresholdPercent", I32),
    pointer("imageGCLowThresholdPercent", I32),
    plain("volumeStatsAggPeriod", Kind::Duration),
    plain("kubeletCgroups", Kind::Text),
    plain("systemCgroups", Kind::Text),
    plain("cgroupRoot", Kind::Text),
    pointer("cgroupsPerQOS", Kind::Bool),
    plain("cgroupDriver", Kind::Text),
    plain("cpuManagerPolicy", Kind::Text),
    pointer("singleProcessOOMKill", Kind::Bool),
    plain("cpuManagerPolicyOptions", TEXT_BY_NAME),
    plain("cpuManagerReconcilePeriod", Kind::Duration),
    plain("memoryManagerPolicy", Kind::Text),
    plain("topologyManagerPolicy", Kind::Text),
    plain("topologyManagerScope", Kind::Text),
    plain("topologyManagerPolicyOptions", TEXT_BY_NAME),
    plain("qosReserved", Kind::Members(&Kind::Share)),
    plain("runtimeRequestTimeout", Kind::Duration),
    plain("hairpinMode", Kind::Text),
    plain("maxPods", I32),
    plain("podCIDR", Kind::Text),
    pointer("podPidsLimit", I64),
    pointer("resolvConf", Kind::Text),
    plain("runOnce", Kind::Bool),
    pointer("cpuCFSQuota", Kind::Bool),
    pointer("cpuCFSQuotaPeriod", Kind::Duration),
    pointer("nodeStatusMaxImages", I32),
    plain("maxOpenFiles", I64),
    plain("contentType", Kind::Text),
    pointer("kubeAPIQPS", I32),
    plain("kubeAPIBurst", I32),
    pointer("serializeImagePulls", Kind::Bool),
    pointer("maxParallelImagePulls", I32),
    plain("evictionHard", THRESHOLDS),
    plain("evictionSoft", THRESHOLDS),
    plain("evictionSoftGracePeriod", Kind::Members(&Kind::Duration)),
    plain("evictionPressureTransitionPeriod", Kind::Duration),
    plain("evictionMaxPodGracePeriod", I32),
    plain("evictionMinimumReclaim", THRESHOLDS),
    pointer("mergeDefaultEvictionSettings", Kind::Bool),
    plain("podsPerCore", I32),
    pointer("enableControllerAttachDetach", Kind::Bool),
    plain("protectKernelDefaults", Kind::Bool),
    pointer("makeIPTablesUtilChains", Kind::Bool),
    pointer("iptablesMasqueradeBit", I32),
    pointer("iptablesDropBit", I32),
    plain("featureGates", Kind::Members(&Kind::Bool)),
    pointer("failSwapOn", Kind::Bool),
    plain(
        "memorySwap",
        Kind::Object(&[plain("swapBehavior", Kind::Text)]),
    ),
    plain("containerLogMaxSize", Kind::Amount),
    pointer("containerLogMaxFiles", I32),
    pointer("containerLogMaxWorkers", I32),
    pointer("containerLogMonitorInterval", Kind::Duration),
    plain("configMapAndSecretChangeDetectionStrategy", Kind::Text),
    plain("systemReserved", AMOUNTS),
    plain("kubeReserved", AMOUNTS),
    plain("reservedSystemCPUs", Kind::Text),
    plain("showHiddenMetricsForVersion", Kind::Text),
    plain("systemReservedCgroup", Kind::Text),
    plain("kubeReservedCgroup", Kind::Text),
    plain("enforceNodeAllocatable", TEXTS),
    plain("allowedUnsafeSysctls", TEXTS),
    plain("volumePluginDir", Kind::Text),
    plain("providerID", Kind::Text),
    plain("kernelMemcgNotification", Kind::Bool),
    plain(
        "logging",
        Kind::Object(&[
            plain("format", Kind::Text),
            plain("flushFrequency", Kind::Flush),
            plain("verbosity", U32),
            plain(
                "vmodule",
                Kind::List(&Kind::Object(&[
                    pointer("filePattern", Kind::Text),
                    pointer("verbosity", U32),
                ])),
            ),
            plain(
                "options",
                Kind::Object(&[plain("text", OUTPUT), plain("json", OUTPUT)]),
            ),
        ]),
    ),
    pointer("enableSystemLogHandler", Kind::Bool),
    pointer("enableSystemLogQuery", Kind::Bool),
    plain("shutdownGracePeriod", Kind::Duration),
    plain("shutdownGracePeriodCriticalPods", Kind::Duration),
    plain(
        "shutdownGracePeriodByPodPriority",
        Kind::List(&Kind::Object(&[
            pointer("priority", I32),
            pointer("shutdownGracePeriodSeconds", I64),
        ])),
    ),
    plain(
        "crashLoopBackOff",
        Kind::Object(&[pointer("maxContainerRestartPeriod", Kind::Duration)]),
    ),
    plain(
        "reservedMemory",
        Kind::List(&Kind::Object(&[
            pointer("numaNode", I32),
            plain("limits", AMOUNTS),
        ])),
    ),
    pointer("enableProfilingHandler", Kind::Bool),
    pointer("enableDebugFlagsHandler", Kind::Bool),
    pointer("seccompDefault", Kind::Bool),
    pointer("memoryThrottlingFactor", Kind::Float),
    plain("memoryReservationPolicy", Kind::Text),
    plain(
        "registerWithTaints",
        Kind::List(&Kind::Object(&[
            pointer("key", Kind::Text),
            plain("value", Kind::Text),
            pointer("effect", Kind::Text),
            plain("timeAdded", Kind::Text),
        ])),
    ),
    pointer("registerNode", Kind::Bool),
    pointer(
        "tracing",
        Kind::Object(&[
            pointer("endpoint", Kind::Text),
            pointer("samplingRatePerMillion", I32),
        ]),
    ),
    pointer("localStorageCapacityIsolation", Kind::Bool),
    plain("containerRuntimeEndpoint", Kind::Text),
    plain("imageServiceEndpoint", Kind::Text),
    pointer("userNamespaces", Kind::Object(&[pointer("idsPerPod", I64)])),
];

/// Takes out what is not set, and checks the rest. `at` is the path of the object. The order is the
/// kubelet's, whatever a client writes: the same wish is the same file.
///
/// # Errors
/// A member that there is not, or whose value the kubelet would refuse, with its path.
pub(super) fn take(
    mut object: Map<String, Value>,
    fields: &[Field],
    at: &str,
) -> Result<Map<String, Value>, Error> {
    let mut taken = Map::new();
    for field in fields {
        let Some(value) = object.remove(field.name) else {
            continue;
        };
        let path = format!("{at}.{}", field.name);
        if let Some(value) = field.kind.take(value, &path, field.has_zero)? {
            taken.insert(field.name.to_owned(), value);
        }
    }
    match object.keys().next() {
        Some(name) => Err(unknown(name, fields, at)),
        None => Ok(taken),
    }
}

fn unknown(name: &str, fields: &[Field], at: &str) -> Error {
    let path = format!("{at}.{name}");
    let same = |field: &&Field| field.name.eq_ignore_ascii_case(name);
    match fields.iter().find(same) {
        Some(field) => Error::MisspelledField(path, field.name),
        None => Error::UnknownField(path),
    }
}

impl Kind {
    /// The value; none where it is not set.
    fn take(self, value: Value, at: &str, has_zero: bool) -> Result<Option<Value>, Error> {
        if value.is_null() {
            return Ok(None);
        }
        let (value, is_zero) = match (self, value) {
            (Self::List(kind), Value::Array(items)) => {
                let items = items.into_iter().enumerate();
                let items = items.map(|(index, item)| {
                    let at = format!("{at}[{index}]");
                    let taken = kind.take(item, &at, true)?;
                    let is_there = |item: &Value| item.as_str() != Some("");
                    taken.filter(is_there).ok_or(Error::EmptyItem(at))
                });
                let items = items.collect::<Result<Vec<_>, _>>()?;
                let is_zero = items.is_empty();
                (Value::Array(items), is_zero)
            }
            (Self::Members(kind), Value::Object(members)) => {
                let mut taken = Map::new();
                for (name, value) in members {
                    let at = format!("{at}.{name}");
                    // A zero is a wish here: Go writes no member that is not there.
                    let value = kind.take(value, &at, true)?;
                    if let Some(value) = value.filter(|value| value.as_str() != Some("")) {
                        taken.insert(name, value);
                    }
                }
                let is_zero = taken.is_empty();
                (Value::Object(taken), is_zero)
            }
            (Self::Object(fields), Value::Object(members)) => {
                let taken = take(members, fields, at)?;
                let is_zero = taken.is_empty();
                (Value::Object(taken), is_zero)
            }
            // Where no text can be empty, an empty one is "not set".
            (Self::Duration | Self::Amount | Self::AmountOrShare | Self::Share, value)
                if value.as_str() == Some("") =>
            {
                return Ok(None);
            }
            (kind, value) => {
                let is_zero = kind.scalar(&value, at)?;
                (value, is_zero)
            }
        };
        Ok((has_zero || !is_zero).then_some(value))
    }

    /// Checks a value that has no parts; whether it is zero.
    fn scalar(self, value: &Value, at: &str) -> Result<bool, Error> {
        let refused = |expected| Err(Error::MistypedField(at.to_owned(), shown(value), expected));
        let text = value.as_str();
        match self {
            Self::Text => match text {
                Some(text) => Ok(text.is_empty()),
                None => refused("text"),
            },
            Self::Bool => match value.as_bool() {
                Some(is) => Ok(!is),
                None => refused("true or false"),
            },
            Self::Int(least, most) => match value.as_i64() {
                Some(number) if (least..=most).contains(&number) => Ok(number == 0),
                Some(number) => Err(Error::OutOfRange(at.to_owned(), number, least..=most)),
                None => refused("whole number"),
            },
            Self::Float => match value.as_f64() {
                Some(number) => Ok(number == 0.0),
                None => refused("number"),
            },
            Self::Duration => match text.map(duration) {
                Some(Some(is_zero)) => Ok(is_zero),
                _ => refused("duration, such as 1m30s"),
            },
            Self::Flush => match (value.as_u64(), text.map(duration)) {
                (Some(nanoseconds), _) => Ok(nanoseconds == 0),
                (None, Some(Some(is_zero))) => Ok(is_zero),
                _ => refused("duration, such as 5s"),
            },
            Self::Amount => match (value, text) {
                (_, Some(text)) if quantity::is_amount(text) => Ok(text == "0"),
                (Value::Number(number), _) if quantity::is_amount(&number.to_string()) => {
                    Ok(number.as_u64() == Some(0))
                }
                _ => refused("quantity"),
            },
            Self::AmountOrShare => match text {
                Some(text) if quantity::is_amount(text) || is_share(text) => Ok(false),
                _ => refused("quantity or percentage"),
            },
            Self::Share => match text {
                Some(text) if is_share(text) => Ok(false),
                _ => refused("percentage"),
            },
            Self::List(_) => refused("list"),
            Self::Members(_) | Self::Object(_) => refused("object"),
        }
    }
}

/// Whether a duration is zero; none where it is no duration.
///
/// Source: Go's `time.ParseDuration`. None of the kubelet's may be below zero.
fn duration(text: &str) -> Option<bool> {
    const UNITS: [&str; 8] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    if rest == "0" {
        return Some(true);
    }
    let mut is_zero = true;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(end)?;
        let is_number = number.bytes().any(|c| c.is_ascii_digit())
            && number.bytes().filter(|c| *c == b'.').count() <= 1;
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        if !is_number || !UNITS.contains(&unit) {
            return None;
        }
        is_zero &= number.bytes().all(|c| c == b'0' || c == b'.');
        rest = after;
    }
    Some(is_zero)
}

/// Whether a text is a share of a whole, such as `10%`.
fn is_share(text: &str) -> bool {
    let number = text.strip_suffix('%').map(str::parse::<f64>);
    matches!(number, Some(Ok(number)) if (0.0..=100.0).contains(&number))
}

/// A value as a person writes it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests;
