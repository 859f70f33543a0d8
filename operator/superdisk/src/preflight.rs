//! Decides whether a node could carry a super-disk: [`Request`] and [`Survey`] in, refusals out.
//!
//! Pure. All refusals are given, not only the first, so that one run tells everything there is to mend.

use crate::model::{
    Candidate, Code, Device, Kernel, Node, Personality, Refusal, Request, Seen, Survey,
};

/// Empty when the node could carry the super-disk that is asked for.
#[must_use]
pub fn decide(request: &Request, survey: &Survey) -> Vec<Refusal> {
    let Survey {
        kernel,
        durable,
        local,
        // It is dealt with, and said.
        assembling_rules: _,
    } = survey;
    let mut refusals = Vec::new();
    refusals.extend(release(kernel));
    refusals.extend(raid0(kernel));
    refusals.extend(raid1(kernel));
    refusals.extend(durable.as_ref().and_then(durable_leg));
    let durable = durable.as_ref().and_then(device);
    refusals.extend(
        local
            .iter()
            .filter_map(|candidate| local_device(candidate, durable)),
    );
    refusals.extend(enough_local(request, local));
    refusals
}

/// Why this kernel cannot carry a super-disk, first reason first.
#[must_use]
pub fn kernel(kernel: &Kernel) -> Option<Refusal> {
    release(kernel)
        .or_else(|| raid0(kernel))
        .or_else(|| raid1(kernel))
}

/// Linux 6.9 and 6.10 read from a write-mostly mirror's half that is still being rebuilt (fixed upstream by
/// 36a5c03f2327 and c916ca35308d in 6.11; which 6.10 release first had both is not known).
fn release(kernel: &Kernel) -> Option<Refusal> {
    let mut numbers = kernel
        .release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let (major, minor) = (numbers.next()?, numbers.next()?);
    matches!((major, minor), (6, 9 | 10)).then(|| Refusal {
        code: Code::Kernel,
        message: format!(
            "Linux {} can corrupt a degraded mirror that has a write-mostly half",
            kernel.release
        ),
        next_step: "Use a node image with Linux 6.8 or older, or 6.11 or newer".to_owned(),
    })
}

fn raid0(kernel: &Kernel) -> Option<Refusal> {
    let (message, next_step) = personality(kernel, "raid0", &kernel.raid0)?;
    Some(Refusal {
        code: Code::Kernel,
        message,
        next_step,
    })
}

fn raid1(kernel: &Kernel) -> Option<Refusal> {
    let (message, next_step) = personality(kernel, "raid1", &kernel.raid1)?;
    Some(Refusal {
        code: Code::NoRaid1,
        message,
        next_step,
    })
}

fn personality(kernel: &Kernel, name: &str, seen: &Seen<Personality>) -> Option<(String, String)> {
    let release = &kernel.release;
    match seen {
        Seen::Present(Personality::Active | Personality::BuiltIn | Personality::Loadable) => None,
        Seen::Absent => {
            let system = kernel.system.as_ref();
            let image = system.map_or("this node image", |system| system.pretty_name.as_str());
            let next_step = if system.is_some_and(|system| system.id == "cos") {
                "Use the Ubuntu node image for this node pool: Container-Optimized OS leaves it out"
            } else {
                "Use a node image that has it, as Ubuntu's and Debian's have"
            };
            Some((
                format!("The kernel {release} of {image} has no md personality {name}"),
                next_step.to_owned(),
            ))
        }
        Seen::Unknown(why) => Some((
            format!("Whether the kernel {release} has md personality {name} cannot be told: {why}"),
            format!(
                "Make /lib/modules of the node readable here, or run `modprobe {name}` on the node"
            ),
        )),
    }
}

fn durable_leg(candidate: &Candidate) -> Option<Refusal> {
    let path = candidate.path.display();
    match &candidate.node {
        Seen::Absent => Some(Refusal {
            code: Code::PdLost,
            message: format!("The durable device {path} is not there"),
            next_step: "Attach the network disk to this node, or correct --durable".to_owned(),
        }),
        Seen::Unknown(why) => Some(Refusal {
            code: Code::PdLost,
            message: format!("The durable device {path} cannot be looked at: {why}"),
            next_step: "Run as root, with the node's /dev and /sys".to_owned(),
        }),
        Seen::Present(Node::NotBlock(what)) => Some(Refusal {
            code: Code::PdForeign,
            message: format!("The durable device {path} is {what}, not a block device"),
            next_step: "Name the device of the network disk with --durable".to_owned(),
        }),
        Seen::Present(Node::Block(device)) => taken(device).map(|why| Refusal {
            code: Code::PdForeign,
            message: format!("The durable device {path} ({}) {why}", device.name),
            next_step: "Give the super-disk a network disk that nothing else uses".to_owned(),
        }),
    }
}

