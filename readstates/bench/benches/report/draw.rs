//! Plots into the folder, as SVG and as PNG.

use std::{error::Error, fs, path::Path, sync::Arc};

use readstates_bench::plot::{Bar, Chart, bars, svg};
use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree, fontdb::Database},
};

/// Dots per unit of the SVG: legible on a dense screen.
const SCALE: f32 = 2.0;

pub(crate) fn draw(folder: &Path, name: &str, chart: &Chart) -> Result<(), Box<dyn Error>> {
    write(folder, name, svg(chart))
}

pub(crate) fn draw_bars(
    folder: &Path,
    name: &str,
    title: &str,
    subtitle: &str,
    all: &[Bar],
) -> Result<(), Box<dyn Error>> {
    write(folder, name, bars(title, subtitle, all))
}

fn write(folder: &Path, name: &str, plot: String) -> Result<(), Box<dyn Error>> {
    fs::write(folder.join(name).with_extension("png"), png(&plot)?)?;
    fs::write(folder.join(name).with_extension("svg"), plot)?;
    Ok(())
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
