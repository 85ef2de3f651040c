//! Functions that call methods, with their help.

use std::fmt::Write as _;

use super::super::names::{Names, kebab, words};
use super::super::text;
use super::{ARGUMENTS, ElispWriter, MAX_ARGUMENT, help, keyword, string, symbol};
use crate::model::{Method, Param, ParamStructure};

impl ElispWriter<'_> {
    pub(super) fn method(&mut self, name: &str, method: &Method, names: &mut Names) {
        let prefix = self.prefix;
        let arguments = arguments(method);
        let wire = symbol(&method.name);
        let params = sent_params(method, &arguments).replace("PREFIX", prefix);
        let mut keys: Vec<String> = arguments.iter().map(Keyword::declared).collect();
        let mentioned: Vec<String> = arguments.iter().map(|it| it.name.to_uppercase()).collect();
        let known = documented(arguments.iter().map(|it| it.name.as_str()));
        let is_free = method.free_params.is_some();
        let before = if is_free { " params" } else { "" };
        let about = about_params(is_free, &mentioned);
        if method.is_notification() {
            let keys =
                if keys.is_empty() { String::new() } else { format!(" &key {}", keys.join(" ")) };
            let _ = writeln!(
                self.out,
                "(cl-defun {prefix}-{name} (connection{before}{keys})\n  \
                 \"Send a notification to CONNECTION.{about}\"\n{known}  \
                 (jsonrpc-notify connection {wire}\n                  {params}))",
            );
            self.document_function(name, method, &arguments, &["connection"]);
            return;
        }
        keys.push(format!("(timeout {prefix}-timeout)"));
        let keys = keys.join(" ");
        let errors: Vec<String> = self
            .errors
            .of(method)
            .iter()
            .map(|it| format!("({} . {prefix}-{})", it.spec.code, it.name))
            .collect();
        let errors =
            if errors.is_empty() { "nil".to_owned() } else { format!("'({})", errors.join(" ")) };
        let _ = writeln!(
            self.out,
            "(cl-defun {prefix}-{name} (connection{before} &key {keys})\n  \
             \"Call a method of CONNECTION, and return its result.{about}\n\
             Wait for at most TIMEOUT seconds.\"\n{known}  \
             ({prefix}--call connection {wire}\n   {params}\n   timeout {errors}))",
        );
        self.document_function(name, method, &arguments, &["connection"]);
        let name = names.pick(&format!("{name}-async"));
        let _ = writeln!(
            self.out,
            "(cl-defun {prefix}-{name} (connection success error{before} &key {keys})\n  \
             \"Call a method of CONNECTION, and return the request.\n\
             Later, SUCCESS is called with the result, or ERROR with a condition,\n\
             which is a list of an error symbol and its data.{about}\n\
             After TIMEOUT seconds, the condition is `{prefix}-timeout'.\"\n{known}  \
             ({prefix}--send connection {wire}\n   {params}\n   timeout {errors} success error))",
        );
        self.document_function(&name, method, &arguments, &["connection", "success", "error"]);
    }

    /// Adds the texts of the document to the help of a function.
    fn document_function(
        &mut self,
        name: &str,
        method: &Method,
        arguments: &[Keyword],
        given: &[&str],
    ) {
        let what =
            if method.is_notification() { "Send the notification" } else { "Call the method" };
        let mut parts =
            vec![vec![format!("{what} `{}'.", text::line(&method.name))], text::of_method(method)];
        let keys: Vec<String> = arguments.iter().map(|it| it.name.to_uppercase()).collect();
        let timeout = (!method.is_notification()).then(|| "TIMEOUT".to_owned());
        let mut signature: Vec<String> = given.iter().map(|it| it.to_uppercase()).collect();
        signature.extend(method.free_params.iter().map(|_| "PARAMS".to_owned()));
        if !keys.is_empty() || timeout.is_some() {
            signature.push("&key".to_owned());
        }
        signature.extend(keys.into_iter().chain(timeout));
        let params = method
            .params
            .iter()
            .zip(arguments)
            .map(|(param, argument)| self.param_doc(param, argument));
        parts.extend(params);
        if let Some(result) = &method.result {
            parts.push(vec![format!(
                "Result: {}",
                text::line(&self.document.type_text(&result.schema))
            )]);
        }
        let errors = self.errors.of(method);
        parts.push(
            errors.iter().map(|it| format!("Error: `{}-{}'", self.prefix, it.name)).collect(),
        );
        let doc = text::paragraphs(parts).join("\n");
        self.put_documentation(name, &doc, &signature);
    }

    /// Sets the help of a function. The text with its signature replaces the docstring.
    pub(super) fn put_documentation(&mut self, name: &str, doc: &str, signature: &[String]) {
        let doc = format!("{}\n\n(fn {})", help(doc), signature.join(" "));
        let _ = writeln!(
            self.out,
            "(put '{}-{name} 'function-documentation\n     {})\n",
            self.prefix,
            string(&doc)
        );
    }

    fn param_doc(&self, param: &Param, argument: &Keyword) -> Vec<String> {
        let mut parts = text::of(param.summary.as_ref(), param.description.as_ref());
        parts.push(text::of_schema(&param.schema));
        let mut lines: Vec<String> =
            parts.concat().into_iter().filter(|line| !line.is_empty()).collect();
        let value = text::line(&self.document.type_text(&param.schema));
        lines.insert(0, format!("{}: {value}", argument.name.to_uppercase()));
        lines
    }
}

