//! Sources, compression, hashes, headers and proxies.

use super::super::content::{self, check_hash_form};
use super::super::{Config, Resource};
use super::{Verdict, is_unset};

/// Schemes that Ignition fetches at first boot. A node follows `data:` only, which is checked when
/// configurations are compared.
const SCHEMES: [&str; 7] = ["http", "https", "tftp", "gs", "s3", "arn", "data"];

pub(super) fn validate(config: &Config, verdict: &mut Verdict) {
    let ignition = &config.ignition;
    for (index, resource) in ignition.config.merge.iter().enumerate() {
        required(
            resource,
            &format!("ignition.config.merge[{index}]"),
            verdict,
        );
    }
    check(
        &ignition.config.replace,
        "ignition.config.replace",
        None,
        verdict,
    );
    for (index, resource) in ignition
        .security
        .tls
        .certificate_authorities
        .iter()
        .enumerate()
    {
        let at = format!("ignition.security.tls.certificateAuthorities[{index}]");
        required(resource, &at, verdict);
    }
    for (index, file) in config.storage.files.iter().enumerate() {
        check(
            &file.contents,
            &format!("storage.files[{index}].contents"),
            Some(&file.path),
            verdict,
        );
        for (fragment, resource) in file.append.iter().enumerate() {
            check(
                resource,
                &format!("storage.files[{index}].append[{fragment}]"),
                Some(&file.path),
                verdict,
            );
        }
    }
    for (index, luks) in config.storage.luks.iter().enumerate() {
        check(
            &luks.key_file,
            &format!("storage.luks[{index}].keyFile"),
            None,
            verdict,
        );
    }
    proxies(config, verdict);
}

fn required(resource: &Resource, at: &str, verdict: &mut Verdict) {
    if is_unset(resource.source.as_deref()) {
        verdict.refuse(format!("{at}.source"), "source is required");
    }
    check(resource, at, None, verdict);
}

/// Checks a resource; `file` is the path of the file that it is content of.
fn check(resource: &Resource, at: &str, file: Option<&str>, verdict: &mut Verdict) {
    // Clients look for the words of OpenShift's MCO.
    let undecodable = |why: String| match file {
        Some(path) => format!("could not decode file {path:?}: {why}"),
        None => why,
    };
    let compression_known = matches!(resource.compression.as_deref(), None | Some("" | "gzip"));
    if !compression_known {
        let named = resource.compression.as_deref().unwrap_or_default();
        let why = undecodable(format!("unsupported compression type {named:?}"));
        verdict.refuse(format!("{at}.compression"), why);
    }
    if let Some(hash) = &resource.verification.hash {
        let field = format!("{at}.verification.hash");
        if resource.source.is_none() {
            verdict.refuse(
                field,
                "source must be specified if verification is specified",
            );
        } else if let Err(error) = check_hash_form(hash) {
            verdict.refuse(field, error.to_string());
        }
    }
    headers(resource, at, verdict);
    let Some(source) = resource
        .source
        .as_deref()
        .filter(|source| !source.is_empty())
    else {
        return;
    };
    let scheme = source.split_once(':').map_or("", |(scheme, _)| scheme);
    if !SCHEMES.contains(&scheme) {
        verdict.refuse(
            format!("{at}.source"),
            format!("invalid url scheme {scheme:?}"),
        );
    } else if scheme == "data" && compression_known {
        match content::decode(resource) {
            // Reported above already, by its own field.
            Ok(_) | Err(content::Error::Hash(_)) => {}
            Err(error @ content::Error::Mismatch(_)) => {
                let why = undecodable(error.to_string());
                verdict.refuse(format!("{at}.verification.hash"), why);
            }
            Err(error) => {
                verdict.refuse(format!("{at}.source"), undecodable(error.to_string()));
            }
        }
    }
}

fn headers(resource: &Resource, at: &str, verdict: &mut Verdict) {
    if resource.http_headers.is_empty() {
        return;
    }
    let scheme = resource
        .source
        .as_deref()
        .and_then(|source| source.split_once(':'));
    if !matches!(scheme, Some(("http" | "https", _))) {
        let why = "cannot use HTTP headers with this source scheme";
        verdict.refuse(format!("{at}.httpHeaders"), why);
    }
    for (index, header) in resource.http_headers.iter().enumerate() {
        if header.name.is_empty() {
            let field = format!("{at}.httpHeaders[{index}].name");
            verdict.refuse(field, "HTTP header name can't be empty");
        }
        if header.value.as_deref() == Some("") {
            let field = format!("{at}.httpHeaders[{index}].value");
            verdict.refuse(field, "HTTP header value can't be empty");
        }
    }
}

fn proxies(config: &Config, verdict: &mut Verdict) {
    let proxy = &config.ignition.proxy;
    for (url, member) in [
        (&proxy.http_proxy, "httpProxy"),
        (&proxy.https_proxy, "httpsProxy"),
    ] {
        let Some(url) = url else { continue };
        let field = format!("ignition.proxy.{member}");
        match url.split_once(':') {
            Some(("https", _)) => {}
            Some(("http", _)) if member == "httpProxy" => {}
            Some(("http", _)) => {
                verdict.warn(
                    field,
                    "insecure plaintext HTTP proxy specified for HTTPS resources",
                );
            }
            // The URL may hold a password.
            _ => verdict.refuse(field, "proxies must be http(s)"),
        }
    }
}
