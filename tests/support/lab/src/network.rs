//! A lab's network: a bridge of its own, and a network namespace for each host.
//!
//! Hosts reach what listens on the bridge's address, and each other. There is no way out: no route,
//! no name server.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::program::{command, run};

/// Hosts of one lab, so that their addresses fit behind the bridge's.
const MAX_PORTS: u8 = 200;

/// A bridge with its network, `10.97.<number>.0/24`. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Network {
    /// Name of the bridge, and what the names of all other things begin with.
    id: String,
    number: u8,
}

/// A host's end: a network namespace with `eth0`. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Port {
    namespace: String,
    /// The end at the bridge.
    link: String,
    address: Ipv4Addr,
}

/// A machine's end: a link that qemu reads and writes. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Tap {
    link: String,
    address: Ipv4Addr,
}

impl Network {
    /// Makes the bridge `id`, at most 10 characters long.
    pub(crate) fn create(id: &str, number: u8) -> Result<Self> {
        let network = Self {
            id: id.to_owned(),
            number,
        };
        ip(&["link", "add", "name", id, "type", "bridge"])?;
        let address = format!("{}/24", network.address());
        ip(&["address", "add", &address, "dev", id])?;
        ip(&["link", "set", id, "up"])?;
        Ok(network)
    }

    /// Whether this machine has no route into that network yet.
    pub(crate) fn is_free(number: u8) -> Result<bool> {
        let network = format!("10.97.{number}.0/24");
        Ok(ip(&[
            "-4", "route", "show", "table", "all", "to", "root", &network,
        ])?
        .is_empty())
    }

    /// The bridge's own address, where hosts reach the machine.
    pub(crate) fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 97, self.number, 1)
    }

    /// Makes the end of a machine, which is the `index`th of the lab.
    pub(crate) fn plug_machine(&self, index: u8) -> Result<Tap> {
        ensure!(index < MAX_PORTS, "a lab has room for {MAX_PORTS} hosts");
        let address = Ipv4Addr::new(10, 97, self.number, 10 + index);
        let tap = Tap {
            link: format!("{}-{index}", self.id),
            address,
        };
        ip(&["tuntap", "add", "dev", &tap.link, "mode", "tap"])?;
        ip(&["link", "set", &tap.link, "master", &self.id, "up"])?;
        Ok(tap)
    }

    /// Makes the namespace of the host `name`, which is the `index`th of the lab.
    pub(crate) fn plug(&self, name: &str, index: u8) -> Result<Port> {
        ensure!(index < MAX_PORTS, "a lab has room for {MAX_PORTS} hosts");
        let port = Port {
            namespace: format!("{}-{name}", self.id),
            link: format!("{}-{index}", self.id),
            address: Ipv4Addr::new(10, 97, self.number, 10 + index),
        };
        let (namespace, link) = (port.namespace.as_str(), port.link.as_str());
        ip(&["netns", "add", namespace])?;
        ip(&[
            "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace,
        ])?;
        ip(&["link", "set", link, "master", &self.id, "up"])?;
        let address = format!("{}/24", port.address);
        ip(&["-n", namespace, "address", "add", &address, "dev", "eth0"])?;
        ip(&["-n", namespace, "link", "set", "eth0", "up"])?;
        ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        Ok(port)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // If it cannot be removed, the next lab's sweep tries again.
        drop(ip(&["link", "delete", &self.id]));
    }
}

impl Port {
    /// The host's address.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// File by which the namespace is entered.
    pub(crate) fn namespace(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.namespace)
    }

    /// Lets the host pass on what comes in: it has pods. Inside, the setting cannot be written.
    pub(crate) fn forward(&self) -> Result<()> {
        let set = ["sysctl", "--quiet", "--write", "net.ipv4.ip_forward=1"];
        ip(&[&["netns", "exec", self.namespace.as_str()], &set[..]].concat()).map(drop)
    }

    /// Adds a route to a network behind a host.
    pub(crate) fn route(&self, network: &str, host: Ipv4Addr) -> Result<()> {
        let (namespace, host) = (self.namespace.as_str(), host.to_string());
        ip(&["-n", namespace, "route", "add", network, "via", &host]).map(drop)
    }

    /// Takes the cable out, or puts it in again.
    pub(crate) fn connect(&self, connected: bool) -> Result<()> {
        ip(&[
            "link",
            "set",
            &self.link,
            if connected { "up" } else { "down" },
        ])
        .map(drop)
    }

    /// Limits what comes in to a rate, or no more.
    pub(crate) fn limit(&self, kbit_per_second: Option<u32>) -> Result<()> {
        // The bridge's end sends what the host receives.
        let link = self.link.as_str();
        let rate = kbit_per_second.map(|rate| format!("{rate}kbit"));
        let limit = ["root", "tbf", "burst", "256kb", "latency", "400ms", "rate"];
        match &rate {
            Some(rate) => {
                let tc = ["qdisc", "replace", "dev", link].into_iter().chain(limit);
                run(command("tc").args(tc).arg(rate)).map(drop)
            }
            None => run(command("tc").args(["qdisc", "delete", "dev", link, "root"])).map(drop),
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // If they cannot be removed, the next lab's sweep tries again.
        drop(ip(&["link", "delete", &self.link]));
        drop(ip(&["netns", "delete", &self.namespace]));
    }
}

impl Tap {
    /// The machine's address.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Name of the link that qemu takes.
    pub(crate) fn link(&self) -> &str {
        &self.link
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // If it cannot be removed, the next lab's sweep tries again.
        drop(ip(&["link", "delete", &self.link]));
    }
}

/// Removes what a lab that died left behind under its `id`.
pub(crate) fn sweep(id: &str) -> Result<()> {
    // `4: slab0-0@if2: <...`. What is not there any more went with its other end.
    for line in ip(&["-oneline", "link", "show"])?.lines() {
        let name = line.split(": ").nth(1).unwrap_or_default();
        let name = name.split('@').next().unwrap_or_default();
        let is_of_lab = |rest: &str| rest.is_empty() || rest.starts_with('-');
        if name.strip_prefix(id).is_some_and(is_of_lab) && ip(&["link", "delete", name]).is_err() {
            ensure!(
                ip(&["link", "show", name]).is_err(),
                "cannot remove the link {name}"
            );
        }
    }
    for line in ip(&["netns", "list"])?.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        if name
            .strip_prefix(id)
            .is_some_and(|rest| rest.starts_with('-'))
        {
            ip(&["netns", "delete", name])?;
        }
    }
    Ok(())
}

fn ip(arguments: &[&str]) -> Result<String> {
    run(command("ip").args(arguments))
}
