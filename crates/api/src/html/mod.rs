//! An API as one HTML page for people (A7).
//!
//! The page loads nothing: style and script are inside, and its content security policy allows exactly these two, by
//! their hash. Every text of the document is escaped, so even without the policy none of it would be code.

mod parts;

use std::fmt::Write as _;

use self::parts::{anchor, code, escaped, paragraphs};
use crate::model::{Document, ErrorSpec, Example, Method, Param, ParamStructure};
use crate::schema::{Schema, Shape};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// SHA-256 of the style and the script, in Base64: `openssl dgst -sha256 -binary page.css | base64`. A browser ignores a
/// style or a script with another one, and then `cli/tests/api` fails.
const STYLE_HASH: &str = "Z+CvN6UgivXVAsr86oHdhxuQyqHph1LyBvVr7ooYh04=";
const SCRIPT_HASH: &str = "5RAryWS4nuFXdFrnlnLQo3IeYlW/35/nGYLSF0zrfeE=";

/// The kinds of entries. Each has its own anchors, because a type may have the name of a method.
const METHOD: &str = "method";
const CLIENT_METHOD: &str = "client";
const TYPE: &str = "type";

impl Document {
    /// The API as one HTML page for people: methods, params, errors, examples, types, and a search box. It loads
    /// nothing from elsewhere, and texts of the document cannot become code.
    pub fn html(&self) -> String {
        let mut page = Html { document: self, out: String::new() };
        page.write();
        page.out
    }
}

struct Html<'a> {
    document: &'a Document,
    out: String,
}

/// Adds formatted text. Writing to a string does not fail.
macro_rules! add {
    ($page:expr, $($text:tt)*) => {{ let _ = write!($page.out, $($text)*); }};
}

