//! Groups of options that programs share. A program flattens them into its command line.
//!
//! What reaches a cluster (kubeconfig, lease) is in `operator::cli`: the chassis does not know
//! Kubernetes. `docs/configuration.md` describes each option once.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::logs::{Filter, Format, Settings};
#[cfg(feature = "secure-metrics")]
use crate::secure_metrics::SecureListener;

/// How the program logs.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// What is logged: 0 errors, 1 warnings, 2 changes, 4 decisions, 6 traffic; or levels by
    /// module, as in `info,node::drain=trace`
    #[arg(long, value_name = "FILTER", default_value = "2")]
    v: Filter,
    /// How records are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: Format,
    /// File with a filter that replaces --v; read again every 10 seconds
    #[arg(long, value_name = "FILE")]
    log_filter_file: Option<PathBuf>,
}

impl LogArgs {
    /// The settings of the log.
    pub fn to_settings(&self) -> Settings {
        Settings {
            filter: self.v.clone(),
            format: self.log_format,
            filter_file: self.log_filter_file.clone(),
        }
    }
}

/// Where the program serves metrics and health.
#[derive(Debug, Clone, Args)]
pub struct AdminArgs {
    /// Address of metrics and health
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8797")]
    pub metrics_url: SocketAddr,
}

/// Where the program serves metrics over HTTPS.
#[cfg(feature = "secure-metrics")]
#[derive(Debug, Clone, Args)]
pub struct SecureArgs {
    /// Address of metrics over HTTPS, for the cluster's Prometheus [default: none]
    #[arg(long, value_name = "ADDRESS", requires_all = ["serving_cert_file", "serving_key_file"])]
    listen: Option<SocketAddr>,
    /// Certificate of that address, as PEM; waited for
    #[arg(long, value_name = "FILE")]
    serving_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    serving_key_file: Option<PathBuf>,
}

#[cfg(feature = "secure-metrics")]
impl SecureArgs {
    /// Where, if anywhere.
    pub fn into_listener(self) -> Option<SecureListener> {
        Some(SecureListener {
            address: self.listen?,
            certificate: self.serving_cert_file?,
            key: self.serving_key_file?,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        admin: AdminArgs,
    }

    fn parse(arguments: &[&str]) -> Result<Program, clap::Error> {
        Program::try_parse_from([&["program"], arguments].concat())
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let program = parse(&[]).unwrap();
        let log = program.log.to_settings();
        assert_eq!(log.filter, Filter::of_verbosity(2));
        assert_eq!((log.format, log.filter_file), (Format::Text, None));
        assert_eq!(program.admin.metrics_url.to_string(), "127.0.0.1:8797");
    }

    #[test]
    fn options_replace_the_defaults() {
        let arguments = [
            "--v=warn,node=trace",
            "--log-format=json",
            "--log-filter-file=/run/slipway/log-filter",
        ];
        let log = parse(&arguments).unwrap().log.to_settings();
        assert_eq!(log.filter, "warn,node=trace".parse().unwrap());
        assert_eq!(log.format, Format::Json);
        assert_eq!(log.filter_file, Some("/run/slipway/log-filter".into()));
    }

    #[test]
    fn an_invalid_option_is_named() {
        let table = [
            ("--v=node=loud", "--v"),
            ("--log-format=xml", "--log-format"),
            ("--metrics-url=x", "--metrics-url"),
        ];
        for (argument, expected) in table {
            let error = parse(&[argument]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
