//! The page of `api show` on the terminal (A6).

use std::fmt::Write as _;

use duet_rpc_api::{Document, ErrorSpec, Example, Json, Method, ParamStructure, Schema, Shape};

use crate::json;
use crate::sys::terminal;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";

/// The columns of a page that is not for a terminal, or for one whose width is not known.
const WIDTH: usize = 100;
/// More columns make lines hard to read.
const WIDEST: usize = 120;
const NARROWEST: usize = 40;
/// The widest column of names.
const NAMES: usize = 24;

/// Colours and width of a page.
pub(super) struct Look {
    in_color: bool,
    width: usize,
}

impl Look {
    pub(super) fn new(in_color: bool, is_terminal: bool) -> Self {
        let columns = is_terminal.then(terminal::columns).flatten();
        Look { in_color, width: columns.unwrap_or(WIDTH).clamp(NARROWEST, WIDEST) }
    }
}

/// The whole API.
pub(super) fn document(document: &Document, look: &Look) -> String {
    let mut page = TerminalPage { document, look, text: String::new() };
    page.head();
    for method in &document.methods {
        page.method(method);
    }
    if !document.client_methods.is_empty() {
        page.section("The server calls these methods at its client");
        document.client_methods.iter().for_each(|it| page.method(it));
    }
    if !document.types.is_empty() {
        page.section("Types");
        for named in &document.types {
            page.text.push('\n');
            page.named(&named.name, &named.schema);
        }
    }
    page.text
}

/// One method.
pub(super) fn method(document: &Document, name: &str, look: &Look) -> Option<String> {
    let mut methods = document.methods.iter().chain(&document.client_methods);
    let method =
        methods.find(|it| it.name == name || it.aliases.iter().any(|alias| alias == name))?;
    let mut page = TerminalPage { document, look, text: String::new() };
    page.method(method);
    Some(page.text.trim_start().to_owned())
}

struct TerminalPage<'a> {
    document: &'a Document,
    look: &'a Look,
    text: String,
}

/// A name, a type and a text for people.
struct PageRow {
    name: String,
    kind: String,
    text: String,
}

