//! Says what was seen and decided, to a person or to a program.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::model::{Candidate, Kernel, Node, Personality, Refusal, Seen, Survey};

/// For a person: what was looked at, a line each. Refusals are not in it; they go to standard error.
#[must_use]
pub fn human(survey: &Survey, refusals: &[Refusal]) -> String {
    let Survey {
        kernel,
        durable,
        local,
        assembling_rules,
    } = survey;
    let mut text = String::new();
    let verdict = if refusals.is_empty() { "can" } else { "cannot" };
    let mut line = |args: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{args}");
    };
    line(format_args!("This node {verdict} carry a super-disk."));
    line(format_args!(
        "  kernel   {}: raid0 {}, raid1 {}",
        kernel.release,
        personality(&kernel.raid0),
        personality(&kernel.raid1)
    ));
    for (leg, candidate) in durable
        .iter()
        .map(|one| ("durable", one))
        .chain(local.iter().map(|one| ("local", one)))
    {
        line(format_args!(
            "  {leg:<8} {}: {}",
            candidate.path.display(),
            node(candidate)
        ));
    }
    if let Some(rules) = assembling_rules {
        line(format_args!(
            "  udev     {} assembles super-disks before their pods do: run `superdisk node-setup` on the node, or set \
             superdiskNodeSetup.enabled of the chart",
            rules.display()
        ));
    }
    text
}

/// For a program: one JSON object, in one line.
pub fn json(survey: &Survey, refusals: &[Refusal]) -> serde_json::Result<String> {
    let Survey {
        kernel,
        durable,
        local,
        assembling_rules,
    } = survey;
    let Kernel {
        release,
        system,
        raid0,
        raid1,
    } = kernel;
    serde_json::to_string(&Json {
        ready: refusals.is_empty(),
        kernel: JsonKernel {
            release,
            system: system.as_ref().map(|system| system.pretty_name.as_str()),
            raid0: Tri::of(raid0, |personality| *personality),
            raid1: Tri::of(raid1, |personality| *personality),
        },
        durable: durable.as_ref().map(json_device),
        local: local.iter().map(json_device).collect(),
        assembling_rules: assembling_rules.as_deref(),
        refusals,
    })
}

#[derive(Serialize)]
struct Json<'a> {
    ready: bool,
    kernel: JsonKernel<'a>,
    durable: Option<JsonDevice>,
    local: Vec<JsonDevice>,
    assembling_rules: Option<&'a Path>,
    refusals: &'a [Refusal],
}

#[derive(Serialize)]
struct JsonKernel<'a> {
    release: &'a str,
    system: Option<&'a str>,
    raid0: Tri<Personality>,
    raid1: Tri<Personality>,
}

/// [`Seen`] in JSON: the value, `"absent"`, or `"unknown"`.
#[derive(Serialize)]
#[serde(untagged)]
enum Tri<T> {
    Value(T),
    Word(&'static str),
}

impl<T> Tri<T> {
    fn of<S>(seen: &Seen<S>, value: impl Fn(&S) -> T) -> Self {
        match seen {
            Seen::Present(present) => Self::Value(value(present)),
            Seen::Absent => Self::Word("absent"),
            Seen::Unknown(_) => Self::Word("unknown"),
        }
    }
}

#[derive(Serialize)]
struct JsonDevice {
    path: PathBuf,
    device: Tri<JsonNode>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonNode {
    Block {
        name: String,
        number: String,
        bytes: u64,
        read_only: bool,
        uses: Vec<String>,
    },
    NotBlock {
        not_block: String,
    },
}

fn json_device(candidate: &Candidate) -> JsonDevice {
    let node = |node: &Node| match node {
        Node::NotBlock(what) => JsonNode::NotBlock {
            not_block: what.clone(),
        },
        Node::Block(device) => JsonNode::Block {
            name: device.name.clone(),
            number: device.number.to_string(),
            bytes: device.bytes,
            read_only: device.read_only,
            uses: device.uses.iter().map(ToString::to_string).collect(),
        },
    };
    JsonDevice {
        path: candidate.path.clone(),
        device: Tri::of(&candidate.node, node),
    }
}

fn personality(seen: &Seen<Personality>) -> String {
    match seen {
        Seen::Present(personality) => personality.to_string(),
        Seen::Absent => "absent".to_owned(),
        Seen::Unknown(_) => "unknown".to_owned(),
    }
}

fn node(candidate: &Candidate) -> String {
    match &candidate.node {
        Seen::Absent => "not there".to_owned(),
        Seen::Unknown(why) => format!("unknown ({why})"),
        Seen::Present(Node::NotBlock(what)) => format!("{what}, not a block device"),
        Seen::Present(Node::Block(device)) => {
            let uses: Vec<String> = device.uses.iter().map(ToString::to_string).collect();
            let state = if uses.is_empty() {
                "free".to_owned()
            } else {
                uses.join(", ")
            };
            format!("{}, {} MiB, {state}", device.name, device.bytes >> 20)
        }
    }
}
