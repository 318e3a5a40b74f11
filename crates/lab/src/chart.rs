//! Lines and steps over two axes, as SVG.
//!
//! Invariant: equal input gives equal bytes, whatever the input; values that are no number leave a
//! gap. Colours are chosen so that eight curves can be told apart, in light and in dark.

use crate::text::trimmed;
use std::fmt::Write as _;

/// A named line.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What it is.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// One picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What runs to the right.
    pub x: String,
    /// What runs upwards.
    pub y: String,
    /// The lines.
    pub curves: Vec<Curve>,
    /// A stretch of x to mark, and what it is.
    pub mark: Option<(f64, f64, String)>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#a6761d"];
/// A colour does not tell enough: every second line is dashed.
const DASHES: [&str; 4] = ["none", "6 3", "2 2", "8 3 2 3"];

/// The pictures, one under the other.
#[must_use]
pub fn svg(charts: &[Chart]) -> String {
    let height = HEIGHT * charts.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <style>\n\
         text {{ font: 12px sans-serif; fill: #222 }} .title {{ font-weight: bold; font-size: 14px }}\n\
         .paper {{ fill: #fff }} .grid {{ stroke: #ddd }} .mark {{ fill: #f2d7d5 }}\n\
         .curve {{ fill: none; stroke-width: 1.6 }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #ddd }} .paper {{ fill: #16181d }} \
         .grid {{ stroke: #3a3d45 }} .mark {{ fill: #4a2c2a }} }}\n\
         </style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    for (at, chart) in charts.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate(0 {})\">", at as f64 * HEIGHT);
        draw(&mut out, chart);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, start: f64, end: f64, zero: bool) -> Axis {
        let (mut from, mut to) = if zero { (0.0, 0.0) } else { (f64::INFINITY, f64::NEG_INFINITY) };
        for value in values.filter(|value| value.is_finite()) {
            (from, to) = (value.min(from), value.max(to));
        }
        if !from.is_finite() {
            (from, to) = (0.0, 1.0);
        }
        if to <= from {
            to = from + 1.0;
        }
        if zero {
            to += (to - from) * 0.05;
        }
        Axis { from, to, start, end }
    }

    fn place(&self, value: f64) -> f64 {
        self.start + (value - self.from) / (self.to - self.from) * (self.end - self.start)
    }

    /// Round numbers, about six of them.
    fn ticks(&self) -> Vec<f64> {
        let rough = (self.to - self.from) / 6.0;
        let scale = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|by| by * scale).find(|&step| step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.from / step).ceil() as i64;
        (0..12)
            .map(|by| (first + by) as f64 * step)
            .take_while(|&tick| tick <= self.to + step * 1e-9)
            .collect()
    }
}

fn draw(out: &mut String, chart: &Chart) {
    let points = || chart.curves.iter().flat_map(|curve| &curve.points);
    let x = Axis::of(points().map(|point| point.0), LEFT, WIDTH - RIGHT, false);
    let y = Axis::of(points().map(|point| point.1), HEIGHT - BOTTOM, TOP, true);
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"{LEFT}\" y=\"22\">{}</text>",
        escaped(&chart.title)
    );
    if let Some((from, to, what)) = &chart.mark {
        let (from, to) = (x.place(*from), x.place(*to));
        let _ = writeln!(
            out,
            "<rect class=\"mark\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>\
             <text x=\"{from:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            to - from,
            HEIGHT - BOTTOM - TOP,
            TOP + 12.0,
            escaped(what)
        );
    }
    axes(out, chart, &x, &y);
    for (at, curve) in chart.curves.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let dash = DASHES[at % DASHES.len()];
        let _ = write!(
            out,
            "<path class=\"curve\" stroke=\"{colour}\" stroke-dasharray=\"{dash}\" d=\""
        );
        let mut pen = 'M';
        for &(px, py) in &curve.points {
            if !(px.is_finite() && py.is_finite()) {
                pen = 'M';
                continue;
            }
            let _ = write!(out, "{pen}{:.1} {:.1}", x.place(px), y.place(py));
            pen = 'L';
        }
        let (from, line) = (WIDTH - RIGHT + 12.0, TOP + 8.0 + 18.0 * at as f64);
        let _ = writeln!(
            out,
            "\"/>\n<path class=\"curve\" stroke=\"{colour}\" stroke-dasharray=\"{dash}\" \
             d=\"M{from} {line}h24\"/><text x=\"{}\" y=\"{}\">{}</text>",
            from + 30.0,
            line + 4.0,
            escaped(&curve.name)
        );
    }
}

fn axes(out: &mut String, chart: &Chart, x: &Axis, y: &Axis) {
    for tick in y.ticks() {
        let at = y.place(tick);
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{}\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0,
            trimmed(tick, 3)
        );
    }
    for tick in x.ticks() {
        let at = x.place(tick);
        let _ = writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - BOTTOM + 18.0,
            trimmed(tick, 3)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 12.0,
        escaped(&chart.x),
        (HEIGHT - BOTTOM + TOP) / 2.0,
        escaped(&chart.y)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_input_is_a_picture() {
        let curve = |points: Vec<(f64, f64)>| Curve { name: "a<b".into(), points };
        let cases = [
            vec![],
            vec![(0.0, 0.0)],
            vec![(1.0, f64::NAN), (2.0, 3.0), (2.0, f64::INFINITY)],
            vec![(0.0, 1e300), (1e-300, -1e300)],
        ];
        for points in cases {
            let chart = Chart {
                title: "t".into(),
                x: "x".into(),
                y: "y".into(),
                curves: vec![curve(points)],
                mark: Some((0.0, 1.0, "m".into())),
            };
            let text = svg(&[chart.clone(), chart]);
            assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
            assert!(text.contains("a&lt;b") && !text.contains("NaN"), "{text}");
        }
    }
}