impl TerminalPage<'_> {
    fn head(&mut self) {
        let info = &self.document.info;
        let title = self.colored(BOLD, &line(&info.title));
        let count = match self.document.methods.len() {
            1 => "1 method".to_owned(),
            count => format!("{count} methods"),
        };
        let license = info.license.as_ref().map(|it| format!(", {}", line(it))).unwrap_or_default();
        let about = format!("{count}, OpenRPC {}{license}", line(&self.document.openrpc));
        let about = self.colored(DIM, &about);
        let _ = writeln!(self.text, "{title} {}  {about}", line(&info.version));
        self.paragraphs(info.description.as_deref(), 0);
        for server in &self.document.servers {
            let url = line(&server.url);
            let _ = writeln!(self.text, "{} {url}", self.colored(DIM, "server"));
        }
    }

    fn section(&mut self, title: &str) {
        let title = self.colored(YELLOW, title);
        let _ = writeln!(self.text, "\n{title}");
    }

    fn method(&mut self, method: &Method) {
        let name = self.colored(&format!("{BOLD};{GREEN}"), &line(&method.name));
        let kind = if method.is_notification() { "  notification" } else { "" };
        let tags: String = method.tags.iter().map(|it| format!("  #{}", line(it))).collect();
        let since =
            method.since.as_ref().map(|it| format!("  since {}", line(it))).unwrap_or_default();
        let idempotent = if method.is_idempotent { "  idempotent" } else { "" };
        let notes = self.colored(DIM, &format!("{kind}{idempotent}{since}{tags}"));
        let _ = writeln!(self.text, "\n{name}{notes}");
        if method.is_deprecated {
            let reason = method.deprecation.as_ref().map(|it| format!(": {}", line(it)));
            let text = format!("deprecated{}", reason.unwrap_or_default());
            let _ = writeln!(self.text, "  {}", self.colored(RED, &text));
        }
        if !method.aliases.is_empty() {
            let aliases: Vec<_> = method.aliases.iter().map(|it| line(it)).collect();
            let _ = writeln!(self.text, "  also {}", aliases.join(", "));
        }
        self.paragraphs(method.summary.as_deref(), 2);
        self.paragraphs(method.description.as_deref(), 2);
        self.params(method);
        if let Some(result) = &method.result {
            let text = texts(&[&result.summary, &result.description, &result.schema.description]);
            let row = PageRow { name: "result".to_owned(), kind: self.kind(&result.schema), text };
            self.rows(&[row], 2, CYAN);
        }
        self.errors(&method.errors);
        method.examples.iter().for_each(|it| self.example(method, it));
    }

    fn params(&mut self, method: &Method) {
        if let (Some(schema), true) = (&method.free_params, method.params.is_empty()) {
            let (kind, text) = (self.kind(schema), texts(&[&schema.description]));
            return self.rows(&[PageRow { name: "params".to_owned(), kind, text }], 2, CYAN);
        }
        if method.params.is_empty() {
            return;
        }
        let form = match method.param_structure {
            ParamStructure::Either => "",
            ParamStructure::ByName => "  by name",
            ParamStructure::ByPosition => "  by position",
        };
        let _ =
            writeln!(self.text, "  {}{}", self.colored(CYAN, "params"), self.colored(DIM, form));
        let rows = method.params.iter().map(|param| {
            let mark = if param.is_required { "" } else { "?" };
            let default = param.schema.default.as_ref().map(|it| format!("Default: {it}."));
            let deprecated = param.is_deprecated.then(|| "Deprecated.".to_owned());
            let text = texts(&[
                &deprecated,
                &param.summary,
                &param.description,
                &param.schema.description,
                &default,
            ]);
            PageRow {
                name: format!("{}{mark}", line(&param.name)),
                kind: self.kind(&param.schema),
                text,
            }
        });
        let rows: Vec<_> = rows.collect();
        self.rows(&rows, 4, "");
    }

    fn errors(&mut self, errors: &[ErrorSpec]) {
        if errors.is_empty() {
            return;
        }
        let _ = writeln!(self.text, "  {}", self.colored(CYAN, "errors"));
        let rows = errors.iter().map(|error| {
            let name = error.name.as_ref().map(|it| format!("({})", line(it)));
            let data = error.data_schema.as_ref().map(|it| format!("Data: {}.", self.kind(it)));
            let example = error.data.as_ref().map(|it| format!("Data: {it}"));
            let text = texts(&[&name, &error.summary, &error.description, &data, &example]);
            PageRow { name: error.code.to_string(), kind: line(&error.message), text }
        });
        let rows: Vec<_> = rows.collect();
        self.rows(&rows, 4, "");
    }

    fn example(&mut self, method: &Method, example: &Example) {
        let _ = writeln!(self.text, "  {} {}", self.colored(CYAN, "example"), line(&example.name));
        self.paragraphs(example.description.as_deref(), 4);
        let params = match method.param_structure {
            ParamStructure::ByPosition => {
                let values: Vec<_> =
                    example.params.iter().map(|(_, value)| value.to_string()).collect();
                format!("[{}]", values.join(", "))
            }
            _ => {
                let member = |(name, value): &(String, Json)| {
                    format!("{}: {value}", Json::String(name.clone()))
                };
                let members: Vec<_> = example.params.iter().map(member).collect();
                format!("{{{}}}", members.join(", "))
            }
        };
        let result = example.result.as_ref().map(Json::to_string);
        for (arrow, text) in [("→", Some(params)), ("←", result)] {
            if let Some(text) = text {
                let arrow = self.colored(DIM, arrow);
                let text = wrapped(&line(&text), self.look.width - 6).join("\n      ");
                let _ = writeln!(self.text, "    {arrow} {text}");
            }
        }
    }

    fn named(&mut self, name: &str, schema: &Schema) {
        let title = self.colored(BOLD, &line(name));
        let object = match &schema.shape {
            Shape::Object(_) | Shape::AllOf(_) => self.document.as_object(schema),
            _ => None,
        };
        match object.filter(|it| !it.members.is_empty()) {
            None => {
                let _ = writeln!(self.text, "  {title}  {}", self.kind(schema));
                self.paragraphs(schema.description.as_deref(), 4);
            }
            Some(object) => {
                let _ = writeln!(self.text, "  {title}");
                self.paragraphs(schema.description.as_deref(), 4);
                let rows = object.members.iter().map(|member| {
                    let mark = if member.is_required { "" } else { "?" };
                    let default =
                        member.schema.default.as_ref().map(|it| format!("Default: {it}."));
                    let text = texts(&[&member.schema.description, &default]);
                    let name = format!("{}{mark}", line(&member.name));
                    PageRow { name, kind: self.kind(&member.schema), text }
                });
                let rows: Vec<_> = rows.collect();
                self.rows(&rows, 4, "");
            }
        }
    }

    /// A type and its limits.
    fn kind(&self, schema: &Schema) -> String {
        let (kind, limits) = (self.document.type_text(schema), self.document.limits_text(schema));
        match limits.as_str() {
            "" => line(&kind),
            limits => line(&format!("{kind} ({limits})")),
        }
    }

    /// Rows with a column for names. The text begins beside the type, and its further lines below it.
    fn rows(&mut self, rows: &[PageRow], indent: usize, color: &str) {
        let widest =
            rows.iter().map(|row| row.name.chars().count()).filter(|it| *it <= NAMES).max();
        let widest = widest.unwrap_or(NAMES);
        for PageRow { name, kind, text } in rows {
            let column = indent + widest + 2;
            let room = self.look.width.saturating_sub(column).max(20);
            let padding = " ".repeat(widest.saturating_sub(name.chars().count()));
            let name = self.colored(color, name);
            let _ = write!(self.text, "{:indent$}{name}{padding}  ", "");
            let is_short = kind.chars().count() + 2 + text.chars().count() <= room;
            let separator = format!("\n{:column$}", "");
            let shown: Vec<_> =
                wrapped(kind, room).iter().map(|it| self.colored(GREEN, it)).collect();
            self.text.push_str(&shown.join(&separator));
            if !text.is_empty() {
                let lines = wrapped(text, room).join(&separator);
                let before = if is_short { "  " } else { separator.as_str() };
                let _ = write!(self.text, "{before}{lines}");
            }
            self.text.push('\n');
        }
    }

    fn paragraphs(&mut self, text: Option<&str>, indent: usize) {
        let room = self.look.width - indent;
        for paragraph in text.unwrap_or_default().lines() {
            for part in wrapped(&line(paragraph), room) {
                let _ = writeln!(self.text, "{:indent$}{part}", "");
            }
        }
    }

    fn colored(&self, color: &str, text: &str) -> String {
        match self.look.in_color && !color.is_empty() && !text.is_empty() {
            true => format!("\x1b[{color}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// Texts as one line.
fn texts(parts: &[&Option<String>]) -> String {
    let mut joined: Vec<String> = Vec::new();
    for part in parts.iter().copied().flatten().map(|it| line(it)) {
        if !part.is_empty() && !joined.contains(&part) {
            joined.push(part);
        }
    }
    joined.join(" ")
}

/// One line without characters that control a terminal.
fn line(text: &str) -> String {
    json::escape_for_terminal(&text.replace(['\n', '\r', '\t'], " "))
}

/// Lines of at most this many characters. A word that is longer has a line of its own, or several.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut length = 0;
    for word in text.split(' ') {
        let size = word.chars().count();
        if length > 0 && length + 1 + size > room {
            lines.push(String::new());
            length = 0;
        }
        let Some(last) = lines.last_mut() else { continue };
        if length > 0 {
            last.push(' ');
            length += 1;
        }
        last.push_str(word);
        length += size;
    }
    lines
}