fn local_device(candidate: &Candidate, durable: Option<&Device>) -> Option<Refusal> {
    let path = candidate.path.display();
    match &candidate.node {
        Seen::Absent => None,
        Seen::Unknown(why) => Some(Refusal {
            code: Code::SsdMissing,
            message: format!("The local device {path} cannot be looked at: {why}"),
            next_step: "Run as root, with the node's /dev and /sys".to_owned(),
        }),
        Seen::Present(Node::NotBlock(what)) => Some(Refusal {
            code: Code::SsdMissing,
            message: format!("The local device {path} is {what}, not a block device"),
            next_step: "Let --local name local disks only".to_owned(),
        }),
        Seen::Present(Node::Block(device)) => {
            let is_durable = durable.is_some_and(|durable| durable.number == device.number);
            let why = is_durable.then(|| "is the durable device".to_owned());
            why.or_else(|| taken(device)).map(|why| Refusal {
                code: Code::SsdBusy,
                message: format!("The local device {path} ({}) {why}", device.name),
                next_step: "Free it, or let --local leave it out: what is on it would be wiped"
                    .to_owned(),
            })
        }
    }
}

fn enough_local(request: &Request, local: &[Candidate]) -> Option<Refusal> {
    let found = local
        .iter()
        .filter(|candidate| device(candidate).is_some())
        .count();
    (!request.local.is_empty() && found < request.local_count).then(|| Refusal {
        code: Code::SsdMissing,
        message: format!(
            "{found} of {} local devices are there for {}",
            request.local_count,
            request.local.join(", ")
        ),
        next_step: "Use a node pool with that many local disks, or correct --local and \
                    --local-count"
            .to_owned(),
    })
}

fn device(candidate: &Candidate) -> Option<&Device> {
    match &candidate.node {
        Seen::Present(Node::Block(device)) => Some(device),
        Seen::Present(Node::NotBlock(_)) | Seen::Absent | Seen::Unknown(_) => None,
    }
}

