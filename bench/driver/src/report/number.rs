//! Numbers for people, with as many digits as are significant.

/// Cell without a measurement.
pub const NONE: &str = "–";

/// A multiple or a count. Below 2 the difference from 1 matters, so it gets two decimals.
pub fn multiple(value: f64) -> String {
    match value {
        value if !value.is_finite() => NONE.to_owned(),
        value if value < 0.005 => "0".to_owned(),
        value if value < 1.995 => format!("{value:.2}"),
        value if value < 9.95 => format!("{value:.1}"),
        value => grouped(value),
    }
}

/// Three digits, or more for a whole number.
pub fn three_digits(value: f64) -> String {
    match value {
        value if !value.is_finite() => NONE.to_owned(),
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => grouped(value),
    }
}

/// A whole number with separated thousands.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

pub fn micros(nanos: f64) -> String {
    three_digits(nanos / 1e3)
}

pub fn millis(nanos: f64) -> String {
    three_digits(nanos / 1e6)
}

pub fn mebibytes(kib: f64) -> String {
    format!("{:.1}", kib / 1024.0)
}

/// Messages per second.
pub fn rate(nanos: f64) -> String {
    match 1e9 / nanos {
        rate if rate >= 999_500.0 => format!("{} M/s", two_digits(rate / 1e6)),
        rate if rate >= 999.5 => format!("{} k/s", two_digits(rate / 1e3)),
        rate => format!("{} /s", two_digits(rate)),
    }
}

fn two_digits(value: f64) -> String {
    match value {
        value if value < 9.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A label on a time axis.
pub fn duration(nanos: f64) -> String {
    with_unit(nanos, &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")])
}

/// A time label with two digits.
pub fn rounded_duration(nanos: f64) -> String {
    let digits = 10f64.powf(nanos.log10().floor() - 1.0);
    duration((nanos / digits).round() * digits)
}

/// A label on an axis of multiples.
pub fn multiple_on_axis(value: f64) -> String {
    format!("{value} ×")
}

/// A label on an axis of sizes.
pub fn bytes(bytes: f64) -> String {
    with_unit(bytes, &[(1e6, "MB"), (1e3, "KB"), (1.0, "B")])
}

fn with_unit(value: f64, units: &[(f64, &str)]) -> String {
    match units.iter().find(|(one, _)| value >= *one) {
        Some((one, name)) => format!("{} {name}", hundredths(value / one)),
        None => "0".to_owned(),
    }
}

/// Rounds to hundredths.
pub fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_have_the_digits_that_matter() {
        let shown = [0.0, 0.0156, 1.0, 1.04, 1.994, 1.996, 2.34, 9.94, 9.96, 28.4, 1_234.0];
        assert_eq!(
            shown.map(multiple),
            ["0", "0.02", "1.00", "1.04", "1.99", "2.0", "2.3", "9.9", "10", "28", "1,234"]
        );
        assert_eq!(multiple(f64::NAN), NONE);
    }

    #[test]
    fn values_are_rounded_to_three_digits() {
        let shown = [0.366, 3.0912, 9.996, 42.14, 99.96, 931.07, 4_280.5];
        assert_eq!(
            shown.map(three_digits),
            ["0.37", "3.09", "10.0", "42.1", "100", "931", "4,280"]
        );
    }

    #[test]
    fn thousands_are_separated() {
        let shown = [0.0, 999.0, 1_000.0, 100_000.0, 1_234_567.0];
        assert_eq!(shown.map(grouped), ["0", "999", "1,000", "100,000", "1,234,567"]);
    }

    #[test]
    fn rates_are_per_second() {
        let shown = [333.0, 1_000.4, 6_024.0, 931_000.0, 2e6, 100e6];
        assert_eq!(
            shown.map(rate),
            ["3.0 M/s", "1.0 M/s", "166 k/s", "1.1 k/s", "500 /s", "10 /s"]
        );
    }

    #[test]
    fn axes_have_units() {
        assert_eq!([0.0, 800.0, 1_200.0, 1e7].map(duration), ["0", "800 ns", "1.2 µs", "10 ms"]);
        assert_eq!([64.0, 1_000.0, 1e6].map(bytes), ["64 B", "1 KB", "1 MB"]);
        assert_eq!([834.0, 15_670.0].map(rounded_duration), ["830 ns", "16 µs"]);
        assert_eq!(multiple_on_axis(10.0), "10 ×");
        assert_eq!(mebibytes(2_560.0), "2.5");
        assert_eq!(millis(1_550_000.0), "1.55");
    }
}
