//! `tests/fixtures/plan/SITUATION/{sys,disks,spec.yaml,plan.txt}`: what is seen of a node, what is asked, and
//! what is planned. `UPDATE_FIXTURES=1 cargo test -p superdisk --test planning` rewrites them all.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use serde::{Deserialize, Serialize};
use superdisk::{
    action::{Action, Decision, WaitingOn},
    inventory::Tried,
    plan::plan,
    spec::{FilesystemKind, Policy, Spec},
};

use crate::{
    node::{Node, fixtures, images, read_images, read_tree, tree, write_images, write_tree},
    situations::{Situation, situations},
};

/// A spec as `spec.yaml` has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Yaml {
    durable: String,
    local: Vec<String>,
    local_count: usize,
    volume: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copy_of: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restored: Option<u64>,
    mount: String,
    filesystem: String,
    used_before: bool,
    fast_leg_optional: bool,
    grow: bool,
}

impl Yaml {
    fn of(spec: &Spec) -> Self {
        Self {
            durable: spec.durable.display().to_string(),
            local: spec.local.clone(),
            local_count: spec.local_count,
            volume: spec.volume.to_string(),
            copy_of: spec.copy_of.as_ref().map(ToString::to_string),
            restored: spec.restored,
            mount: spec.mount.display().to_string(),
            filesystem: spec.filesystem.to_string(),
            used_before: spec.policy.used_before,
            fast_leg_optional: spec.policy.fast_leg_optional,
            grow: spec.policy.grow,
        }
    }

    fn spec(self) -> Spec {
        Spec {
            durable: self.durable.into(),
            local: self.local,
            local_count: self.local_count,
            volume: self.volume.parse().unwrap(),
            copy_of: self.copy_of.map(|copy| copy.parse().unwrap()),
            restored: self.restored,
            mount: self.mount.into(),
            filesystem: match self.filesystem.as_str() {
                "xfs" => FilesystemKind::Xfs,
                "ext4" => FilesystemKind::Ext4,
                other => panic!("{other} is no filesystem"),
            },
            policy: Policy {
                used_before: self.used_before,
                fast_leg_optional: self.fast_leg_optional,
                grow: self.grow,
                ..Policy::default()
            },
        }
    }
}

/// A decision as `plan.txt` has it.
pub(crate) fn text(decision: &Decision) -> String {
    let mut text = String::new();
    match decision {
        Decision::Do(actions) if actions.is_empty() => text.push_str("nothing to do\n"),
        Decision::Do(actions) => {
            for action in actions {
                let name = format!("{action:?}");
                let name = name.split([' ', '(']).next().unwrap();
                writeln!(text, "{name:<17} {action}").unwrap();
            }
        }
        Decision::WaitingOn(WaitingOn::FastLeg(refusal)) => {
            writeln!(text, "serving without the fast leg: {refusal}").unwrap();
        }
        Decision::Refused(refusal) => writeln!(text, "refused: {refusal}").unwrap(),
    }
    text
}

fn planned(folder: &Path) -> Decision {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let spec = serde_yaml_ng::from_str::<Yaml>(&read("spec.yaml"))
        .unwrap()
        .spec();
    let node = Node::new(&read_tree(&read("sys")), &read_images(&read("disks")));
    plan(&spec, &node.observe(&spec, &tried(&spec, &node)))
}

/// Having watched the durable leg, where that is what comes first.
pub(crate) fn tried(spec: &Spec, node: &Node) -> Tried {
    let mut tried = Tried::default();
    if let Decision::Do(actions) = plan(spec, &node.observe(spec, &tried)) {
        actions.iter().for_each(|action| tried.note(action));
    }
    tried
}

fn write(folder: &Path, situation: &Situation) {
    let Situation {
        name: _,
        spec,
        world,
        end: _,
    } = situation;
    fs::create_dir_all(folder).unwrap();
    let put = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    put("sys", write_tree(&tree(world)));
    put("disks", write_images(&images(world)));
    put(
        "spec.yaml",
        serde_yaml_ng::to_string(&Yaml::of(spec)).unwrap(),
    );
    put("plan.txt", text(&planned(folder)));
}

#[test]
fn every_situation_is_planned_for_as_its_folder_says() {
    let (all, root) = (situations(), fixtures());
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        let _ = fs::remove_dir_all(&root);
        for situation in &all {
            write(&root.join(situation.name), situation);
        }
    }
    let folders = fs::read_dir(&root).unwrap();
    let folders: BTreeSet<String> = folders
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let names: BTreeSet<String> = all.iter().map(|one| one.name.to_owned()).collect();
    assert_eq!(folders, names, "UPDATE_FIXTURES=1 writes them");
    for name in &folders {
        let folder = root.join(name);
        let golden = fs::read_to_string(folder.join("plan.txt")).unwrap();
        assert_eq!(text(&planned(&folder)), golden, "{name}");
    }
}

#[test]
fn folders_are_what_the_worlds_are() {
    for situation in situations() {
        let folder = fixtures().join(situation.name);
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(
            read("sys"),
            write_tree(&tree(&situation.world)),
            "{}",
            situation.name
        );
        assert_eq!(
            read("disks"),
            write_images(&images(&situation.world)),
            "{}",
            situation.name
        );
        assert_eq!(
            read_images(&read("disks")),
            images(&situation.world),
            "{}",
            situation.name
        );
    }
}

#[test]
fn no_plan_ever_touches_the_durable_leg_destructively() {
    for situation in situations() {
        let folder = fixtures().join(situation.name);
        let Decision::Do(actions) = planned(&folder) else {
            continue;
        };
        for action in actions {
            let line = action.to_string();
            let durable = line.contains("/dev/disk/by-id/data") || line.contains("/dev/vda");
            let destroys = match action {
                Action::ForgetLineage { .. }
                | Action::ForgetMirror(_)
                | Action::CreateStripe { .. }
                | Action::Add { .. }
                | Action::ReAdd { .. }
                | Action::Fail { .. }
                | Action::Remove { .. } => durable,
                // Only `resolve` comes to these.
                Action::ReadThrough { .. }
                | Action::StartMirrorFromFast { .. }
                | Action::ReAddDurable { .. } => true,
                Action::CreateMirror { .. } => situation.name != "p0-first-boot",
                Action::Stop { .. }
                | Action::Watch { .. }
                | Action::LimitWait { .. }
                | Action::StartStripe { .. }
                | Action::StartMirror { .. }
                | Action::Mark { .. }
                | Action::SettleMarks { .. }
                | Action::WriteMostly { .. }
                | Action::WriteLineage { .. }
                | Action::Format { .. }
                | Action::Set { .. }
                | Action::AddBitmap { .. }
                | Action::GrowMirror { .. }
                | Action::GrowFilesystem { .. }
                | Action::Mount { .. } => false,
            };
            assert!(!destroys, "{}: {line}", situation.name);
        }
    }
}
