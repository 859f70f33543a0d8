//! `spec.database.superDisk` after parsing.

use readstates_operator_api::{PodTemplate, SuperDiskSpec};

use super::Checker;
use crate::spec::SuperDisk;

impl Checker {
    /// What a CRD older than this operator would let pass ends here: these paths become arguments of a program
    /// that wipes disks.
    pub(super) fn super_disk(&mut self, spec: &SuperDiskSpec, image: Option<&str>) -> SuperDisk {
        const FIELD: &str = "spec.database.superDisk";
        let SuperDiskSpec {
            local_devices,
            local_count,
            fast_leg,
            filesystem,
            image: own_image,
        } = spec;
        if local_devices.is_empty() {
            self.wrong(format!("{FIELD}.localDevices"), "at least one is needed");
        }
        for (i, device) in local_devices.iter().enumerate() {
            let parts = device.strip_prefix("/dev/").map(|rest| rest.split('/'));
            let fits = parts.is_some_and(|mut parts| parts.all(|p| !matches!(p, "" | "." | "..")));
            if !fits {
                self.wrong(
                    format!("{FIELD}.localDevices[{i}]"),
                    format!("{device:?} is not a path below /dev"),
                );
            }
        }
        if *local_count < 1 {
            self.wrong(format!("{FIELD}.localCount"), "must be at least 1");
        }
        let image = own_image.as_deref().or(image);
        if image.is_none() {
            self.wrong(
                format!("{FIELD}.image"),
                "is needed: the operator was installed without an image for super-disks (the chart's superdiskImage)",
            );
        }
        SuperDisk {
            local_devices: local_devices.clone(),
            local_count: *local_count,
            fast_leg: *fast_leg,
            filesystem: *filesystem,
            image: image.unwrap_or_default().to_owned(),
        }
    }

    /// Who owns the files of the disk must be known before there is a pod: it is no volume whose files a kubelet gives to
    /// the pod's group.
    pub(super) fn owner_of_super_disk(&mut self, overlay: Option<&PodTemplate>) {
        let security = overlay.and_then(|overlay| overlay.security_context.as_ref());
        if security.is_some_and(|security| security.run_as_user.is_none()) {
            self.wrong(
                "spec.database.podTemplate.securityContext.runAsUser",
                "is needed with superDisk: the disk's files are given to this user",
            );
        }
    }
}