/// Why a device cannot be taken, as the end of a sentence that begins with its name.
fn taken(device: &Device) -> Option<String> {
    if device.bytes == 0 {
        return Some("has no capacity".to_owned());
    }
    if device.read_only {
        return Some("is read-only".to_owned());
    }
    let uses: Vec<String> = device.uses.iter().map(ToString::to_string).collect();
    (!uses.is_empty()).then(|| uses.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeviceNumber, System, Use};

    fn kernel() -> Kernel {
        Kernel {
            release: "6.1.0-50-amd64".to_owned(),
            system: None,
            raid0: Seen::Present(Personality::BuiltIn),
            raid1: Seen::Present(Personality::Loadable),
        }
    }

    fn block(path: &str, minor: u32, uses: &[Use]) -> Candidate {
        Candidate {
            path: path.into(),
            node: Seen::Present(Node::Block(Device {
                name: path.trim_start_matches("/dev/").to_owned(),
                number: DeviceNumber { major: 259, minor },
                bytes: 1 << 30,
                read_only: false,
                uses: uses.to_vec(),
            })),
        }
    }

    fn two_local() -> Request {
        Request {
            durable: Some("/dev/sdb".into()),
            local: vec!["/dev/nvme*".to_owned()],
            local_count: 2,
        }
    }

    fn free() -> Survey {
        Survey {
            kernel: kernel(),
            durable: Some(block("/dev/sdb", 9, &[])),
            local: vec![block("/dev/nvme0n1", 0, &[]), block("/dev/nvme1n1", 1, &[])],
            assembling_rules: None,
        }
    }

    /// The lines a person would read.
    fn lines(request: &Request, survey: &Survey) -> Vec<String> {
        decide(request, survey)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_node_with_raid_and_free_devices_is_taken() {
        assert_eq!(lines(&two_local(), &free()), Vec::<String>::new());
    }

    #[test]
    fn kernels_that_corrupt_such_a_mirror_are_refused() {
        for (release, good) in [
            ("6.1.0-50-amd64", true),
            ("6.8.12", true),
            ("6.9.3", false),
            ("6.10.14+bpo-amd64", false),
            ("6.11-rc1", true),
            ("6.90.1", true),
            ("16.9.0", true),
            ("5.15.0", true),
        ] {
            let kernel = Kernel {
                release: release.to_owned(),
                ..kernel()
            };
            let codes: Vec<_> = decide(&two_local(), &Survey { kernel, ..free() })
                .into_iter()
                .map(|refusal| refusal.code)
                .collect();
            assert_eq!(
                codes,
                if good { vec![] } else { vec![Code::Kernel] },
                "{release}"
            );
        }
    }

    #[test]
    fn container_optimized_os_is_refused_by_name() {
        let kernel = Kernel {
            release: "5.15.133+".to_owned(),
            system: Some(System {
                id: "cos".to_owned(),
                pretty_name: "Container-Optimized OS from Google".to_owned(),
            }),
            raid1: Seen::Absent,
            ..kernel()
        };
        assert_eq!(
            lines(&two_local(), &Survey { kernel, ..free() }),
            [
                "E_NO_RAID1 The kernel 5.15.133+ of Container-Optimized OS from Google has no md \
                 personality raid1. Use the Ubuntu node image for this node pool: \
                 Container-Optimized OS leaves it out."
            ]
        );
    }

    #[test]
    fn unknown_modules_are_not_taken_for_absent_ones() {
        let kernel = Kernel {
            raid1: Seen::Unknown("/lib/modules/6.1.0 is not there".to_owned()),
            ..kernel()
        };
        assert_eq!(
            lines(&two_local(), &Survey { kernel, ..free() }),
            [
                "E_NO_RAID1 Whether the kernel 6.1.0-50-amd64 has md personality raid1 cannot be \
                 told: /lib/modules/6.1.0 is not there. Make /lib/modules of the node readable \
                 here, or run `modprobe raid1` on the node."
            ]
        );
    }

    #[test]
    fn every_use_of_a_device_is_named() {
        let mounted = Use::Mount("/data".to_owned());
        let survey = Survey {
            durable: Some(block("/dev/sdb", 9, &[Use::Holder("md127".to_owned())])),
            local: vec![
                block(
                    "/dev/nvme0n1",
                    0,
                    &[mounted, Use::Partition("nvme0n1p1".to_owned())],
                ),
                block("/dev/nvme1n1", 1, &[Use::Swap]),
            ],
            ..free()
        };
        assert_eq!(
            lines(&two_local(), &survey),
            [
                "E_PD_FOREIGN The durable device /dev/sdb (sdb) is a component of md127. Give the \
                 super-disk a network disk that nothing else uses.",
                "E_SSD_BUSY The local device /dev/nvme0n1 (nvme0n1) is mounted at /data and has \
                 the partition nvme0n1p1. Free it, or let --local leave it out: what is on it \
                 would be wiped.",
                "E_SSD_BUSY The local device /dev/nvme1n1 (nvme1n1) is swap space. Free it, or let \
                 --local leave it out: what is on it would be wiped.",
            ]
        );
    }

    #[test]
    fn the_durable_device_is_never_a_local_one() {
        let survey = Survey {
            durable: Some(block("/dev/disk/by-id/data", 1, &[])),
            ..free()
        };
        assert_eq!(
            lines(&two_local(), &survey),
            [
                "E_SSD_BUSY The local device /dev/nvme1n1 (nvme1n1) is the durable device. Free \
                 it, or let --local leave it out: what is on it would be wiped."
            ]
        );
    }

    #[test]
    fn missing_devices_are_counted() {
        let survey = Survey {
            durable: Some(Candidate {
                path: "/dev/sdb".into(),
                node: Seen::Absent,
            }),
            local: vec![
                block("/dev/nvme0n1", 0, &[]),
                Candidate {
                    path: "/dev/nvme7n1".into(),
                    node: Seen::Absent,
                },
            ],
            ..free()
        };
        assert_eq!(
            lines(&two_local(), &survey),
            [
                "E_PD_LOST The durable device /dev/sdb is not there. Attach the network disk to \
                 this node, or correct --durable.",
                "E_SSD_MISSING 1 of 2 local devices are there for /dev/nvme*. Use a node pool with \
                 that many local disks, or correct --local and --local-count.",
            ]
        );
    }
}
