//! Numbers, visited as serde_json visits them.

use serde::de::Visitor;

use super::problem::Problem;

/// The integers that are asked for. Those of 128 bits come only on request.
pub(super) enum Width {
    Usual,
    Signed,
    Unsigned,
}

pub(super) fn visit<'de, V: Visitor<'de>>(
    text: &str,
    visitor: V,
    width: Width,
) -> Result<V::Value, Problem> {
    // The minus of `-0` is kept, which makes it a fraction.
    let is_integer = text != "-0" && !text.contains(['.', 'e', 'E']);
    match width {
        Width::Usual if is_integer => {
            if let Ok(number) = text.parse() {
                return visitor.visit_u64(number);
            }
            if let Ok(number) = text.parse() {
                return visitor.visit_i64(number);
            }
        }
        Width::Signed => {
            if let Ok(number) = text.parse() {
                return visitor.visit_i128(number);
            }
        }
        Width::Unsigned => {
            if let Ok(number) = text.parse() {
                return visitor.visit_u128(number);
            }
        }
        Width::Usual => {}
    }
    // Beyond the numbers of JSON's readers, such as `1e999`.
    let number = serde_json::from_str(text).map_err(|_| Problem::unreadable())?;
    visitor
        .visit_f64(number)
        .map_err(|problem: Problem| if is_integer { problem.out_of_range() } else { problem })
}
