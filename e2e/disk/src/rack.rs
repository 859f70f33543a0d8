//! A rack: disks that outlive the machine they are plugged into.

use std::{
    env,
    fs::{self, File},
    io,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::Child,
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::{
    disk::{Disk, WriteCache},
    nbd::Server,
    orders::Orders,
    qemu::{self, Bus, Drive, Hardware, Kernel, Node},
    qmp::Qmp,
    vm::Vm,
};

/// Bytes.
pub const MIB: u64 = 1 << 20;
/// The network disk's name.
pub const DURABLE: &str = "data";

/// The release of Debian that the guest is made of.
const OWN_MDADM: &str = "12";

/// 7 s on an idle machine, a minute for a whole system; beside builds each takes many times as long.
const BOOT: Duration = Duration::from_mins(10);

/// The `slot`th local disk's name, from 0.
#[must_use]
pub fn local(slot: usize) -> String {
    format!("local-nvme-ssd-{slot}")
}

/// Disks, and what is needed to boot a machine with them.
#[derive(Debug)]
pub struct Rack {
    name: String,
    folder: TempDir,
    slots: Vec<(Drive, Disk, Server)>,
    kernel: Kernel,
    kernel_arguments: String,
    /// Which machine the disks are in: its firmware says so.
    machine: u32,
    boots: usize,
    ingredients: Ingredients,
    with_fio: bool,
    with_udev: bool,
    node: Option<Node>,
}

/// What `hack/disk-machine` has built.
#[derive(Debug)]
struct Ingredients {
    machine: PathBuf,
    programs: PathBuf,
    logs: PathBuf,
    /// With another mdadm, where one is asked for.
    mdadm: Option<PathBuf>,
}

impl Ingredients {
    fn from_environment() -> Result<Self> {
        let path = |name: &str| {
            let value = env::var_os(name).with_context(|| {
                format!("{name} is not set: start these tests by hack/disk-machine test")
            })?;
            Ok::<_, anyhow::Error>(PathBuf::from(value))
        };
        let machine = path("READSTATES_DISK_MACHINE")?;
        let release = env::var("READSTATES_DISK_MDADM").ok();
        let mdadm = release.filter(|release| release != OWN_MDADM);
        Ok(Self {
            mdadm: mdadm.map(|release| machine.join(format!("mdadm-{release}/mdadm.cpio"))),
            programs: path("READSTATES_DISK_PROGRAMS")?,
            logs: path("READSTATES_DISK_LOGS")?,
            machine,
        })
    }
}

impl Rack {
    /// Two local disks of 128 MiB and a network disk of 256 MiB, all blank: small, for every copy of a leg
    /// costs the time of an emulated processor.
    ///
    /// # Errors
    /// When the ingredients are missing or a file cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        Self::of_size(name, 256 * MIB)
    }

    /// Two local disks and a network disk that is as large as both: XFS wants 640 MiB.
    ///
    /// # Errors
    /// When the ingredients are missing or a file cannot be made.
    pub fn of_size(name: &str, size: u64) -> Result<Self> {
        let mut rack = Self::empty(name)?;
        rack.add_local(size / 2)?;
        rack.add_local(size / 2)?;
        rack.add_network(DURABLE, size)?;
        Ok(rack)
    }

    /// No disks yet.
    ///
    /// # Errors
    /// When the ingredients are missing or a file cannot be made.
    pub fn empty(name: &str) -> Result<Self> {
        let ingredients = Ingredients::from_environment()?;
        fs::create_dir_all(&ingredients.logs).context("failed to make the folder for logs")?;
        let series = match env::var("READSTATES_DISK_KERNEL") {
            Ok(series) => series,
            Err(_) => oldest_kernel(&ingredients.machine)?,
        };
        Ok(Self {
            name: name.to_owned(),
            folder: tempfile::Builder::new()
                .prefix("disk-machine-")
                .tempdir()
                .context("failed to make a folder for disks")?,
            slots: Vec::new(),
            kernel: Kernel(series),
            kernel_arguments: String::new(),
            machine: 1,
            boots: 0,
            ingredients,
            with_fio: false,
            with_udev: false,
            node: None,
        })
    }

    /// Puts a blank local disk into the next slot.
    ///
    /// # Errors
    /// When its image cannot be made.
    pub fn add_local(&mut self, size: u64) -> Result<Disk> {
        let slot = self
            .slots
            .iter()
            .filter(|(drive, ..)| matches!(drive.bus, Bus::Nvme { .. }))
            .count();
        self.add(&local(slot), Bus::Nvme { slot }, size, WriteCache::Volatile)
    }

    /// Attaches a blank network disk with sectors of 512 bytes.
    ///
    /// # Errors
    /// When its image cannot be made.
    pub fn add_network(&mut self, name: &str, size: u64) -> Result<Disk> {
        self.add_network_of_sectors(name, size, 512)
    }

    /// Attaches a blank network disk with sectors of so many bytes.
    ///
    /// # Errors
    /// When its image cannot be made.
    pub fn add_network_of_sectors(&mut self, name: &str, size: u64, sector: u32) -> Result<Disk> {
        self.add(name, Bus::Virtio { sector }, size, WriteCache::Through)
    }

    fn add(&mut self, name: &str, bus: Bus, size: u64, cache: WriteCache) -> Result<Disk> {
        let path = |suffix: &str| self.folder.path().join(format!("{name}.{suffix}"));
        let disk = Disk::blank(name, &path("img"), size, cache)
            .with_context(|| format!("failed to make disk {name}"))?;
        let server = Server::start(&disk, &path("sock"))
            .with_context(|| format!("failed to serve disk {name}"))?;
        let drive = Drive {
            name: name.to_owned(),
            bus,
            socket: server.socket().to_owned(),
        };
        self.slots.push((drive, disk.clone(), server));
        Ok(disk)
    }

    /// Takes a disk away; no machine may be running.
    pub fn remove(&mut self, name: &str) {
        self.slots.retain(|(drive, ..)| drive.name != name);
    }

    /// The disk of this name.
    ///
    /// # Panics
    /// When there is none: the test is wrong.
    #[must_use]
    pub fn disk(&self, name: &str) -> &Disk {
        let slot = self.slots.iter().find(|(drive, ..)| drive.name == name);
        &slot.unwrap_or_else(|| panic!("no disk {name}")).1
    }

    /// The network disk.
    #[must_use]
    pub fn durable(&self) -> &Disk {
        self.disk(DURABLE)
    }

    /// The local disk in this slot.
    #[must_use]
    pub fn local(&self, slot: usize) -> &Disk {
        self.disk(&local(slot))
    }

    /// The disks are in another machine from the next boot on.
    pub fn another_machine(&mut self) {
        self.machine += 1;
    }

    /// Blank local disks in place of all that there are: another host, behind the same machine's name, as clouds do it.
    ///
    /// # Errors
    /// When an image cannot be changed.
    pub fn migrate_host(&self) -> Result<()> {
        println!("    # (another host)");
        for (drive, disk, _) in &self.slots {
            if matches!(drive.bus, Bus::Nvme { .. }) {
                disk.replace()?;
            }
        }
        Ok(())
    }

    /// Added to the kernel's command line from the next boot on.
    pub fn kernel_arguments(&mut self, words: &str) {
        words.clone_into(&mut self.kernel_arguments);
    }

    /// The guest will have fio: a larger initramfs.
    pub fn with_fio(&mut self) {
        self.with_fio = true;
    }

    /// The guest will have Debian's udev, and mdadm's rules that assemble what they find.
    pub fn with_udev(&mut self) {
        self.with_udev = true;
        self.kernel_arguments.push_str(" readstates.udev");
    }

    /// The machine will be a node of Kubernetes: `hack/disk-guest/become-node` says what the kernel's arguments
    /// then have to tell.
    pub fn as_node(&mut self, node: Node) {
        self.node = Some(node);
    }

    /// Switches a machine on, and waits until it takes orders.
    ///
    /// # Errors
    /// When it does not come up; the console's log is named.
    pub fn boot(&mut self) -> Result<Vm> {
        self.boots += 1;
        println!(
            "    # (boot {} of {}, Linux {})",
            self.boots, self.name, self.kernel.0
        );
        let log = |what: &str| {
            let name = format!("{}-{}-{}.{what}", self.name, self.kernel.0, self.boots);
            self.ingredients.logs.join(name)
        };
        let socket = |what: &str| {
            self.folder
                .path()
                .join(format!("{what}-{}.sock", self.boots))
        };
        let initrd = self.folder.path().join("initrd");
        self.write_initrd(&initrd)?;
        let hardware = Hardware {
            kernel: self
                .ingredients
                .machine
                .join(&self.kernel.0)
                .join("vmlinux"),
            initrd,
            uuid: format!("5e1f0a51-0000-4c55-9ba5-{:012x}", self.machine),
            kernel_arguments: self.kernel_arguments.clone(),
            drives: self.slots.iter().map(|(drive, ..)| drive.clone()).collect(),
            node: self.node.clone(),
            console: log("console"),
            orders: socket("orders"),
            qmp: socket("qmp"),
        };
        let orders = UnixListener::bind(&hardware.orders)?;
        let qmp = UnixListener::bind(&hardware.qmp)?;
        let qemu = Started(Some(
            qemu::start(&hardware, &log("qemu")).context("failed to start qemu-system-x86_64")?,
        ));
        let up = connect(orders, qmp, BOOT);
        let (orders, qmp) = up.with_context(|| {
            format!(
                "no machine: see {}",
                hardware.console.with_extension("*").display()
            )
        })?;
        Ok(Vm {
            qemu: qemu.up()?,
            orders,
            qmp: Mutex::new(qmp),
            drives: self
                .slots
                .iter()
                .map(|(drive, disk, _)| (drive.clone(), disk.clone()))
                .collect(),
            console: hardware.console,
        })
    }

    /// An initramfs is as many archives in a row as one likes.
    fn write_initrd(&self, path: &Path) -> Result<()> {
        let Ingredients {
            machine,
            programs,
            logs: _,
            mdadm,
        } = &self.ingredients;
        let modules = match self.node {
            None => "modules.cpio",
            Some(_) => "node-modules.cpio",
        };
        let mut pieces = vec![
            machine.join("tools.cpio"),
            machine.join(&self.kernel.0).join(modules),
            programs.clone(),
        ];
        if self.with_fio {
            pieces.push(machine.join("fio.cpio"));
        }
        if self.with_udev {
            pieces.push(machine.join("udev.cpio"));
        }
        // Last, for its C library takes the place of the others'.
        pieces.extend(mdadm.clone());
        let mut whole = File::create(path).context("failed to make the initramfs")?;
        for piece in &pieces {
            let copied = File::open(piece).and_then(|mut piece| io::copy(&mut piece, &mut whole));
            copied.with_context(|| format!("failed to copy {}", piece.display()))?;
        }
        Ok(())
    }
}

