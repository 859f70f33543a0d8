//! What the parts of `hack/bench` wrote into a folder, as one page: `report.md`, its plots as SVG and PNG, every second
//! of every run as CSV, and every figure of every table in `figures.json`. What is not there is left out. Or how a
//! report compares with an earlier one.

mod draw;
mod folder;

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use draw::{draw, draw_bars};
use folder::Folder;
use readstates_bench::{
    drive::{runs_chart, tail_chart},
    figures::{self, Figure},
    flat,
    machine::Machine,
    moves,
    paper::{self, Measured},
    report::{csv, usage},
    storm,
    summary::{Named, cost_table, load_table, tail_section},
    weight::{self, OURS, Weight},
};

/// One page of what was measured.
#[derive(Debug, Parser)]
struct Flags {
    /// Folder with the measurements; the page is written there too.
    folder: PathBuf,

    /// Write nothing; print what is slower or larger than in the report of this folder.
    #[arg(long, value_name = "OLD")]
    compare: Option<PathBuf>,

    /// Passed by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = match &flags.compare {
        None => write(&Folder(flags.folder)),
        Some(old) => compare(old, &flags.folder),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("report: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(old: &Path, new: &Path) -> Result<(), Box<dyn Error>> {
    let read = |folder: &Path, name: &str| {
        let file = folder.join(name);
        fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
    };
    let machine = |folder| read(folder, "report.md").map(Machine);
    for difference in machine(new)?.unlike(&machine(old)?) {
        println!("these two do not compare: {difference}");
    }
    let figures = |folder| -> Result<Vec<Figure>, Box<dyn Error>> {
        Ok(serde_json::from_str(&read(folder, "figures.json")?)?)
    };
    let (old, new) = (figures(old)?, figures(new)?);
    let both = new
        .iter()
        .filter(|figure| old.iter().any(|it| it.name == figure.name));
    print!(
        "{}",
        figures::text(&figures::compare(&old, &new), both.count())
    );
    Ok(())
}

fn write(folder: &Folder) -> Result<(), Box<dyn Error>> {
    let machine = folder.text("machine.md")?.unwrap_or_default();
    let mut page = machine.clone();
    let machine = Machine(machine);
    for section in [
        flat_section(folder, &machine)?,
        memory_section(folder, &machine)?,
        table_section(folder, "structures.md", STRUCTURES)?,
        throughput_section(folder)?,
        ready_section(folder)?,
        durability_section(folder)?,
        table_section(
            folder,
            "coalescing.md",
            "## Single operations that share requests\n\nThe client crate, on processors of its own, against one member. \
             *coalesced*: operations of many tasks become frames by themselves.\n\n",
        )?,
        cassandra_section(folder)?,
        table_section(folder, "table.md", "## Options of the table\n\n")?,
        table_section(folder, "migrate.md", "## Moves to another database\n\n")?,
        table_section(folder, "ring.md", "## Ring and fan-out\n\n")?,
        scaling_section(folder, &machine)?,
        growth_section(folder)?,
        tail(folder)?,
        disk_section(folder)?,
        operator_section(folder)?,
        paper_section(folder)?,
    ]
    .into_iter()
    .flatten()
    {
        page += "\n";
        page += &section;
    }
    let figures = figures::of_page(&page);
    fs::write(folder.0.join("report.md"), page)?;
    fs::write(
        folder.0.join("figures.json"),
        serde_json::to_string_pretty(&figures)? + "\n",
    )?;
    Ok(())
}

/// The seconds of every run, beside its JSON.
fn write_seconds(folder: &Folder, part: &str, runs: &[Named]) -> Result<(), Box<dyn Error>> {
    for Named { name, report } in runs {
        fs::write(folder.0.join(format!("{part}-{name}.csv")), csv(report))?;
    }
    Ok(())
}

const STRUCTURES: &str = "## What an operation takes inside of a process\n\n\
    Each structure in a process of its own; maps that have no locks of their own are in 64 stripes of one mutex each. An \
    update of ours also notes what must be written and when, which none of the others does.\n\n";

fn table_section(
    folder: &Folder,
    file: &str,
    head: &str,
) -> Result<Option<String>, Box<dyn Error>> {
    Ok(folder.text(file)?.map(|table| head.to_owned() + &table))
}

fn flat_section(folder: &Folder, machine: &Machine) -> Result<Option<String>, Box<dyn Error>> {
    let runs = folder.runs("flat")?;
    let Some(first) = runs.first() else {
        return Ok(None);
    };
    write_seconds(folder, "flat", &runs)?;
    let seconds = first.report.seconds;
    let states = first.report.settings.users * first.report.settings.channels;
    let mut out = format!(
        "## Flat against sawtooth\n\n{states} states, all in memory; {} at half of what the slowest of the servers answers, the \
         same for all, open loop, for {seconds:.0} s. *go-list*: maps and container/lists of pointers, GOGC=100. *go-flat*: \
         slabs without pointers, GOGC=off and GOMEMLIMIT. *ours* also writes what changed into a store in memory every \
         30 s, and its memory holds that store, too; the others write nothing.\n",
        first.report.settings.mix
    );
    if seconds < 480.0 {
        out += "\n**Too short for Go's forced collections, which come every two minutes: this says nothing of them.**\n";
    }
    out += "\n";
    out += &flat::section(&runs);
    for (name, chart) in flat::charts(&runs, &machine.line("flat")) {
        draw(&folder.0, name, &chart)?;
        out += &format!("\n![{}]({name}.svg)\n", chart.title);
    }
    Ok(Some(out))
}

fn weights(folder: &Folder) -> Result<Vec<Weight>, Box<dyn Error>> {
    let lists: Vec<Vec<Weight>> = folder.json("memory-")?;
    Ok(lists.into_iter().flatten().collect())
}

fn memory_section(folder: &Folder, machine: &Machine) -> Result<Option<String>, Box<dyn Error>> {
    let weights = weights(folder)?;
    if weights.is_empty() {
        return Ok(None);
    }
    draw_bars(
        &folder.0,
        "memory",
        "Bytes of memory for each read state, with the most states measured",
        &machine.line("memory"),
        &weight::bars(&weights),
    )?;
    Ok(Some(format!(
        "## Memory per state\n\nWhat the resident set of a process grows by, while so many states come in, allocator and all. \
         Users have 1 to 39 states; those that came over the wire exactly 20, which suits slabs best. *Over the wire* is a \
         whole member, when everything is written. Redis keeps 8 bytes for an \
         id and 16 for a state.\n\n{}\n![Bytes per state](memory.svg)\n",
        weight::table(&weights)
    )))
}

/// Runs with a token or over TLS, and those that they are compared with.
const GUARDED: [(&str, &str); 3] = [
    ("ours-token-ack-half-load", "ours-ack-half-load"),
    ("ours-tls-ack-half-load", "ours-ack-half-load"),
    ("redis-tls-ack-half-load", "redis-ack-half-load"),
];

fn throughput_section(folder: &Folder) -> Result<Option<String>, Box<dyn Error>> {
    let runs = folder.runs("throughput")?;
    write_seconds(folder, "throughput", &runs)?;
    Ok((!runs.is_empty()).then(|| {
        format!(
            "## Throughput and tail over loopback\n\nOne process each, on processors of its own; the generator has the others. \
             At saturation all were asked in turn, three times, and the best round of each counts. *half-load*: open \
             loop, at half of the rate of the run of that name. Redis without persistence, one thread, as it comes; its \
             Lua script means the same. Processor time is the service's.\n\n{}\n\
             *token*: every request says who calls, and it is looked up. *tls*: over TLS 1.3, on connections that are \
             kept. At the same rate, beside the run with neither:\n\n{}",
            load_table(&runs, "redis-ack"),
            cost_table(&runs, &GUARDED)
        )
    }))
}

fn ready_section(folder: &Folder) -> Result<Option<String>, Box<dyn Error>> {
    let runs = folder.runs("ready")?;
    let Some(first) = runs.first() else {
        return Ok(None);
    };
    write_seconds(folder, "ready", &runs)?;
    let settings = &first.report.settings;
    Ok(Some(format!(
        "## Everybody connects at once\n\nEvery user reads all {} states once, over {} connections to three members of a process \
         each with a Cassandra beside them; what is refused is asked again until it is answered. *cold*: no user is in \
         memory. *rows*: in binary.\n\n{}",
        settings.channels,
        settings.connections,
        storm::table(&runs)
    )))
}

fn durability_section(folder: &Folder) -> Result<Option<String>, Box<dyn Error>> {
    let runs = folder.runs("durability")?;
    write_seconds(folder, "durability", &runs)?;
    let distance = folder.text("durability-distance.md")?;
    let distance = distance.map_or_else(String::new, |measured| format!(": {}", measured.trim()));
    let half_load = ["available", "replicated"].map(|mode| {
        ["ack", "batch-64"].map(|what| {
            ["pair-interval", &format!("pair-{mode}")]
                .map(|name| format!("{name}-{what}-half-load"))
        })
    });
    let half_load = half_load.as_flattened();
    let pairs: Vec<_> = half_load
        .iter()
        .map(|[without, with]| (&**with, &**without))
        .collect();
    Ok((!runs.is_empty()).then(|| {
        format!(
            "## What survives a crash, and what it costs\n\nAcknowledgements at saturation on the disk of this machine, each asked \
             in turn, three times; the best round of each counts. *interval*: ours with the embedded store, written behind. \
             *journal*: the same, and each change is synced to a journal before it is answered. *pair*: one of two members with \
             stores in memory owns every slot; *pair-interval* does not replicate, *pair-available* and *pair-replicated* answer \
             a change when the second member has it in memory, too. Redis appends to a file: *always*, synced before a change is \
             answered; *everysec*, once a second; *replica*: no file, and a change is answered when a second server has it \
             (`WAIT 1`, once in a batch). Both processes of a pair share the server's processors, and a relay on the generator's \
             keeps them apart{distance}. *half-load*: all pairs at the same rate, half of what the slowest reached.\n\n{}\n{}",
            load_table(&runs, "redis-replica-ack"),
            cost_table(&runs, &pairs)
        )
    }))
}

fn cassandra_section(folder: &Folder) -> Result<Option<String>, Box<dyn Error>> {
    let runs = folder.runs("cassandra")?;
    write_seconds(folder, "cassandra", &runs)?;
    Ok((!runs.is_empty()).then(|| {
        format!(
            "## Straight to Cassandra\n\nWhat the same acknowledgements take without a service in between, by the scylla driver on \
             one node. *rmw*: a row for each state is read, and written when the message is newer; without a lightweight \
             transaction, so that two at once may lose one. *counter*: a mention is counted in a counter column, and twice \
             when it is sent again.\n\n{}",
            load_table(&runs, "rmw")
        )
    }))
}

fn scaling_section(folder: &Folder, machine: &Machine) -> Result<Option<String>, Box<dyn Error>> {
    let runs = folder.runs("scaling")?;
    let Some(first) = runs.first() else {
        return Ok(None);
    };
    write_seconds(folder, "scaling", &runs)?;
    draw(
        &folder.0,
        "scaling",
        &runs_chart(&runs, &machine.line("scaling")),
    )?;
    let settings = &first.report.settings;
    let mut out = format!(
        "## Three members, four, and three again\n\n{} states in members of a process each; {} operations a second.\n\n{}\n\
         ![Latency by the second, run after run](scaling.svg)\n",
        settings.users * settings.channels,
        settings.rate.unwrap_or(0.0),
        moves::table(&runs)
    );
    if let Some(table) = folder.text("scaling-handoffs.md")? {
        out += "\n### What was handed on\n\n";
        out += &table;
    }
    Ok(Some(out))
}

fn growth_section(folder: &Folder) -> Result<Option<String>, Box<dyn Error>> {
    let sizes: Vec<Vec<weight::Measured>> = folder.json("growth-states-")?;
    let sizes: Vec<_> = sizes.into_iter().flatten().collect();
    let runs = folder.runs("growth")?;
    write_seconds(folder, "growth", &runs)?;
    let members = folder.text("growth-members.md")?;
    if sizes.is_empty() && runs.is_empty() && members.is_none() {
        return Ok(None);
    }
    let mut out = "## Growth\n".to_owned();
    if !sizes.is_empty() {
        out += "\n### With the states of a member\n\n";
        out += &weight::growth_table(&sizes);
    }
    if let Some(members) = members {
        out += "\n### With the members of a ring, all in one process\n\n";
        // Its headings are below this one.
        out += &members
            .replace("### ", "#### ")
            .replace("user's owner", "user's owner, by members")
            .replace("30,000 users", "30,000 users, by members");
    }
    if !runs.is_empty() {
        out +=
            "\n### With the connections to a member\n\n*steady*: 10,000 a second, open loop.\n\n";
        out += &load_table(&runs, "connections-10");
    }
    Ok(Some(out))
}

fn tail(folder: &Folder) -> Result<Option<String>, Box<dyn Error>> {
    let Some(report) = folder.report("tail.json")? else {
        return Ok(None);
    };
    draw(&folder.0, "tail", &tail_chart(&report))?;
    fs::write(folder.0.join("tail.csv"), csv(&report))?;
    Ok(Some(format!(
        "## Tail by the second on a real Cassandra\n\n{}\n![Latency by the second](tail.svg)\n",
        tail_section(&report)
    )))
}

/// Its table as it is, and every line beside it as a paragraph.
fn disk_section(folder: &Folder) -> Result<Option<String>, Box<dyn Error>> {
    let Some(printed) = folder.text("disk.txt")? else {
        return Ok(None);
    };
    let mut out = "## Super-disk\n".to_owned();
    let mut in_table = false;
    for line in printed.lines().filter(|line| !line.is_empty()) {
        let is_row = line.starts_with('|');
        let gap = if is_row && in_table { "" } else { "\n" };
        out += &format!("{gap}{line}\n");
        in_table = is_row;
    }
    Ok(Some(out))
}

/// Its own head tells the machine once more.
fn operator_section(folder: &Folder) -> Result<Option<String>, Box<dyn Error>> {
    let table = |text: String| {
        let rows = text.lines().filter(|line| line.starts_with('|'));
        format!("## Operator\n\n{}\n", rows.collect::<Vec<_>>().join("\n"))
    };
    Ok(folder.text("operator.md")?.map(table))
}

/// Only from figures that are all of this folder.
fn paper_section(folder: &Folder) -> Result<Option<String>, Box<dyn Error>> {
    let runs = folder.runs("throughput")?;
    let cpu = |name: &str| {
        let run = runs.iter().find(|run| run.name == name)?;
        usage(&run.report).map(|usage| usage.cpu_seconds_per_million)
    };
    let weights = weights(folder)?;
    let ours = weights.iter().filter(|weight| weight.structure == OURS);
    let most = ours.max_by_key(|weight| weight.states);
    let (Some(weight), Some(single), Some(batched)) = (most, cpu("ours-ack"), cpu("ours-batch-64"))
    else {
        return Ok(None);
    };
    let page = paper::page(Measured {
        bytes_per_state: weight.bytes_per_state,
        single,
        batched,
    });
    Ok(Some(format!(
        "## Ten billion states and ten million updates a second, on paper\n\n{page}"
    )))
}
