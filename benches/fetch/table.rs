//! Medians, ratios pair by pair, and which bars hold.

use serde_json::{Value, json};

use crate::Measured;
use crate::report;
use crate::usage::Memory;
use crate::variant::Variant;

/// Wall and CPU time of the service against the bare engine: at most this much more,
const BARE_TIMES: f64 = 1.15;
/// or this many milliseconds a page.
const BARE_MS: f64 = 4.0;
const BARE_MB: f64 = 30.0;
/// How much less than Chromium the service takes.
const CHROMIUM_CPU: f64 = 3.0;
const CHROMIUM_WALL: f64 = 2.0;
const CHROMIUM_PSS: f64 = 5.0;

const BARE_PAIRS: [(Variant, Variant); 7] = [
    (Variant::Service1, Variant::Markdown1),
    (Variant::Service1, Variant::Html1),
    (Variant::Service1, Variant::Gated1),
    (Variant::Service1, Variant::BareFetch),
    (Variant::Service4, Variant::Markdown4),
    (Variant::Service4, Variant::Html4),
    (Variant::Service4, Variant::Gated4),
];
const CHROMIUM_PAIRS: [(Variant, Variant); 3] = [
    (Variant::Service1, Variant::ChromiumTab1),
    (Variant::Service1, Variant::ChromiumTabs1),
    (Variant::Service4, Variant::ChromiumTab4),
];

/// The service beside something else; each number is the median over the rounds of that round's own pair.
struct Pair {
    names: (&'static str, &'static str),
    /// The service's time divided by the other's.
    wall: f64,
    cpu: f64,
    pss: f64,
    /// The service's number less the other's.
    wall_more_ms: f64,
    cpu_more_ms: f64,
    pss_more_mb: f64,
}

impl Pair {
    /// None where one of the two was not measured.
    fn of(measured: &[Measured], (service, other): (Variant, Variant)) -> Option<Self> {
        let of = |variant| measured.iter().filter(move |measured| measured.variant == variant);
        let pairs: Vec<(&Measured, &Measured)> = of(service)
            .filter_map(|service| Some((service, of(other).find(|other| other.round == service.round)?)))
            .collect();
        let over = |number: fn(&Measured) -> f64| {
            let ratio = median(pairs.iter().map(|(service, other)| number(service) / number(other)))?;
            Some((ratio, median(pairs.iter().map(|(service, other)| number(service) - number(other)))?))
        };
        let (wall, wall_more_ms) = over(|measured| measured.wall_ms)?;
        let (cpu, cpu_more_ms) = over(|measured| measured.cpu_ms)?;
        let (pss, pss_more_mb) = over(|measured| megabytes(measured.memory.pss_kb))?;
        let names = (service.name(), other.name());
        Some(Self { names, wall, cpu, pss, wall_more_ms, cpu_more_ms, pss_more_mb })
    }

    fn bare_bars(&self) -> Vec<(String, bool)> {
        let (service, bare) = self.names;
        let time = |what: &str, ratio: f64, more: f64| {
            let bar = format!(
                "{what} of [{service}] is {ratio:.2}x of [{bare}], {more:+.1} ms (limit {BARE_TIMES}x or +{BARE_MS} ms)"
            );
            (bar, ratio <= BARE_TIMES || more <= BARE_MS)
        };
        let memory = format!("PSS of [{service}] is {:+.1} MB to [{bare}] (limit +{BARE_MB})", self.pss_more_mb);
        vec![
            time("wall time", self.wall, self.wall_more_ms),
            time("CPU time", self.cpu, self.cpu_more_ms),
            (memory, self.pss_more_mb <= BARE_MB),
        ]
    }

    fn chromium_bars(&self) -> Vec<(String, bool)> {
        let (service, chromium) = self.names;
        let bar = |what: &str, ratio: f64, least: f64| {
            let less = 1.0 / ratio;
            (format!("{what} of [{service}] is {less:.2}x less than [{chromium}] (at least {least}x)"), less >= least)
        };
        vec![
            bar("CPU time", self.cpu, CHROMIUM_CPU),
            bar("wall time", self.wall, CHROMIUM_WALL),
            bar("PSS", self.pss, CHROMIUM_PSS),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "service": self.names.0,
            "other": self.names.1,
            "wall_ratio": self.wall,
            "cpu_ratio": self.cpu,
            "pss_ratio": self.pss,
            "wall_more_ms": self.wall_more_ms,
            "cpu_more_ms": self.cpu_more_ms,
            "pss_more_mb": self.pss_more_mb,
        })
    }
}