pub(super) struct Keyword {
    name: String,
    is_required: bool,
}

impl Keyword {
    /// The variable is not called like the keyword: one that is special in Emacs, such as `load-path`, would be changed
    /// for everything that runs during the call.
    fn declared(&self) -> String {
        match self.is_required {
            // A call without it is an error that names it.
            true => {
                format!(
                    "((:{name} arg-{name}) (error \"Missing argument: :{name}\"))",
                    name = self.name
                )
            }
            false => format!("((:{name} arg-{name}) nil has-{name})", name = self.name),
        }
    }
}

/// A comment for `checkdoc`, which does not find arguments in the docstring if they have another name as a variable.
pub(super) fn documented<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!(":{name}")).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("  ;; checkdoc-params: ({})\n", names.join(" ")),
    }
}

/// The keyword arguments of a method.
fn arguments(method: &Method) -> Vec<Keyword> {
    if method.free_params.is_some() {
        return Vec::new();
    }
    let mut names = Names::new(&[ARGUMENTS], "-");
    let mut found = Vec::new();
    for param in &method.params {
        let wanted = argument_name(&param.name);
        found.push(Keyword { name: names.pick(&wanted), is_required: param.is_required });
    }
    found
}

/// The name of a keyword argument, without its colon.
pub(super) fn argument_name(name: &str) -> String {
    let cut: String = kebab(&words(name, "param")).chars().take(MAX_ARGUMENT).collect();
    cut.trim_end_matches('-').to_owned()
}

/// The expression of the params as they are sent.
fn sent_params(method: &Method, arguments: &[Keyword]) -> String {
    if method.free_params.is_some() {
        return "params".to_owned();
    }
    if arguments.is_empty() {
        return "nil".to_owned();
    }
    let mut out = String::from("(append");
    let is_by_position = method.param_structure == ParamStructure::ByPosition;
    for (param, argument) in method.params.iter().zip(arguments) {
        let name = &argument.name;
        let key = if is_by_position { String::new() } else { format!("{} ", keyword(&param.name)) };
        let _ = match (argument.is_required, is_by_position) {
            (true, _) => write!(out, "\n           (list {key}arg-{name})"),
            (false, false) => write!(out, "\n           (when has-{name} (list {key}arg-{name}))"),
            // Params by position: one that is left out before another is null.
            (false, true) => {
                write!(out, "\n           (if has-{name} (list arg-{name}) (list :omitted))")
            }
        };
    }
    out.push(')');
    if is_by_position {
        format!("(PREFIX--by-position {out})")
    } else {
        format!("(or {out} (make-hash-table))")
    }
}

fn about_params(is_free: bool, mentioned: &[String]) -> String {
    if is_free {
        return "\nPARAMS are its params, a plist or a vector.".to_owned();
    }
    if mentioned.is_empty() {
        String::new()
    } else {
        format!("\nIts params are:{}", wrap(mentioned))
    }
}

/// Words as lines of a docstring, with a full stop.
pub(super) fn wrap(words: &[String]) -> String {
    let mut out = String::new();
    let mut width = 14;
    for (at, word) in words.iter().enumerate() {
        let end = if at + 1 == words.len() { "." } else { "," };
        if width + word.len() > 70 {
            out.push('\n');
            width = 0;
        } else {
            out.push(' ');
        }
        width += word.len() + 2;
        out.push_str(word);
        out.push_str(end);
    }
    out
}
