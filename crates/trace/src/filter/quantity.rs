//! Comparisons with a number that has a unit: `>100ms`, `<=1.5M`, `17`.

use std::fmt;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compare {
    pub(super) op: Op,
    pub(super) value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Operators, with those first that begin like another one.
pub(super) const OPS: [(&str, Op); 5] = [
    (">=", Op::GreaterOrEqual),
    ("<=", Op::LessOrEqual),
    (">", Op::Greater),
    ("<", Op::Less),
    ("", Op::Equal),
];

impl Compare {
    pub(super) fn matches(self, value: u64) -> bool {
        match self.op {
            Op::Equal => value == self.value,
            Op::Less => value < self.value,
            Op::LessOrEqual => value <= self.value,
            Op::Greater => value > self.value,
            Op::GreaterOrEqual => value >= self.value,
        }
    }
}

/// The units of a quantity, largest last. A value is shown in the largest unit that needs no
/// fraction; units of equal or unusual size are only read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    shown: &'static [(&'static str, u64)],
    also: &'static [(&'static str, u64)],
    needs_op: bool,
    /// The words for an error message.
    pub(super) expected: &'static str,
}

pub(super) const TIME: Units = Units {
    shown: &[("us", 1), ("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000)],
    also: &[("µs", 1)],
    needs_op: true,
    expected: "a time such as >100ms",
};

pub(super) const SIZE: Units = Units {
    shown: &[("", 1), ("k", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)],
    also: &[],
    needs_op: true,
    expected: "a size such as >10k",
};

pub(super) const NUMBER: Units =
    Units { shown: &[("", 1)], also: &[], needs_op: false, expected: "a number such as 17 or >17" };

impl Units {
    /// Parses a comparison.
    pub(super) fn parse(self, text: &str) -> Option<Compare> {
        let (op, rest) =
            OPS.iter().find_map(|(sign, op)| text.strip_prefix(sign).map(|it| (*op, it)))?;
        if op == Op::Equal && self.needs_op {
            return None;
        }
        Some(Compare { op, value: self.value(rest)? })
    }

    /// Parses a quantity without an operator.
    pub(super) fn value(self, text: &str) -> Option<u64> {
        let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let split = text.bytes().take_while(is_number).count();
        let (number, unit) = text.split_at(split);
        let is_unit = |(name, _): &&(&str, u64)| name.eq_ignore_ascii_case(unit);
        let (_, factor) = self.shown.iter().chain(self.also).find(is_unit)?;
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) => (whole, fraction),
            None => (number, "0"),
        };
        let whole: u64 = whole.parse().ok()?;
        // Nine digits are below one in every unit.
        let digits = fraction.get(..fraction.len().min(9))?;
        let part: u64 = digits.parse().ok()?;
        let scale = 10_u64.pow(u32::try_from(digits.len()).ok()?);
        if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let part = u128::from(part) * u128::from(*factor) / u128::from(scale);
        whole.checked_mul(*factor)?.checked_add(u64::try_from(part).ok()?)
    }

    /// Writes a comparison in the form that `parse` reads.
    pub(super) fn write(self, compare: Compare, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = OPS.iter().find(|(_, op)| *op == compare.op).map_or("", |(sign, _)| sign);
        let divides = |(_, factor): &&(&str, u64)| {
            *factor == 1 || (compare.value > 0 && compare.value.is_multiple_of(*factor))
        };
        let (unit, factor) = self.shown.iter().rev().find(divides).unwrap_or(&("", 1));
        write!(f, "{sign}{}{unit}", compare.value / factor)
    }
}
