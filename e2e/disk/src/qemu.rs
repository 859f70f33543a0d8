//! The emulator's command line, and its process: the one place of these tests that starts a program.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

/// What a guest may use of the host's memory.
const MEMORY_MIB: u32 = 768;
/// A node of Kubernetes has a database on it.
const NODE_MEMORY_MIB: u32 = 4096;
/// Hot plugging wants a port of its own for each NVMe disk.
const PORTS: usize = 6;

/// A kernel of the disk machine, by series: `6.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel(pub String);

/// How a disk is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// A local disk: NVMe with sectors of 4096 bytes, in a slot that it can be pulled from.
    Nvme {
        /// Which one, from 0.
        slot: usize,
    },
    /// A network disk: virtio-blk.
    Virtio {
        /// Bytes of a sector.
        sector: u32,
    },
}

/// A disk as the command line says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drive {
    /// Serial number, and the name of device and backend.
    pub(crate) name: String,
    pub(crate) bus: Bus,
    /// Of its NBD server.
    pub(crate) socket: PathBuf,
}

/// What a machine has that is a node of Kubernetes and not only a rack of disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Image of an ext4 filesystem with its system; it is changed.
    pub system: PathBuf,
    /// Network interface of this host that its card is plugged into.
    pub tap: String,
}

/// Everything that the command line is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hardware {
    pub(crate) kernel: PathBuf,
    pub(crate) initrd: PathBuf,
    /// The UUID that its firmware gives the machine.
    pub(crate) uuid: String,
    /// Added to the kernel's command line.
    pub(crate) kernel_arguments: String,
    pub(crate) drives: Vec<Drive>,
    pub(crate) node: Option<Node>,
    /// The kernel's messages go here.
    pub(crate) console: PathBuf,
    /// We listen on these, the emulator connects.
    pub(crate) orders: PathBuf,
    pub(crate) qmp: PathBuf,
}

impl Drive {
    fn backend(&self) -> String {
        format!(
            "driver=nbd,node-name={},server.type=unix,server.path={}",
            self.name,
            self.socket.display()
        )
    }

    /// The device's properties, as QMP and the command line both have them.
    pub(crate) fn properties(&self) -> Vec<(&'static str, String)> {
        let mut properties = vec![
            ("id", format!("device-{}", self.name)),
            ("drive", self.name.clone()),
            ("serial", self.name.clone()),
        ];
        match self.bus {
            Bus::Nvme { slot } => properties.extend([
                ("driver", "nvme".to_owned()),
                ("bus", format!("port{slot}")),
                ("logical_block_size", "4096".to_owned()),
                ("physical_block_size", "4096".to_owned()),
            ]),
            Bus::Virtio { sector } => properties.extend([
                ("driver", "virtio-blk-pci".to_owned()),
                ("logical_block_size", sector.to_string()),
                ("physical_block_size", sector.to_string()),
            ]),
        }
        properties
    }

    fn device(&self) -> String {
        let words: Vec<_> = self
            .properties()
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        words.join(",")
    }
}

/// The emulator's arguments.
fn arguments(hardware: &Hardware) -> Vec<String> {
    let Hardware {
        kernel,
        initrd,
        uuid,
        kernel_arguments,
        drives,
        node,
        console,
        orders,
        qmp,
    } = hardware;
    // As if there could be two processors: before 8.1 the emulator leaves out the guest's memory barriers
    // when there is one, and a disk that another thread serves may never hear of a command
    // (its commit c914d46d0a64, "Do not elide memory barriers for !CF_PARALLEL in system mode").
    let (memory, processors) = match node {
        None => (MEMORY_MIB, "1,maxcpus=2"),
        Some(_) => (NODE_MEMORY_MIB, "2"),
    };
    let memory = memory.to_string();
    // An emulated timer beside a busy host is late at times: no reason for the kernel to give up on it.
    // Warnings are shown: a driver whose command was lost says so in one.
    // An emulated processor has none of the faults that kernels guard against.
    let append = format!(
        "console=ttyS0 loglevel=5 panic=-1 no_timer_check mitigations=off {kernel_arguments}"
    );
    let mut words: Vec<String> = [
        "-accel",
        "tcg,thread=multi",
        "-machine",
        "q35",
        // All that Debian asks for. Registers of later ones are emulated, too: with them the same takes a quarter longer,
        // and a copy from leg to leg twice as long.
        "-cpu",
        "Nehalem",
        "-smp",
        processors,
        "-m",
        &memory,
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
        "-device",
        "virtio-serial-pci",
        "-device",
        "virtserialport,chardev=orders",
        "-mon",
        "chardev=qmp,mode=control",
        "-append",
        &append,
    ]
    .map(str::to_owned)
    .to_vec();
    let mut say = |key: &str, value: String| words.extend([key.to_owned(), value]);
    say("-uuid", uuid.clone());
    say("-kernel", kernel.display().to_string());
    say("-initrd", initrd.display().to_string());
    say("-serial", format!("file:{}", console.display()));
    say(
        "-chardev",
        format!("socket,id=orders,path={}", orders.display()),
    );
    say("-chardev", format!("socket,id=qmp,path={}", qmp.display()));
    words.extend(plugs(drives, node.as_ref()));
    words
}

/// The arguments for what is plugged in.
fn plugs(drives: &[Drive], node: Option<&Node>) -> Vec<String> {
    let mut words = Vec::new();
    let mut say = |key: &str, value: String| words.extend([key.to_owned(), value]);
    for port in 0..PORTS {
        let port = format!(
            "pcie-root-port,id=port{port},chassis={},slot={}",
            port + 1,
            port + 1
        );
        say("-device", port);
    }
    for drive in drives {
        say("-blockdev", drive.backend());
        say("-device", drive.device());
    }
    if let Some(Node { system, tap }) = node {
        let system = system.display();
        say(
            "-blockdev",
            format!("driver=file,node-name=system,filename={system}"),
        );
        let disk = "virtio-blk-pci,drive=system,serial=system";
        say("-device", disk.to_owned());
        let plug = format!("tap,id=net,ifname={tap},script=no,downscript=no");
        say("-netdev", plug);
        say("-device", "virtio-net-pci,netdev=net".to_owned());
    }
    words
}

/// Starts the emulator; the owner of the child has to end it. It ends with the thread that started it in any case: a test
/// that is killed leaves no guest behind.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of these tests that starts a program"
)]
pub(crate) fn start(hardware: &Hardware, log: &Path) -> io::Result<Child> {
    std::process::Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
        .args(arguments(hardware))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(log)?)
        .spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_disks_have_a_port_and_big_sectors_and_network_disks_those_they_are_given() {
        let drive = |name: &str, bus| Drive {
            name: name.to_owned(),
            bus,
            socket: PathBuf::from("/s"),
        };
        assert_eq!(
            drive("local-1", Bus::Nvme { slot: 1 }).device(),
            "id=device-local-1,drive=local-1,serial=local-1,driver=nvme,bus=port1,\
             logical_block_size=4096,physical_block_size=4096"
        );
        assert_eq!(
            drive("data", Bus::Virtio { sector: 512 }).device(),
            "id=device-data,drive=data,serial=data,driver=virtio-blk-pci,\
             logical_block_size=512,physical_block_size=512"
        );
    }
}
