//! Words in responses of the config server and the update service.

use super::{Explanation, of};

const REFUSAL: &str = "label reason of metric mcs_refusals_total, and of the log of mcs";
const ERROR: &str = "kind of an error that the update service answers";

pub(super) const WORDS: &[Explanation] = &[
    of(
        "Method",
        REFUSAL,
        "The request is neither GET nor HEAD.",
        "Correct the client.",
    ),
    of(
        "Path",
        REFUSAL,
        "The server has nothing at that path.",
        "Use /config/POOL.",
    ),
    of(
        "UnknownPool",
        REFUSAL,
        "There is no such pool.",
        "Correct the machine's user data, or create the pool.",
    ),
    of(
        "UnknownConfig",
        REFUSAL,
        "There is no such MachineConfig.",
        "Read which configuration the node was assigned.",
    ),
    of(
        "Version",
        REFUSAL,
        "The machine asks for a version of Ignition that cannot be served.",
        "Boot the machine with another image.",
    ),
    of(
        "Inexpressible",
        REFUSAL,
        "The configuration has fields that the version of Ignition asked for does not know.",
        "Boot the machine with a newer image, or remove the fields that the log names.",
    ),
    of(
        "Unauthenticated",
        REFUSAL,
        "The request has no credential, or none that is valid.",
        "Create a token for the machine, and put it into its user data.",
    ),
    of(
        "Forbidden",
        REFUSAL,
        "The credential may not read that pool's configuration.",
        "Bind the role of that pool to the credential's user.",
    ),
    of(
        "WindowClosed",
        REFUSAL,
        "The credential's window has closed, or another machine used it.",
        "Create another token for the machine.",
    ),
    of(
        "RateLimit",
        REFUSAL,
        "The address asks too often.",
        "Wait; find out what asks.",
    ),
    of(
        "NotReady",
        "label reason of metric mcs_refusals_total; of a node, that it cannot take work",
        "The pool has no configuration to serve yet, or the API server does not answer; a node is not Ready or is cordoned.",
        "Wait; read `slipway pool`.",
    ),
    of(
        "Broken",
        REFUSAL,
        "The pool's configuration cannot be read.",
        "Read the field in the log; correct the MachineConfig.",
    ),
    of(
        "missing_params",
        ERROR,
        "A mandatory parameter is missing: usually channel.",
        "Add the parameters that the value names.",
    ),
    of(
        "invalid_params",
        ERROR,
        "A parameter has characters that it may not have.",
        "Correct the parameter that the value names.",
    ),
    of(
        "invalid_content_type",
        ERROR,
        "The client accepts none of the forms of an answer.",
        "Accept application/json.",
    ),
    of(
        "does_not_exist",
        ERROR,
        "The service has nothing at that path.",
        "Read docs/reference/update-service.md for the paths.",
    ),
    of(
        "failed_upstream_fetch",
        ERROR,
        "There is no graph yet.",
        "Read the service's log and /problems: registry or graph data cannot be read.",
    ),
];
