//! Scales: positions of values on an axis.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Linear,
    Log,
    /// Powers of ten from ten on, and zero one step below.
    ZeroAndLog,
}

#[derive(Clone, Copy, Debug)]
pub struct Scale {
    kind: Kind,
    values: (f64, f64),
    positions: (f64, f64),
}

impl Scale {
    /// Maps a range of values to a range of positions.
    pub fn new(kind: Kind, values: (f64, f64), positions: (f64, f64)) -> Self {
        Scale { kind, values, positions }
    }

    /// Maps the range from zero to a round number that is at least `most`.
    pub fn from_zero(most: f64, positions: (f64, f64)) -> Self {
        let step = step(most);
        let top = (most / step).ceil().max(1.0) * step;
        Scale { kind: Kind::Linear, values: (0.0, top), positions }
    }

    /// Position of a value, clamped to the axis.
    pub fn at(&self, value: f64) -> f64 {
        let [value, least, most] =
            [value, self.values.0, self.values.1].map(|value| self.bend(value));
        let part = match most > least {
            true => ((value - least) / (most - least)).clamp(0.0, 1.0),
            false => 0.5,
        };
        self.positions.0 + part * (self.positions.1 - self.positions.0)
    }

    fn bend(&self, value: f64) -> f64 {
        match self.kind {
            Kind::Linear => value,
            Kind::Log => value.log10(),
            Kind::ZeroAndLog if value < 10.0 => value / 10.0,
            Kind::ZeroAndLog => value.log10(),
        }
    }

    /// The labelled values.
    pub fn ticks(&self) -> Vec<f64> {
        let (least, most) = self.values;
        // A value at the end of the axis counts as on it, despite rounding.
        let is_on_it = |value: &f64| *value >= least * 0.999 && *value <= most * 1.001;
        let powers = |from: i32| (from..13).map(|power| 10f64.powi(power));
        match self.kind {
            Kind::Linear => {
                let step = step(most);
                (0..).map(|count| f64::from(count) * step).take_while(is_on_it).collect()
            }
            Kind::Log => powers(-3).filter(is_on_it).collect(),
            Kind::ZeroAndLog => [0.0].into_iter().chain(powers(1).filter(is_on_it)).collect(),
        }
    }

    pub fn positions(&self) -> (f64, f64) {
        self.positions
    }
}

/// Distance between two ticks, for at most five of them.
fn step(most: f64) -> f64 {
    if most <= 0.0 || !most.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf((most / 5.0).log10().floor());
    let rough = most / 5.0 / power;
    let round = [1.0, 2.0, 5.0].into_iter().find(|round| rough <= *round * 1.001).unwrap_or(10.0);
    round * power
}

/// Moves positions apart until any two have `gap` between them. Keeps their order, and stays
/// between `least` and `most` as far as there is room.
pub fn spread(positions: &[f64], gap: f64, least: f64, most: f64) -> Vec<f64> {
    let mut order: Vec<_> = (0..positions.len()).collect();
    order.sort_by(|one, other| positions[*one].total_cmp(&positions[*other]));
    let mut spread = positions.to_vec();
    let mut free_from = least;
    for &index in &order {
        spread[index] = spread[index].max(free_from);
        free_from = spread[index] + gap;
    }
    let mut free_until = most;
    for &index in order.iter().rev() {
        spread[index] = spread[index].min(free_until);
        free_until = spread[index] - gap;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_map_to_positions() {
        let log = Scale::new(Kind::Log, (1.0, 100.0), (0.0, 200.0));
        assert_eq!(
            [1.0, 10.0, 100.0, 1_000.0, 0.1].map(|v| log.at(v)),
            [0.0, 100.0, 200.0, 200.0, 0.0]
        );
        let counts = Scale::new(Kind::ZeroAndLog, (0.0, 1_000.0), (0.0, 300.0));
        assert_eq!([0.0, 5.0, 10.0, 100.0].map(|v| counts.at(v)), [0.0, 50.0, 100.0, 200.0]);
        let down = Scale::from_zero(90.0, (100.0, 0.0));
        assert_eq!([0.0, 50.0, 100.0].map(|v| down.at(v)), [100.0, 50.0, 0.0]);
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(Scale::from_zero(1_182.0, (0.0, 1.0)).ticks(), [0.0, 500.0, 1_000.0, 1_500.0]);
        assert_eq!(Scale::from_zero(100.0, (0.0, 1.0)).ticks().len(), 6);
        let log = Scale::new(Kind::Log, (0.9, 811.0), (0.0, 1.0));
        assert_eq!(log.ticks(), [1.0, 10.0, 100.0]);
        let counts = Scale::new(Kind::ZeroAndLog, (0.0, 1_000.0), (0.0, 1.0));
        assert_eq!(counts.ticks(), [0.0, 10.0, 100.0, 1_000.0]);
        assert_eq!(Scale::from_zero(0.0, (0.0, 1.0)).ticks().last(), Some(&1.0));
    }

    #[test]
    fn positions_are_moved_apart() {
        let moved = spread(&[50.0, 10.0, 12.0, 49.0], 10.0, 0.0, 55.0);
        assert_eq!(moved, [55.0, 10.0, 20.0, 45.0]);
    }
}
