// SPDX-License-Identifier: GPL-2.0

//! Two network namespaces joined by a veth pair, with a soft RoCE device in each.
//!
//! RDMA devices are seen from every namespace (`rdma system` says `netns shared`), so the program itself
//! need not enter one: the interface, the address and the UDP socket are what lives in the namespace.

use anyhow::{Context, Result, bail, ensure};
use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{self, Command, Stdio},
};

/// Larger than the largest RDMA packet (4096 bytes) with its headers.
const INTERFACE_MTU: &str = "4300";

/// Where every RDMA device has an entry that this program can see.
const DEVICES: &str = "/sys/class/infiniband";

/// One end: a namespace, its interface and its device.
struct Node {
    namespace: String,
    interface: String,
    device: String,
    /// From the range kept for documentation: nobody else can have it.
    address: &'static str,
}

/// The two ends, taken down on drop.
pub(crate) struct Network {
    nodes: [Node; 2],
}

impl Node {
    fn new(letter: char, address: &'static str) -> Self {
        // Interface names have 15 characters at most, so the number of the process is all there is room for.
        let id = process::id();
        Self {
            namespace: format!("rdmabuf-{id}{letter}"),
            interface: format!("veth{id}{letter}"),
            device: format!("rxe{id}{letter}"),
            address,
        }
    }

    /// Joins two namespaces by a pair of interfaces.
    fn join(&self, other: &Self) -> Result<()> {
        let [near, far] = [self, other].map(|node| {
            let Self {
                interface,
                namespace,
                ..
            } = node;
            ["name", interface, "mtu", INTERFACE_MTU, "netns", namespace]
        });
        let kind = ["type", "veth", "peer"];
        run(&[&["ip", "link", "add"], &near[..], &kind, &far].concat())
            .context("a pair of interfaces is needed: modprobe veth")
    }

    /// Gives the interface its address, and takes it into use.
    fn configure(&self) -> Result<()> {
        let configure = |words: &[&str]| run(&[&["ip", "-n", &self.namespace], words].concat());
        configure(&["address", "add", self.address, "dev", &self.interface])?;
        configure(&["link", "set", &self.interface, "up"])
    }

    /// Runs rdma, which has no word for the namespace, inside it.
    fn rdma(&self, words: &[&str]) -> Result<()> {
        run(&[&["ip", "netns", "exec", &self.namespace, "rdma"], words].concat())
    }

    fn add_device(&self) -> Result<()> {
        let (device, interface) = (&self.device, &self.interface);
        self.rdma(&["link", "add", device, "type", "rxe", "netdev", interface])
            .context("soft RoCE is needed: modprobe rdma_rxe")?;
        ensure!(
            exists(DEVICES, &self.device),
            "{} is not seen from outside its namespace: rdma system set netns shared",
            self.device
        );
        Ok(())
    }
}

impl Network {
    /// Sets everything up.
    pub(crate) fn new() -> Result<Self> {
        if !nix::unistd::geteuid().is_root() {
            bail!(
                "network namespaces need root: sudo, or the names of devices that are there (demo: --device \
                 and --peer, stress: --device)"
            );
        }
        // From here on, drop takes down whatever came to be.
        let network = Self {
            nodes: [
                Node::new('a', "192.0.2.1/30"),
                Node::new('b', "192.0.2.2/30"),
            ],
        };
        let [a, b] = &network.nodes;
        for node in [a, b] {
            run(&["ip", "netns", "add", &node.namespace])?;
        }
        a.join(b)?;
        for node in [a, b] {
            node.configure()?;
        }
        for node in [a, b] {
            node.add_device()?;
        }
        Ok(network)
    }

    /// The names of the two devices.
    pub(crate) fn devices(&self) -> [&str; 2] {
        self.nodes.each_ref().map(|node| node.device.as_str())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for node in &self.nodes {
            if exists(DEVICES, &node.device) {
                complain(node.rdma(&["link", "delete", &node.device]));
            }
        }
        for node in &self.nodes {
            // The interface goes with its namespace, and the other end with it.
            if exists("/run/netns", &node.namespace) {
                complain(run(&["ip", "netns", "delete", &node.namespace]));
            }
        }
    }
}

fn exists(folder: &str, name: &str) -> bool {
    Path::new(folder).join(name).exists()
}

fn complain(outcome: Result<()>) {
    if let Err(error) = outcome {
        eprintln!("rdmabuf: left behind: {error:#}");
    }
}

/// Runs a command to its end. What it says goes into the error.
fn run(words: &[&str]) -> Result<()> {
    let shown = words.join(" ");
    let Some((program, arguments)) = words.split_first() else {
        bail!("no command");
    };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        // Ctrl-C is for this program alone: it must not stop the taking down.
        .process_group(0)
        .output()
        .with_context(|| format!("{shown}: is iproute2 installed?"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{shown}: {}: {}", output.status, said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_where_the_kernel_keeps_them() {
        let node = Node::new('a', "192.0.2.1/30");
        assert!(node.interface.len() <= 15 && node.device.len() <= 15);
    }

    #[test]
    fn a_failed_command_is_told_with_its_words() {
        let error = run(&["ls", "/nonexistent-folder"]).expect_err("no such folder");
        assert!(
            error
                .to_string()
                .starts_with("ls /nonexistent-folder: exit status")
        );
    }
}
