//! Charts of curves, side by side in an SVG.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

/// Of one chart.
const SIZE: (u32, u32) = (720, 440);
/// How much of its width the names of curves take.
const LEGEND: u32 = 180;
/// Charts in a row.
const COLUMNS: usize = 2;
/// Far apart, also for most who are colour-blind (Okabe and Ito 2008; the last two: Tol 2021).
const COLOURS: [RGBColor; 10] = [
    RGBColor(0x55, 0x55, 0x55),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xf0, 0xe4, 0x42),
    RGBColor(0x88, 0x22, 0x55),
    RGBColor(0x33, 0x22, 0x88),
];
const FONT: &str = "sans-serif";

/// How an axis goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From zero, in equal steps.
    Linear,
    /// In powers of ten, from one of them to another.
    Logarithmic,
}

/// What is along a side of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// With its unit.
    pub(crate) label: &'static str,
    pub(crate) scale: Scale,
}

/// Points in the order in which a line goes through them; on a logarithmic axis they are above zero.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Curves and their axes.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: Vec<Curve>,
}

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// All of them in one picture.
pub(crate) fn draw(charts: &[Chart]) -> String {
    let mut picture = String::new();
    let columns = charts.len().clamp(1, COLUMNS);
    let rows = charts.len().div_ceil(columns);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    {
        let size = (SIZE.0 * count(columns), SIZE.1 * count(rows));
        let area = SVGBackend::with_string(&mut picture, size).into_drawing_area();
        area.fill(&WHITE).expect("a string takes all");
        for (area, chart) in area.split_evenly((rows, columns)).iter().zip(charts) {
            chart.draw(area).expect("a string takes all");
        }
    }
    picture
}

impl Chart {
    fn draw<'a>(&self, area: &DrawingArea<SVGBackend<'a>, Shift>) -> Drawn<'a> {
        use Scale::{Linear, Logarithmic};
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let x = range(self.x.scale, points().map(|point| point.0));
        let y = range(self.y.scale, points().map(|point| point.1));
        let log = |range: Range<f64>| range.log_scale();
        match (self.x.scale, self.y.scale) {
            (Linear, Linear) => self.draw_on(area, x, y),
            (Linear, Logarithmic) => self.draw_on(area, x, log(y)),
            (Logarithmic, Linear) => self.draw_on(area, log(x), y),
            (Logarithmic, Logarithmic) => self.draw_on(area, log(x), log(y)),
        }
    }

    fn draw_on<'a, X, Y>(&self, area: &DrawingArea<SVGBackend<'a>, Shift>, x: X, y: Y) -> Drawn<'a>
    where
        X: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
        Y: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
    {
        let mut chart = ChartBuilder::on(area)
            .margin(14)
            .margin_right(LEGEND)
            .caption(&self.title, (FONT, 18))
            .x_label_area_size(46)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .axis_desc_style((FONT, 14))
            .label_style((FONT, 13))
            .x_label_formatter(&number)
            .y_label_formatter(&number)
            .bold_line_style(BLACK.mix(0.15))
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (curve, colour) in self.coloured() {
            let line = LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2));
            chart.draw_series(line.point_size(3))?;
        }
        self.legend(area)
    }

    /// Right of the chart, where it hides nothing.
    fn legend<'a>(&self, area: &DrawingArea<SVGBackend<'a>, Shift>) -> Drawn<'a> {
        let left = signed(SIZE.0 - LEGEND) + 10;
        for ((curve, colour), row) in self.coloured().zip(2..) {
            let y = row * 22;
            area.draw(&PathElement::new([(left, y), (left + 20, y)], colour.stroke_width(3)))?;
            area.draw(&Text::new(curve.name.as_str(), (left + 26, y - 5), (FONT, 13)))?;
        }
        Ok(())
    }

    fn coloured(&self) -> impl Iterator<Item = (&Curve, RGBColor)> {
        self.curves.iter().zip(COLOURS.into_iter().cycle())
    }
}

fn signed(pixels: u32) -> i32 {
    i32::try_from(pixels).unwrap_or(i32::MAX)
}

/// From where to where an axis goes, so that all points are on it.
fn range(scale: Scale, values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    if least > most {
        // There are none.
        return 1.0..10.0;
    }
    match scale {
        Scale::Linear => 0.0..most.max(f64::MIN_POSITIVE) * 1.05,
        Scale::Logarithmic => {
            let first = 10_f64.powf(least.log10().floor());
            let last = 10_f64.powf(most.log10().ceil()).max(first * 10.0);
            // A little more, so that rounding cuts nothing off.
            first * 0.95..last * 1.05
        }
    }
}

/// In few letters.
fn number(number: &f64) -> String {
    let prefixes = [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match prefixes.into_iter().find(|(unit, _)| number >= unit) {
        Some((unit, prefix)) => format!("{} {prefix}", number / unit),
        None => format!("{number:.4}").trim_end_matches('0').trim_end_matches('.').into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_shows_its_axes_and_names() {
        let axis = |label, scale| Axis { label, scale };
        let curve = Curve { name: "herons".into(), points: vec![(1.0, 20.0), (3.0, 400.0)] };
        let (x, y) = (axis("hours", Scale::Linear), axis("fish, kg", Scale::Logarithmic));
        let picture = draw(&[Chart { title: "A day".into(), x, y, curves: vec![curve] }]);
        for text in ["A day", "hours", "fish, kg", "herons", "1 k"] {
            assert!(picture.contains(text), "no {text} in {picture}");
        }
        assert_eq!(picture.matches("<circle").count(), 2);
        assert!(draw(&[]).starts_with("<svg"));
    }

    #[test]
    fn axes_hold_all_points_and_go_from_one_power_of_ten_to_another() {
        for (values, (first, last)) in
            [([3.0, 250.0], (1.0, 1_000.0)), ([0.001, 1.0], (0.001, 1.0)), ([1.0, 1.0], (1.0, 10.0))]
        {
            let range = range(Scale::Logarithmic, values.into_iter());
            assert!((0.9..1.0).contains(&(range.start / first)), "{range:?}");
            assert!((1.0..1.1).contains(&(range.end / last)), "{range:?}");
        }
        assert_eq!(range(Scale::Linear, [3.0, 100.0].into_iter()), 0.0..105.0);
        let numbers = [0.001, 20.0, 1e4, 1e7, 1e14].map(|n| number(&n));
        assert_eq!(numbers, ["0.001", "20", "10 k", "10 M", "100 T"]);
    }
}
