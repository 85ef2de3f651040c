//! Markdown tables.

/// A table; each added line is a row.
pub struct Table {
    text: String,
}

#[derive(Clone, Copy)]
pub enum Align {
    Left,
    Right,
}

impl Table {
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let mut table = Table { text: String::new() };
        table.add(columns.iter().map(|(title, _)| (*title).to_owned()));
        for (_, align) in columns {
            table.text.push_str(match align {
                Align::Left => "|---",
                Align::Right => "|---:",
            });
        }
        table.text.push_str("|\n");
        table
    }

    pub fn add(&mut self, cells: impl IntoIterator<Item = String>) {
        for cell in cells {
            self.text.push_str("| ");
            self.text.push_str(&escape(&cell));
            self.text.push(' ');
        }
        self.text.push_str("|\n");
    }

    pub fn finish(self) -> String {
        self.text
    }
}

/// Escapes text, so that it does not begin a cell or a tag.
fn escape(cell: &str) -> String {
    cell.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_head_and_lines() {
        let mut table = Table::new(&[("a", Align::Left), ("b", Align::Right)]);
        table.add(["x|y".to_owned(), "< 1".to_owned()]);
        assert_eq!(table.finish(), "| a | b |\n|---|---:|\n| x\\|y | &lt; 1 |\n");
    }
}
