//! Charts as SVG, legible without anything but a browser: lines over time, logarithmic upwards, and bars.
//! Written by hand: the crate that draws charts has had no release for two years, and this is all of it that is used.

use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 52.0;
/// Also distinct for readers who cannot tell red from green: Okabe and Ito's palette.
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];

/// A line.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// (x, y); what is not above 0 cannot be shown and breaks the line.
    pub points: Vec<(f64, f64)>,
}

#[derive(Debug, Clone)]
pub struct Chart {
    /// The headline.
    pub title: String,
    /// Below it: the machine, the date, the load.
    pub subtitle: String,
    /// What is on the axis to the right, with its unit.
    pub x: String,
    /// What is on the axis upwards, with its unit.
    pub y: String,
    /// The lines.
    pub series: Vec<Series>,
    /// Dashed lines across, with their names.
    pub marks: Vec<(String, f64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What stands beside it.
    pub name: String,
    /// Its length, from 0.
    pub value: f64,
}

const BAR_HEIGHT: f64 = 24.0;
const NAMES: f64 = 220.0;
/// For the value behind the longest bar.
const VALUES: f64 = 70.0;

/// Bars below each other as an SVG document, each with its name and value; the unit is part of the title.
#[must_use]
pub fn bars(title: &str, subtitle: &str, bars: &[Bar]) -> String {
    let mut out = String::new();
    // Into a string, which takes everything.
    let _ = draw_bars(title, subtitle, bars, &mut out);
    out
}

fn draw_bars(title: &str, subtitle: &str, bars: &[Bar], out: &mut String) -> std::fmt::Result {
    head(out, TOP + BAR_HEIGHT * bars.len() as f64)?;
    text(out, 20.0, 20.0, "start", 15.0, title)?;
    text(out, 20.0, 37.0, "start", 11.0, subtitle)?;
    let longest = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let unit = (WIDTH - NAMES - VALUES) / longest.max(f64::MIN_POSITIVE);
    for (place, bar) in bars.iter().enumerate() {
        let y = TOP - 8.0 + BAR_HEIGHT * place as f64;
        let (length, colour) = (bar.value * unit, COLOURS[0]);
        let thickness = BAR_HEIGHT - 7.0;
        writeln!(
            out,
            r#"<rect x="{NAMES}" y="{y:.1}" width="{length:.1}" height="{thickness}" fill="{colour}"/>"#
        )?;
        text(out, NAMES - 8.0, y + 13.0, "end", 12.0, &bar.name)?;
        let value = format!("{:.1}", bar.value);
        text(out, NAMES + length + 6.0, y + 13.0, "start", 12.0, &value)?;
    }
    writeln!(out, "</svg>")
}

fn head(out: &mut String, height: f64) -> std::fmt::Result {
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="12">"#
    )?;
    writeln!(
        out,
        r##"<rect width="100%" height="100%" fill="#ffffff"/>"##
    )
}

/// The chart as an SVG document.
#[must_use]
pub fn svg(chart: &Chart) -> String {
    let mut out = String::new();
    // Into a string, which takes everything.
    let _ = draw(chart, &mut out);
    out
}

/// Where values are on the sheet.
struct Scale {
    last_x: f64,
    first_power: i32,
    last_power: i32,
}

impl Scale {
    fn of(chart: &Chart) -> Self {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let marks = chart.marks.iter().map(|(_, y)| *y);
        let ys = || {
            points()
                .map(|(_, y)| *y)
                .chain(marks.clone())
                .filter(|y| *y > 0.0)
        };
        let (least, most) = (ys().fold(f64::MAX, f64::min), ys().fold(0.0, f64::max));
        let (first_power, last_power) = match most > 0.0 {
            true => (least.log10().floor() as i32, most.log10().ceil() as i32),
            false => (0, 1),
        };
        Self {
            last_x: points().map(|(x, _)| *x).fold(1.0, f64::max),
            first_power,
            last_power: last_power.max(first_power + 1),
        }
    }

    fn x(&self, x: f64) -> f64 {
        LEFT + x / self.last_x * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        let powers = f64::from(self.last_power - self.first_power);
        let above = (y.log10() - f64::from(self.first_power)) / powers;
        HEIGHT - BOTTOM - above * (HEIGHT - TOP - BOTTOM)
    }
}

fn draw(chart: &Chart, out: &mut String) -> std::fmt::Result {
    let scale = Scale::of(chart);
    head(out, HEIGHT)?;
    text(out, LEFT, 20.0, "start", 15.0, &chart.title)?;
    text(out, LEFT, 37.0, "start", 11.0, &chart.subtitle)?;
    axes(chart, &scale, out)?;
    for (name, y) in &chart.marks {
        let (x1, x2, y) = (LEFT, WIDTH - RIGHT, scale.y(*y));
        writeln!(
            out,
            r##"<path d="M{x1:.1} {y:.1}H{x2:.1}" stroke="#666666" stroke-dasharray="6 4" fill="none"/>"##
        )?;
        text(out, x2, y - 4.0, "end", 11.0, name)?;
    }
    let mut legend = LEFT;
    for (series, colour) in chart.series.iter().zip(COLOURS.iter().cycle()) {
        writeln!(
            out,
            r#"<path d="{}" stroke="{colour}" stroke-width="1.3" fill="none"/>"#,
            path(series, &scale)
        )?;
        writeln!(
            out,
            r#"<rect x="{legend:.1}" y="47" width="14" height="4" fill="{colour}"/>"#
        )?;
        text(out, legend + 19.0, 53.0, "start", 11.0, &series.name)?;
        legend += 40.0 + 6.6 * series.name.chars().count() as f64;
    }
    writeln!(out, "</svg>")
}