pub struct Summary {
    rows: Vec<(&'static str, Row)>,
    pairs: Vec<Pair>,
    bars: Vec<(String, bool)>,
}

/// Medians of one variant.
#[derive(serde::Serialize)]
struct Row {
    wall_ms: f64,
    cpu_ms: f64,
    driver_cpu_ms: f64,
    pss_mb: f64,
    rss_mb: f64,
    alone_cpu_ms: f64,
    alone_rss_mb: f64,
    lost: usize,
}

impl Summary {
    pub fn of(measured: &[Measured]) -> Self {
        let rows = Variant::ALL.into_iter().filter_map(|variant| Some((variant.name(), Row::of(measured, variant)?)));
        let pairs_of = |pairs: &[(Variant, Variant)]| -> Vec<Pair> {
            pairs.iter().filter_map(|pair| Pair::of(measured, *pair)).collect()
        };
        let (bare, chromium) = (pairs_of(&BARE_PAIRS), pairs_of(&CHROMIUM_PAIRS));
        let bars = bare.iter().flat_map(Pair::bare_bars).chain(chromium.iter().flat_map(Pair::chromium_bars));
        Self { rows: rows.collect(), bars: bars.collect(), pairs: bare.into_iter().chain(chromium).collect() }
    }

    /// The table, the ratios and the bars.
    pub fn say(&self) {
        report::say("Medians over the rounds; times in ms a page, peaks in MB over all processes.");
        report::say(
            "CPU counts the children that have ended and were waited for; a Chromium renderer that nobody waited for \
             is lost. The driver is this program: it is no part of CPU.",
        );
        let heads = ["wall", "CPU", "driver", "PSS", "RSS", "own CPU", "own RSS", "lost"];
        report::say(&format!("{:26}{}", "", heads.map(|head| format!("{head:>9}")).concat()));
        for (name, row) in &self.rows {
            let numbers = [
                row.wall_ms,
                row.cpu_ms,
                row.driver_cpu_ms,
                row.pss_mb,
                row.rss_mb,
                row.alone_cpu_ms,
                row.alone_rss_mb,
            ];
            let numbers = numbers.map(|number| format!("{number:9.1}")).concat();
            report::say(&format!("{name:26}{numbers}{:9}", row.lost));
        }
        report::bars(&self.bars);
    }

    pub fn report(&self, measured: &[Measured]) -> Value {
        let rows: serde_json::Map<String, Value> =
            self.rows.iter().map(|(name, row)| ((*name).to_owned(), json!(row))).collect();
        json!({
            "medians": rows,
            "pairs": self.pairs.iter().map(Pair::json).collect::<Vec<_>>(),
            "bars": self.bars.iter().map(|(bar, holds)| json!({ "bar": bar, "holds": holds })).collect::<Vec<_>>(),
            "measured": measured.iter().map(Measured::json).collect::<Vec<_>>(),
        })
    }
}

impl Row {
    fn of(measured: &[Measured], variant: Variant) -> Option<Self> {
        let of = || measured.iter().filter(move |measured| measured.variant == variant);
        let middle = |number: fn(&Measured) -> f64| median(of().map(number));
        Some(Self {
            wall_ms: middle(|measured| measured.wall_ms)?,
            cpu_ms: middle(|measured| measured.cpu_ms)?,
            driver_cpu_ms: middle(|measured| measured.driver_cpu_ms)?,
            pss_mb: middle(|measured| megabytes(measured.memory.pss_kb))?,
            rss_mb: middle(|measured| megabytes(measured.memory.rss_kb))?,
            alone_cpu_ms: middle(|measured| measured.alone_cpu_ms)?,
            alone_rss_mb: middle(|measured| megabytes(measured.alone.rss_kb))?,
            lost: of().map(|measured| measured.lost).sum(),
        })
    }
}

impl Measured {
    fn json(&self) -> Value {
        let memory = |memory: Memory| json!({ "pss_kb": memory.pss_kb, "rss_kb": memory.rss_kb });
        json!({
            "variant": self.variant.name(),
            "round": self.round,
            "pages": self.pages,
            "lost": self.lost,
            "wall_ms": self.wall_ms,
            "cpu_ms": self.cpu_ms,
            "driver_cpu_ms": self.driver_cpu_ms,
            "peak": memory(self.memory),
            "service_cpu_ms": self.alone_cpu_ms,
            "service_peak": memory(self.alone),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "memory stays far below 2^52 kB")]
fn megabytes(kilobytes: u64) -> f64 {
    kilobytes as f64 / 1024.0
}

fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let (lower, upper) = (numbers.get(numbers.len().checked_sub(1)? / 2)?, numbers.get(numbers.len() / 2)?);
    Some(f64::midpoint(*lower, *upper))
}
