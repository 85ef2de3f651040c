//! Methods of the client, and those that it serves.

use std::fmt::Write as _;

use super::super::names::{Names, camel, words};
use super::super::text;
use super::types::key;
use super::{METHODS, TypeScriptWriter, doc, string};
use crate::model::{Method, Param, ParamStructure};

impl TypeScriptWriter<'_> {
    /// The tags of a method, after an empty line if there is a text before them.
    fn method_tags(&self, method: &Method, has_text: bool) -> Vec<String> {
        let errors = self.errors.of(method).into_iter();
        let throws = errors.map(|error| format!("@throws {{@link {}}}", error.name)).collect();
        let deprecated = method.is_deprecated.then(|| "@deprecated".to_owned());
        let mut tags = text::paragraphs(vec![throws, deprecated.into_iter().collect()]);
        if has_text && !tags.is_empty() {
            tags.insert(0, String::new());
        }
        tags
    }

    pub(super) fn method(&mut self, name: &str, method: &Method) {
        self.out.push('\n');
        let lines = text::of_method(method);
        let tags = self.method_tags(method, !lines.is_empty());
        doc(&mut self.out, 2, &lines, &tags);
        let params = self.params_argument(method);
        let sent = sent_params(method);
        let wire = string(&method.name);
        let result = method.result.as_ref().map(|it| self.type_of(&it.schema, 2).text);
        let Some(result) = result else {
            let _ = writeln!(
                self.out,
                "  {name}({params}): Promise<void> {{\n    return notify(this.connection, {wire}, {sent});\n  }}"
            );
            return;
        };
        let errors: Vec<String> = self.errors.of(method).iter().map(|it| it.name.clone()).collect();
        let comma = if params.is_empty() { "" } else { ", " };
        let _ = writeln!(
            self.out,
            "  {name}({params}{comma}options: CallOptions = {{}}): Promise<{result}> {{\n    \
             return call(this.connection, {wire}, {sent}, options, [{}]);\n  }}",
            errors.join(", "),
        );
    }

    /// The argument with the params; empty if there are none.
    fn params_argument(&self, method: &Method) -> String {
        if let Some(free) = &method.free_params {
            return format!("params: {}", self.type_of(free, 2).text);
        }
        if method.params.is_empty() {
            return String::new();
        }
        let default = if method.params.iter().any(|it| it.is_required) { "" } else { " = {}" };
        format!("params: {}{default}", self.params_type(&method.params, 2))
    }

    fn params_type(&self, params: &[Param], indent: usize) -> String {
        let mut out = String::from("{\n");
        let pad = " ".repeat(indent + 2);
        for param in params {
            let mut parts = text::of(param.summary.as_ref(), param.description.as_ref());
            parts.push(text::of_schema(&param.schema));
            doc(&mut out, indent + 2, &text::paragraphs(parts), &[]);
            let mark = if param.is_required { "" } else { "?" };
            let value = self.type_of(&param.schema, indent + 2).text;
            let _ = writeln!(out, "{pad}{}{mark}: {value};", key(&param.name));
        }
        let _ = write!(out, "{}}}", " ".repeat(indent));
        out
    }

    pub(super) fn callbacks(&mut self, callbacks: &str) {
        let _ = writeln!(
            self.out,
            "/** Methods that the server calls. A `ResponseError` that one throws is sent as it is. */"
        );
        let _ = writeln!(self.out, "export interface {callbacks} {{");
        let mut names = Names::new(&[METHODS], "_");
        for method in &self.document.client_methods {
            let name = names.pick(&camel(&words(&method.name, "method")));
            let doc = text::of_method(method);
            self.doc(2, &doc);
            let params = match &method.free_params {
                Some(free) => self.type_of(free, 2).text,
                None if method.params.is_empty() => "unknown".to_owned(),
                None => self.params_type(&method.params, 2),
            };
            let result = method
                .result
                .as_ref()
                .map_or("void".to_owned(), |it| self.type_of(&it.schema, 2).text);
            let token = if method.result.is_some() { ", token: CancellationToken" } else { "" };
            let _ = writeln!(
                self.out,
                "  {name}(params: {params}{token}): Promise<{result}> | {result};"
            );
        }
        self.out.push_str("}\n\n");
    }

    pub(super) fn serve(&mut self, callbacks: &str) {
        let _ = writeln!(
            self.out,
            "\n  /** Serves methods to the server. Call it before `connection.listen()`. */\n  \
             serve(callbacks: {callbacks}): Disposable {{\n    const served: Disposable[] = [\n"
        );
        let mut names = Names::new(&[METHODS], "_");
        for method in &self.document.client_methods {
            let name = names.pick(&camel(&words(&method.name, "method")));
            let wire = string(&method.name);
            let params: Vec<String> = method.params.iter().map(|it| string(&it.name)).collect();
            let named = match method.free_params {
                Some(_) => "null".to_owned(),
                None => format!("[{}]", params.join(", ")),
            };
            let _ = match method.result {
                Some(_) => writeln!(
                    self.out,
                    "      this.connection.onRequest({wire}, async (...given: unknown[]): Promise<unknown> =>\n        \
                     callbacks.{name}(received(given, {named}), token(given))),"
                ),
                None => writeln!(
                    self.out,
                    "      this.connection.onNotification({wire}, async (...given: unknown[]): Promise<void> =>\n        \
                     callbacks.{name}(received(given, {named}))),"
                ),
            };
        }
        self.out.push_str(
            "    ];\n    return { dispose: () => served.forEach((it) => it.dispose()) };\n  }\n",
        );
    }
}

/// The expression of the params as they are sent.
fn sent_params(method: &Method) -> String {
    if method.free_params.is_some() {
        return "params".to_owned();
    }
    if method.params.is_empty() {
        return "undefined".to_owned();
    }
    if method.param_structure == ParamStructure::ByPosition {
        let names = method.params.iter().map(|it| format!("params[{}]", string(&it.name)));
        return format!("[{}]", names.collect::<Vec<_>>().join(", "));
    }
    "params".to_owned()
}
