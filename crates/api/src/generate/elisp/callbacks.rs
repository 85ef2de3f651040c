//! The function that serves methods to the server.

use std::fmt::Write as _;

use super::super::names::Names;
use super::super::text;
use super::methods::{argument_name, documented, wrap};
use super::{ElispWriter, keyword, string};
use crate::model::Method;

impl ElispWriter<'_> {
    /// Writes the function that makes the dispatchers of a connection.
    pub(super) fn callbacks(&mut self) {
        let prefix = self.prefix;
        let mut names = Names::new(&[], "-");
        let methods: Vec<(String, &Method)> = self
            .document
            .client_methods
            .iter()
            .map(|it| (names.pick(&argument_name(&it.name)), it))
            .collect();
        let keys: Vec<String> =
            methods.iter().map(|(name, _)| format!("((:{name} arg-{name}))")).collect();
        let mentioned: Vec<String> = methods.iter().map(|(name, _)| name.to_uppercase()).collect();
        let _ = writeln!(
            self.out,
            "(cl-defun {prefix}-callbacks (&key {})\n  \
             \"Return arguments of `make-instance' that serve methods to the server.\n\
             Each argument is a function of the connection and the params, a plist.\n\
             The functions:{}\"",
            keys.join(" "),
            wrap(&mentioned),
        );
        self.out.push_str(&documented(methods.iter().map(|(name, _)| name.as_str())));
        let _ = writeln!(self.out, "  ({prefix}--callbacks\n   (list");
        for (name, method) in &methods {
            let params: Vec<String> = method.params.iter().map(|it| keyword(&it.name)).collect();
            let params = if method.free_params.is_some() {
                "t".to_owned()
            } else {
                format!("'({})", params.join(" "))
            };
            let kind = if method.is_notification() { "notification" } else { "request" };
            let _ = writeln!(
                self.out,
                "    (list {} '{kind} arg-{name} {params})",
                string(&method.name)
            );
        }
        self.out.push_str("    )))\n");
        let mut parts = Vec::new();
        for (name, method) in &methods {
            let mut part =
                vec![format!("{}: method `{}'", name.to_uppercase(), text::line(&method.name))];
            part.extend(text::of_method(method));
            for param in &method.params {
                part.push(format!(
                    "  {}: {}",
                    text::line(&param.name),
                    text::line(&self.document.type_text(&param.schema))
                ));
            }
            parts.push(part);
        }
        parts.insert(
            0,
            vec![
                "Return arguments of `make-instance' that serve methods to the server.".to_owned(),
            ],
        );
        let doc = text::paragraphs(parts).join("\n");
        let signature: Vec<String> = ["&key".to_owned()].into_iter().chain(mentioned).collect();
        self.put_documentation("callbacks", &doc, &signature);
    }
}
