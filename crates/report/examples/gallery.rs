//! Every kind of chart, table and text on one page: `cargo run --example gallery > gallery.html`.
//!
//! Use it to judge changes to the style. The numbers are made up.

use hikyaku_report::{
    Axis, BarChart, Cell, Chart, LineChart, Page, Series, StackedBars, Table, Unit,
};

fn main() {
    let mut page = Page::new("Latency and rate between two ranks");
    page.lead(
        "Two pinned ranks on one host, 8 bytes to 1 MiB, each figure beside what the bare \
         hardware gives in the same run. All numbers on this page are made up.",
    )
    .facts([
        ("8 bytes, one way", "78.2 ns"),
        ("of the bare cache line", "1.48 ×"),
        ("messages, window 64", "47.0 M/s"),
        ("start and stop, 8 ranks", "31.5 ms"),
    ])
    .section("Latency")
    .text(
        "The one-way time is half of a ping-pong, the median of 10,000 round trips. Up to 48 \
         bytes a message rides in its status record, one cache line, and its time is that of \
         moving a line between two cores; beyond that, copying takes over.",
    )
    .table(&latency_table())
    .chart(latency_chart())
    .note(
        "The two cores are sometimes near and sometimes far, so the bare transfer is measured \
         right beside every sample. Compare ratios, not nanoseconds.",
    )
    .section("Rate and overhead")
    .charts([rate_chart(), overhead_chart()])
    .section("Where the time goes")
    .text("Rank 0 also writes the pictures, which the others wait for.")
    .chart(split_chart())
    .chart(steps_chart())
    .section("Corner cases")
    .charts([scatter_chart(), empty_chart()])
    .chart(many_series())
    .code("hikyaku bench latency --ranks 2 --json latency.json");
    print!("{}", page.to_html());
}

fn sizes() -> impl Iterator<Item = f64> {
    (3..=20).map(|e| 2_f64.powi(e))
}

fn model(start: f64, rate: f64) -> Vec<(f64, f64)> {
    sizes().map(|bytes| (bytes, start + bytes / rate)).collect()
}

fn latency_chart() -> LineChart {
    LineChart::new(
        "One-way time by message size. The step at 16 KiB, where eager gives way to rendezvous, is \
         the only one left.",
        Axis::log2("message size", Unit::Bytes),
        Axis::log10("one way", Unit::Seconds),
    )
    .with(Series::line("hikyaku", model(78e-9, 18e9)))
    .with(Series::line("Open MPI", model(356e-9, 13e9)))
    .with(Series::line("MPICH", model(949e-9, 12.6e9)))
    .with(Series::reference("bare copy", model(53e-9, 22e9)))
}

fn latency_table() -> Table {
    let mut table =
        Table::new("One-way time, median of 10,000.", ["size", "path", "one way", "bare", "ratio"]);
    for (bytes, path, time, bare) in [
        (8.0, "inline", 78.2e-9, 53e-9),
        (1024.0, "eager", 210e-9, 101e-9),
        (16_384.0, "eager", 1.07e-6, 0.98e-6),
        (1_048_576.0, "rendezvous", 61.3e-6, 47.6e-6),
    ] {
        table.push([
            Cell::number(bytes, Unit::Bytes),
            path.into(),
            Cell::number(time, Unit::Seconds),
            Cell::number(bare, Unit::Seconds),
            Cell::number(time / bare, Unit::Ratio),
        ]);
    }
    table
}

fn rate_chart() -> Chart {
    BarChart::new(
        "Messages per second, window 64.",
        "rate",
        Unit::PerSecond,
        ["8 B", "64 B", "1 KiB"],
    )
    .with("hikyaku", vec![47e6, 21e6, 6.1e6])
    .with("Open MPI", vec![8.2e6, 7.9e6, 3.3e6])
    .with("MPICH", vec![1.65e6, 1.6e6, f64::NAN])
    .into()
}

fn overhead_chart() -> Chart {
    let ranks = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
    let times = |scale: f64| ranks.iter().map(|n: &f64| (*n, scale * (1.0 + n.log2()))).collect();
    LineChart::new(
        "Barrier by rank count.",
        Axis::log2("ranks", Unit::Number),
        Axis::linear("barrier", Unit::Seconds).from_zero(),
    )
    .with(Series::line("tree", times(0.21e-6)))
    .with(Series::line("ring", times(0.47e-6)))
    .into()
}

fn split_chart() -> StackedBars {
    let rows: [(&str, f64, f64, f64); 4] = [
        ("rank 0", 3.10, 0.22, 0.31),
        ("rank 1", 3.02, 0.59, 0.02),
        ("rank 2", 3.07, 0.55, 0.01),
        ("rank 3", 2.41, 1.20, 0.02),
    ];
    let parts = ["computing", "waiting", "writing"];
    let chart = StackedBars::new("Computing and waiting per rank.", "time", Unit::Seconds, parts);
    rows.into_iter().fold(chart, |chart, (rank, a, b, c)| chart.with(rank, vec![a, b, c]))
}

fn steps_chart() -> LineChart {
    // A cheap deterministic noise: the fractional parts of a multiple of the golden ratio.
    let noise = |i: u32| (f64::from(i) * 0.618_033_988_75).fract();
    let step = |i: u32| {
        let spike = if i % 977 == 400 { 1.4e-3 } else { 0.0 };
        (f64::from(i), 0.9e-3 + 0.25e-3 * noise(i) * noise(i / 7) + spike)
    };
    LineChart::new(
        "Time per step, 4,000 steps.",
        Axis::linear("step", Unit::Number),
        Axis::linear("time per step", Unit::Seconds).from_zero(),
    )
    .with(Series::line("", (0..4000).map(step).collect()))
}

fn scatter_chart() -> Chart {
    let cloud = |shift: f64| {
        let point = |i: u32| {
            let (a, b) = ((f64::from(i) * 0.618).fract(), (f64::from(i) * 0.755).fract());
            (40.0 + 30.0 * a + shift, (2.0 + a + b + shift / 20.0) * 1e9)
        };
        (0..40).map(point).collect()
    };
    LineChart::new(
        "A scatter, with one value that is not a number.",
        Axis::linear("temperature", Unit::Named("°C")),
        Axis::linear("bandwidth", Unit::BytesPerSecond),
    )
    .with(Series::scatter("near cores", cloud(0.0)))
    .with(Series::scatter("far cores", cloud(12.0)))
    .with(Series::scatter("broken", vec![(50.0, f64::NAN)]))
    .into()
}

fn empty_chart() -> Chart {
    let axis = || Axis::linear("v", Unit::Number);
    LineChart::new("A chart without data.", axis(), axis()).into()
}

fn many_series() -> LineChart {
    let chart = LineChart::new(
        "Nine series need a legend, and the last three dashes.",
        Axis::log2("ranks", Unit::Number),
        Axis::log10("messages", Unit::Number),
    );
    (0..9).fold(chart, |chart, i| {
        let power = 1.0 + f64::from(i) * 0.12;
        let points = (0..=8).map(|e| (2_f64.powi(e), 5.0 * 2_f64.powi(e).powf(power))).collect();
        chart.with(Series::line(format!("algorithm {}", i + 1), points))
    })
}