fn axes(chart: &Chart, scale: &Scale, out: &mut String) -> std::fmt::Result {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for power in scale.first_power..=scale.last_power {
        let value = 10f64.powi(power);
        let y = scale.y(value);
        writeln!(
            out,
            r##"<path d="M{LEFT} {y:.1}H{right}" stroke="#dddddd" fill="none"/>"##
        )?;
        text(out, LEFT - 8.0, y + 4.0, "end", 12.0, &value.to_string())?;
    }
    let step = step(scale.last_x);
    let ticks = (scale.last_x / step).floor() as u32;
    for tick in 0..=ticks {
        let value = f64::from(tick) * step;
        let x = scale.x(value);
        writeln!(
            out,
            r##"<path d="M{x:.1} {bottom}v5" stroke="#444444" fill="none"/>"##
        )?;
        text(out, x, bottom + 19.0, "middle", 12.0, &value.to_string())?;
    }
    writeln!(
        out,
        r##"<path d="M{LEFT} {TOP}V{bottom}H{right}" stroke="#444444" fill="none"/>"##
    )?;
    text(
        out,
        f64::midpoint(LEFT, right),
        HEIGHT - 12.0,
        "middle",
        12.0,
        &chart.x,
    )?;
    let middle = f64::midpoint(TOP, bottom);
    writeln!(
        out,
        r#"<text transform="translate(20 {middle:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
        escape(&chart.y)
    )
}

/// 1, 2 or 5 times a power of ten, such that there are 5 to 12 steps.
fn step(last: f64) -> f64 {
    let power = 10f64.powf((last / 10.0).log10().floor());
    let fits = |factor: &f64| last / (factor * power) <= 12.0;
    [1.0, 2.0, 5.0, 10.0].into_iter().find(fits).unwrap_or(10.0) * power
}

fn path(series: &Series, scale: &Scale) -> String {
    let mut path = String::new();
    let mut pen_down = false;
    for (x, y) in &series.points {
        if *y > 0.0 {
            let letter = if pen_down { 'L' } else { 'M' };
            let _ = write!(path, "{letter}{:.1} {:.1}", scale.x(*x), scale.y(*y));
        }
        pen_down = *y > 0.0;
    }
    path
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, size: f64, text: &str) -> std::fmt::Result {
    let text = escape(text);
    writeln!(
        out,
        r##"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-size="{size}" fill="#222222">{text}</text>"##
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> String {
        svg(&Chart {
            title: "Tail <of> it".into(),
            subtitle: "here & now".into(),
            x: "seconds".into(),
            y: "p99.9, ms".into(),
            series: vec![Series {
                name: "ours".into(),
                points,
            }],
            marks: vec![("twice the median".into(), 2.0)],
        })
    }

    #[test]
    fn a_chart_has_its_texts_and_whole_powers_of_ten_around_its_values() {
        let svg = chart(vec![(0.0, 0.5), (1.0, 30.0)]);
        for part in [
            "Tail &lt;of&gt; it",
            "here &amp; now",
            "p99.9, ms",
            "seconds",
            "ours",
            "twice the median",
            ">0.1<",
            ">1<",
            ">10<",
            ">100<",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }

    #[test]
    fn points_lie_between_the_axes_and_nothing_is_drawn_through_a_gap() {
        let scale = Scale {
            last_x: 4.0,
            first_power: -1,
            last_power: 2,
        };
        assert!((scale.y(0.1) - (HEIGHT - BOTTOM)).abs() < 0.01);
        assert!((scale.y(100.0) - TOP).abs() < 0.01);
        let gap = Series {
            name: String::new(),
            points: vec![(0.0, 1.0), (1.0, 1.0), (2.0, 0.0), (3.0, 1.0), (4.0, 1.0)],
        };
        let path = path(&gap, &scale);
        assert_eq!(
            (path.matches('M').count(), path.matches('L').count()),
            (2, 2),
            "{path}"
        );
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_fit_beside_their_names() {
        let bar = |name: &str, value| Bar {
            name: name.to_owned(),
            value,
        };
        let svg = bars("Bytes", "here", &[bar("a<b", 10.0), bar("c", 40.0)]);
        for part in [
            "a&lt;b",
            ">10.0<",
            ">40.0<",
            r#"width="167.5""#,
            r#"width="670.0""#,
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!bars("Bytes", "here", &[]).contains("NaN"));
    }

    #[test]
    fn nothing_measured_is_an_empty_chart_and_no_failure() {
        let svg = chart(Vec::new());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn steps_are_round_and_between_5_and_12() {
        for last in [1.0, 7.0, 10.0, 60.0, 120.0, 599.0, 600.0, 86400.0] {
            let steps = (last / step(last)).floor();
            assert!(
                (5.0..=12.0).contains(&steps),
                "{last}: {steps} of {}",
                step(last)
            );
        }
    }
}
