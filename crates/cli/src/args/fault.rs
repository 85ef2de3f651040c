//! The options for faults, of every command that passes messages on.

use duet_rpc_trace::FaultRule;

/// Options for faults that are made on purpose.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Faults")]
pub(crate) struct FaultArgs {
    /// Delay, drop, change or break messages, by a rule; can be given several times
    ///
    /// A rule is a fault and the messages that get it, such as `delay=200ms method:textDocument/hover p:0.1`.
    /// The faults are delay=TIME, throttle=RATE, slice=SIZE, stall, drop, dup, reorder, cut, half-close, kill,
    /// corrupt=json|utf8|length|truncate|bit|id|print, error=CODE:TEXT, answer=JSON, set=/POINTER=JSON and
    /// unset=/POINTER. The messages are chosen with the filter language of `trace show --where`, and among
    /// them with nth:N, every:N, p:0.1 (probability) and after:TIME or after:N (messages).
    #[arg(long, value_name = "RULE", value_parser = rule)]
    pub(crate) fault: Vec<FaultRule>,
    /// Seed of the faults: the same seed makes the same faults in the same messages
    #[arg(long, value_name = "N", default_value_t = 0, requires = "fault")]
    pub(crate) seed: u64,
}

/// Parses a rule. An error shows the rule, with a mark under the wrong word.
fn rule(text: &str) -> Result<FaultRule, String> {
    text.parse().map_err(|error: duet_rpc_trace::FilterError| {
        let marks = "^".repeat(error.found.chars().count().max(1));
        let line = text.replace(char::is_control, " ");
        format!("{error}\n\n  {line}\n  {}{marks}", " ".repeat(error.position))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x2_wrong_word_of_a_rule_is_marked() {
        let error = rule("drop dür:s2c p:0.1").expect_err("no such term");
        let lines: Vec<_> = error.lines().collect();
        assert!(lines[0].starts_with("position 6: expected nth:, every:"), "{error}");
        assert_eq!(lines[1..], ["", "  drop dür:s2c p:0.1", "       ^^^^^^^"]);
        let error = rule("delay").expect_err("no time");
        assert!(error.ends_with("\n  delay\n       ^"), "{error}");
    }
}
