//! What the other measurements wrote into a folder, as one page: `report.md`, with a plot of the tail as SVG and
//! PNG. Reads `machine.md`, `cache.md`, `ownership.md`, `load-*.json` (named by what is between), `handoffs.md` and
//! `tail.json`, whichever are there.

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::Parser;
use readstates_bench::{
    drive::{runs_chart, tail_chart},
    plot::{Chart, svg},
    report::{Report, csv},
    summary::{Named, load_table, tail_section},
};
use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree, fontdb::Database},
};

/// The run to which others are compared.
const BASE: &str = "redis-ack";
/// Dots per unit of the SVG: legible on a dense screen.
const SCALE: f32 = 2.0;

/// One page of what was measured.
#[derive(Debug, Parser)]
struct Flags {
    /// The folder with what was measured; the page goes there too.
    folder: PathBuf,

    /// What cargo says to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&Flags::parse().folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("report: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut page = read(&folder.join("machine.md"))?.unwrap_or_default();
    if let Some(table) = read(&folder.join("cache.md"))? {
        page += "\n## Memory and speed of structures\n\n";
        page += &table;
    }
    let runs = loads(folder)?;
    if !runs.is_empty() {
        page += "\n## Load over loopback\n\n";
        page += &load_table(&runs, BASE);
    }
    if let Some(table) = read(&folder.join("handoffs.md"))? {
        page += "\n### What was handed on\n\n";
        page += &table;
        page += "\n![Latency by the second, run after run](handoffs.svg)\n";
        draw(folder, "handoffs", &runs_chart(&runs))?;
    }
    if let Some(tables) = read(&folder.join("ownership.md"))? {
        page += "\n## Ownership\n\n";
        page += &tables;
    }
    if let Some(json) = read(&folder.join("tail.json"))? {
        let report: Report = serde_json::from_str(&json)?;
        page += "\n## Tail by the second\n\n";
        page += &tail_section(&report);
        page += "\n![Latency by the second](tail.svg)\n";
        draw(folder, "tail", &tail_chart(&report))?;
        fs::write(folder.join("tail.csv"), csv(&report))?;
    }
    fs::write(folder.join("report.md"), page)?;
    Ok(())
}

/// As SVG and as PNG.
fn draw(folder: &Path, name: &str, chart: &Chart) -> Result<(), Box<dyn Error>> {
    let plot = svg(chart);
    fs::write(folder.join(name).with_extension("png"), png(&plot)?)?;
    fs::write(folder.join(name).with_extension("svg"), plot)?;
    Ok(())
}

/// `None` for a file that is not there.
fn read(file: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// In the order of their files' names, which begin with a number; shown without it.
fn loads(folder: &Path) -> Result<Vec<Named>, Box<dyn Error>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut runs = Vec::new();
    for file in files {
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let Some(name) = name
            .strip_prefix("load-")
            .and_then(|it| it.strip_suffix(".json"))
        else {
            continue;
        };
        let name = name
            .split_once('-')
            .map_or(name, |(_, name)| name)
            .to_owned();
        let report: Report = serde_json::from_str(&fs::read_to_string(&file)?)?;
        fs::write(file.with_extension("csv"), csv(&report))?;
        runs.push(Named { name, report });
    }
    Ok(runs)
}

fn png(svg: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    if fonts.is_empty() {
        return Err("no fonts to draw a PNG with; apt-get install fonts-dejavu-core".into());
    }
    let options = Options {
        fontdb: Arc::new(fonts),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options)?;
    let size = tree
        .size()
        .to_int_size()
        .scale_by(SCALE)
        .ok_or("an empty plot")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("an empty plot")?;
    resvg::render(
        &tree,
        Transform::from_scale(SCALE, SCALE),
        &mut pixels.as_mut(),
    );
    Ok(pixels.encode_png()?)
}