/// Ends the emulator when the boot fails half way.
struct Started(Option<Child>);

impl Started {
    fn up(mut self) -> Result<Child> {
        self.0.take().context("QEMU was taken twice")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself: that is why the boot failed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for the emulator's two connections, and for the guest.
fn connect(orders: UnixListener, qmp: UnixListener, patience: Duration) -> Result<(Orders, Qmp)> {
    let accept = |listener: UnixListener| {
        let (accepted, stream) = mpsc::channel();
        // Ends with the connection, or with the process when none comes.
        thread::spawn(move || accepted.send(listener.accept().map(|(stream, _)| stream)));
        match stream.recv_timeout(BOOT) {
            Ok(stream) => stream.context("failed to accept QEMU's connection"),
            Err(_) => bail!("QEMU did not connect within {BOOT:?}"),
        }
    };
    let orders = accept(orders)?;
    let qmp = Qmp::connected(accept(qmp)?)?;
    Ok((Orders::connected(orders, patience)?, qmp))
}

/// The one that most nodes have.
fn oldest_kernel(machine: &Path) -> Result<String> {
    let mut series: Vec<(u32, u32)> = fs::read_dir(machine)
        .with_context(|| format!("failed to look into {}", machine.display()))?
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let (major, minor) = name.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        })
        .collect();
    series.sort_unstable();
    let (major, minor) = series.first().context("the disk machine has no kernel")?;
    Ok(format!("{major}.{minor}"))
}