impl Html<'_> {
    fn write(&mut self) {
        let info = &self.document.info;
        let (title, version) = (escaped(&info.title), escaped(&info.version));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{STYLE_HASH}'; script-src 'sha256-{SCRIPT_HASH}'; \
             base-uri 'none'; form-action 'none'"
        );
        add!(self, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
        add!(self, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n");
        add!(self, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        add!(self, "<meta name=\"referrer\" content=\"no-referrer\">\n");
        add!(self, "<title>{title} {version}</title>\n<style>{STYLE}</style>\n");
        self.navigation();
        self.content();
        add!(self, "<script>{SCRIPT}</script>\n</html>\n");
    }

    fn navigation(&mut self) {
        let document = self.document;
        let info = &document.info;
        add!(self, "<nav>\n<h1>{}</h1>\n", escaped(&info.title));
        add!(self, "<div class=\"version\">{}</div>\n", escaped(&info.version));
        add!(
            self,
            "<input id=\"search\" type=\"search\" placeholder=\"Search ( / )\" aria-label=\"Search\">\n"
        );
        add!(self, "<div class=\"list\">\n");
        for (tag, methods) in grouped(&document.methods) {
            let title = tag.unwrap_or("Methods");
            self.entries(
                title,
                METHOD,
                methods.iter().map(|it| (it.name.as_str(), it.is_deprecated)),
            );
        }
        let called = document.client_methods.iter().map(|it| (it.name.as_str(), it.is_deprecated));
        self.entries("Called at the client", CLIENT_METHOD, called);
        self.entries("Types", TYPE, document.types.iter().map(|it| (it.name.as_str(), false)));
        add!(self, "<p id=\"none\" hidden>Nothing found.</p>\n</div>\n</nav>\n");
    }

    fn entries<'n>(
        &mut self,
        title: &str,
        kind: &str,
        names: impl Iterator<Item = (&'n str, bool)>,
    ) {
        let mut names = names.peekable();
        if names.peek().is_none() {
            return;
        }
        add!(self, "<div class=\"group\"><h2>{}</h2>\n<ul>\n", escaped(title));
        for (name, is_deprecated) in names {
            let (id, class) =
                (anchor(kind, name), if is_deprecated { " class=\"old\"" } else { "" });
            add!(
                self,
                "<li{class} data-to=\"{id}\"><a href=\"#{id}\">{}</a></li>\n",
                escaped(name)
            );
        }
        add!(self, "</ul></div>\n");
    }

    fn content(&mut self) {
        let document = self.document;
        let info = &document.info;
        add!(
            self,
            "<main>\n<header>\n<h2>{} {}</h2>\n",
            escaped(&info.title),
            escaped(&info.version)
        );
        let license =
            info.license.as_ref().map(|it| format!(" · {}", escaped(it))).unwrap_or_default();
        add!(self, "<div class=\"dim\">OpenRPC {}{license}</div>\n", escaped(&document.openrpc));
        self.out.push_str(&paragraphs(info.description.as_deref()));
        for server in &document.servers {
            let name =
                server.name.as_deref().map(|it| format!("{} ", escaped(it))).unwrap_or_default();
            add!(self, "<div class=\"dim\">{name}{}</div>\n", code(&server.url));
        }
        add!(self, "</header>\n<div class=\"group\">\n");
        for (_, methods) in grouped(&document.methods) {
            methods.iter().for_each(|it| self.method(METHOD, it));
        }
        add!(self, "</div>\n");
        if !document.client_methods.is_empty() {
            add!(
                self,
                "<div class=\"group\"><h2 class=\"part\">The server calls these methods at its client</h2>\n"
            );
            document.client_methods.iter().for_each(|it| self.method(CLIENT_METHOD, it));
            add!(self, "</div>\n");
        }
        if !document.types.is_empty() {
            add!(self, "<div class=\"group\"><h2 class=\"part\">Types</h2>\n");
            for named in &document.types {
                self.named_type(&named.name, &named.schema);
            }
            add!(self, "</div>\n");
        }
        add!(self, "</main>\n");
    }

    fn heading(&mut self, kind: &str, name: &str, badges: &[String]) {
        let id = anchor(kind, name);
        add!(self, "<article id=\"{id}\">\n<h3><a href=\"#{id}\">{}</a>", code(name));
        for badge in badges {
            let class = if badge == "deprecated" { "badge bad" } else { "badge" };
            add!(self, " <span class=\"{class}\">{}</span>", escaped(badge));
        }
        add!(self, "</h3>\n");
    }

    fn method(&mut self, kind: &str, method: &Method) {
        let mut badges = Vec::new();
        badges.extend(method.is_deprecated.then(|| "deprecated".to_owned()));
        badges.extend(method.is_notification().then(|| "notification".to_owned()));
        badges.extend(method.is_idempotent.then(|| "idempotent".to_owned()));
        badges.extend(method.since.as_ref().map(|it| format!("since {it}")));
        badges.extend(method.tags.iter().cloned());
        self.heading(kind, &method.name, &badges);
        if let Some(reason) = &method.deprecation {
            add!(self, "<p class=\"warning\">Deprecated: {}</p>\n", escaped(reason));
        }
        if !method.aliases.is_empty() {
            let aliases: Vec<_> = method.aliases.iter().map(|it| code(it)).collect();
            add!(self, "<p class=\"dim\">Also: {}</p>\n", aliases.join(", "));
        }
        self.out.push_str(&paragraphs(method.summary.as_deref()));
        self.out.push_str(&paragraphs(method.description.as_deref()));
        self.params(method);
        if let Some(result) = &method.result {
            let text = [&result.summary, &result.description, &result.schema.description];
            let text = text.into_iter().flatten().next().map(String::as_str);
            add!(self, "<h4>Result</h4>\n");
            // A name that says nothing needs no column.
            match result.name.as_str() {
                "" | "result" => add!(self, "<div class=\"value\">"),
                name => add!(self, "<table><tr><td>{}</td><td>", code(name)),
            }
            self.type_and_limits(&result.schema);
            self.out.push_str(&paragraphs(text));
            match result.name.as_str() {
                "" | "result" => add!(self, "</div>\n"),
                _ => add!(self, "</td></tr></table>\n"),
            }
        }
        self.errors(&method.errors);
        method.examples.iter().for_each(|it| self.example(method, it));
        add!(self, "</article>\n");
    }

    fn params(&mut self, method: &Method) {
        let form = match method.param_structure {
            ParamStructure::Either => "",
            ParamStructure::ByName => " (by name)",
            ParamStructure::ByPosition => " (by position)",
        };
        match (&method.free_params, method.params.is_empty()) {
            (Some(schema), true) => {
                add!(self, "<h4>Params</h4>\n<p>");
                self.type_and_limits(schema);
                add!(self, "</p>\n{}", paragraphs(schema.description.as_deref()));
            }
            (_, true) => {}
            (_, false) => {
                add!(self, "<h4>Params{form}</h4>\n<table>\n");
                method.params.iter().for_each(|it| self.param(it));
                add!(self, "</table>\n");
            }
        }
    }

    fn param(&mut self, param: &Param) {
        let Param { name, is_required, is_deprecated, schema, .. } = param;
        let deprecated =
            if *is_deprecated { " <span class=\"badge bad\">deprecated</span>" } else { "" };
        let texts = [&param.summary, &param.description, &schema.description];
        self.member(name, *is_required, schema, &texts, deprecated);
    }

    fn member(
        &mut self,
        name: &str,
        is_required: bool,
        schema: &Schema,
        texts: &[&Option<String>],
        note: &str,
    ) {
        let must = if is_required { " <span class=\"must\">required</span>" } else { "" };
        add!(self, "<tr><td>{}{must}{note}</td><td>", code(name));
        self.type_and_limits(schema);
        let mut shown: Vec<&str> = Vec::new();
        for text in texts.iter().copied().flatten() {
            if !shown.contains(&text.as_str()) {
                shown.push(text);
                self.out.push_str(&paragraphs(Some(text)));
            }
        }
        if let Some(default) = &schema.default {
            add!(self, "<p class=\"dim\">Default: {}</p>", code(&default.to_string()));
        }
        add!(self, "</td></tr>\n");
    }

    fn type_and_limits(&mut self, schema: &Schema) {
        let kind = self.document.type_html(schema);
        let limits = self.document.limits_text(schema);
        add!(self, "<code class=\"type\">{kind}</code>");
        if !limits.is_empty() {
            add!(self, " <span class=\"limits\">{}</span>", escaped(&limits));
        }
    }

    fn errors(&mut self, errors: &[ErrorSpec]) {
        if errors.is_empty() {
            return;
        }
        add!(self, "<h4>Errors</h4>\n<table>\n");
        for error in errors {
            let name = error.name.as_ref().map(|it| format!(" {}", code(it))).unwrap_or_default();
            add!(
                self,
                "<tr><td>{}{name}</td><td><p>{}</p>",
                code(&error.code.to_string()),
                escaped(&error.message)
            );
            self.out.push_str(&paragraphs(error.summary.as_deref()));
            self.out.push_str(&paragraphs(error.description.as_deref()));
            if let Some(schema) = &error.data_schema {
                add!(self, "<span class=\"dim\">Data:</span> ");
                self.type_and_limits(schema);
            }
            if let Some(data) = &error.data {
                add!(self, "<pre>{}</pre>", escaped(&data.pretty()));
            }
            add!(self, "</td></tr>\n");
        }
        add!(self, "</table>\n");
    }

    fn example(&mut self, method: &Method, example: &Example) {
        add!(
            self,
            "<h4>Example{}</h4>\n",
            match example.name.as_str() {
                "" => String::new(),
                name => format!(": {}", escaped(name)),
            }
        );
        self.out.push_str(&paragraphs(example.description.as_deref()));
        let request = parts::params_text(&example.params, method.param_structure);
        add!(self, "<div class=\"pair\">");
        let result = example.result.as_ref().map(crate::json::Json::pretty);
        for (title, text) in [("params", Some(request)), ("result", result)] {
            if let Some(text) = text {
                add!(
                    self,
                    "<figure><figcaption>{title}</figcaption><pre>{}</pre></figure>",
                    escaped(&text)
                );
            }
        }
        add!(self, "</div>\n");
    }

    fn named_type(&mut self, name: &str, schema: &Schema) {
        self.heading(TYPE, name, &[]);
        self.out.push_str(&paragraphs(schema.description.as_deref()));
        let object = match &schema.shape {
            Shape::Object(_) | Shape::AllOf(_) => self.document.as_object(schema),
            _ => None,
        };
        match object.filter(|it| !it.members.is_empty()) {
            None => {
                add!(self, "<p>");
                self.type_and_limits(schema);
                add!(self, "</p>\n");
            }
            Some(object) => {
                add!(self, "<table>\n");
                for member in &object.members {
                    let texts = [&member.schema.description];
                    self.member(&member.name, member.is_required, &member.schema, &texts, "");
                }
                add!(self, "</table>\n");
            }
        }
        add!(self, "</article>\n");
    }
}

/// Methods by their first tag, in the order of the document; those without a tag first.
fn grouped(methods: &[Method]) -> Vec<(Option<&str>, Vec<&Method>)> {
    let mut groups: Vec<(Option<&str>, Vec<&Method>)> = vec![(None, Vec::new())];
    let mut places = std::collections::HashMap::from([(None, 0)]);
    for method in methods {
        let tag = method.tags.first().map(String::as_str);
        let at = *places.entry(tag).or_insert_with(|| {
            groups.push((tag, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(method);
    }
    groups.retain(|(_, methods)| !methods.is_empty());
    groups
}
