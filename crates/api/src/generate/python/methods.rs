//! Methods of the client.

use std::fmt::Write as _;

use super::super::names::{Names, pascal, snake, words};
use super::super::{shapes, text};
use super::reserved::{ARGUMENTS, KEYWORDS, RESERVED};
use super::{PythonWriter, docstring, string};
use crate::model::{Method, Param, ParamStructure};
use crate::schema::Schema;

impl PythonWriter<'_> {
    pub(super) fn client(&mut self, class: &str, callbacks: Option<&str>) {
        let info = &self.document.info;
        let names: Vec<(String, &Method)> = method_names(&self.document.methods);
        // Types of params and results may need classes, which come first.
        let mut methods = String::new();
        for (name, method) in &names {
            let text = self.method(name, method);
            methods.push_str(&text);
        }
        let _ = writeln!(self.out, "\n\nclass {class}:");
        let title = vec![
            text::lines(&info.title),
            info.description.as_deref().map(text::lines).unwrap_or_default(),
        ];
        let mut lines = text::paragraphs(title);
        if lines.is_empty() {
            lines.push("A client.".to_owned());
        }
        docstring(&mut self.out, 4, &lines);
        self.out.push_str(
            "\n    def __init__(self, peer: duet_rpc.Peer) -> None:\n        self._peer = peer\n",
        );
        if let Some(callbacks) = callbacks {
            self.serve(callbacks);
        }
        self.out.push_str(&methods);
    }

    pub(super) fn method(&mut self, name: &str, method: &Method) -> String {
        let mut out = String::new();
        let place = pascal(&words(&method.name, "method"));
        let arguments = self.arguments(method, &place);
        let result = method.result.as_ref().map(|it| self.result(&it.schema, &place));
        let mut signature = vec!["self".to_owned()];
        if method.free_params.is_none() && (!arguments.is_empty() || result.is_some()) {
            signature.push("*".to_owned());
        }
        signature.extend(arguments.iter().map(|it| it.declared.clone()));
        if result.is_some() {
            if method.free_params.is_some() {
                signature.push("*".to_owned());
            }
            signature
                .push("timeout: float | duet_rpc.Default | None = duet_rpc.DEFAULT".to_owned());
        }
        let returns = result.as_deref().unwrap_or("None");
        let _ =
            writeln!(out, "\n    async def {name}({}) -> {returns}:", arguments_text(&signature));
        docstring(&mut out, 8, &self.method_doc(method));
        let params = sent_params(method, &arguments);
        let wire = string(&method.name);
        if result.is_none() {
            let _ = writeln!(out, "        await self._peer.notify({wire}, {params})");
            return out;
        }
        let errors: Vec<String> = self
            .errors
            .of(method)
            .iter()
            .map(|it| format!("{}: {}", it.spec.code, it.name))
            .collect();
        let errors = if errors.is_empty() {
            String::new()
        } else {
            format!(", errors={{{}}}", errors.join(", "))
        };
        let _ = writeln!(
            out,
            "        _result: {returns} = await self._peer.call({wire}, {params}, timeout=timeout{errors})\n        \
             return _result",
        );
        out
    }

    /// The type of a result. Type checkers refuse a `return` in a function that never returns.
    pub(super) fn result(&mut self, schema: &Schema, place: &str) -> String {
        match shapes::is_never(self.document, schema) {
            true => self.typing("Any"),
            false => self.type_of(schema, &format!("{place}_result")),
        }
    }

    pub(super) fn arguments(&mut self, method: &Method, place: &str) -> Vec<Argument> {
        if let Some(free) = &method.free_params {
            // Params must be an object or an array, whatever the document says.
            let value = match shapes::is_structured(self.document, free) {
                true => self.type_of(free, &format!("{place}_params")),
                false => "duet_rpc.Params".to_owned(),
            };
            return vec![Argument {
                declared: format!("params: {value}"),
                name: "params".to_owned(),
            }];
        }
        let mut names = Names::new(&[KEYWORDS, RESERVED, ARGUMENTS], "_");
        let mut found = Vec::new();
        for param in &method.params {
            let name = names.pick(&snake(&words(&param.name, "param")));
            let (schema, place) = (&param.schema, format!("{place}_{}", param.name));
            let declared = match param.is_required {
                true => format!("{name}: {}", self.type_of(schema, &place)),
                false => format!("{name}: {} = duet_rpc.DEFAULT", self.optional(schema, &place)),
            };
            found.push(Argument { name, declared });
        }
        found
    }

    pub(super) fn method_doc(&self, method: &Method) -> Vec<String> {
        let mut parts = vec![text::of_method(method)];
        if parts.concat().is_empty() {
            parts.push(vec![format!("Call `{}`.", text::line(&method.name))]);
        }
        parts.extend(method.params.iter().filter_map(param_doc));
        let raised =
            self.errors.of(method).iter().map(|it| format!("Raises `{}`.", it.name)).collect();
        parts.push(raised);
        text::paragraphs(parts)
    }
}

pub(super) struct Argument {
    name: String,
    pub(super) declared: String,
}

/// The names of methods, as identifiers.
pub(super) fn method_names(methods: &[Method]) -> Vec<(String, &Method)> {
    let mut names = Names::new(&[KEYWORDS, RESERVED, &["serve"]], "_");
    methods.iter().map(|it| (names.pick(&snake(&words(&it.name, "method"))), it)).collect()
}

/// The expression of the params as they are sent.
fn sent_params(method: &Method, arguments: &[Argument]) -> String {
    if method.free_params.is_some() {
        return "params".to_owned();
    }
    if method.params.is_empty() {
        return "None".to_owned();
    }
    if method.param_structure == ParamStructure::ByPosition {
        let names: Vec<&str> = arguments.iter().map(|it| it.name.as_str()).collect();
        return format!("duet_rpc.by_position({})", names.join(", "));
    }
    let entries = method.params.iter().zip(arguments);
    let entries =
        entries.map(|(param, argument)| format!("{}: {}", string(&param.name), argument.name));
    format!("duet_rpc.by_name({{{}}})", entries.collect::<Vec<_>>().join(", "))
}

fn param_doc(param: &Param) -> Option<Vec<String>> {
    let mut parts = text::of(param.summary.as_ref(), param.description.as_ref());
    parts.push(text::of_schema(&param.schema));
    let mut lines: Vec<String> =
        parts.concat().into_iter().filter(|line| !line.is_empty()).collect();
    let first = lines.first_mut()?;
    *first = format!("`{}`: {first}", text::line(&param.name));
    Some(lines)
}

/// Arguments of a function, on a line each if there are many.
pub(super) fn arguments_text(arguments: &[String]) -> String {
    let text = arguments.join(", ");
    if text.len() <= 80 {
        text
    } else {
        format!("\n        {},\n    ", arguments.join(",\n        "))
    }
}
