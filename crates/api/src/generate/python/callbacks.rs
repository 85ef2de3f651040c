//! Methods that the server calls.

use std::fmt::Write as _;

use super::super::names::{Names, snake, words};
use super::methods::{arguments_text, method_names};
use super::reserved::{ARGUMENTS, KEYWORDS, RESERVED};
use super::{PythonWriter, docstring, string};
use crate::model::Method;

impl PythonWriter<'_> {
    pub(super) fn callbacks(&mut self, callbacks: &str) {
        let document = self.document;
        let mut methods = String::new();
        for (name, method) in method_names(&document.client_methods) {
            let place = format!("{callbacks}_{name}");
            let arguments = self.arguments(method, &place);
            let result = method.result.as_ref().map(|it| self.result(&it.schema, &place));
            let mut signature = vec!["self".to_owned()];
            if method.free_params.is_none() && !arguments.is_empty() {
                signature.push("*".to_owned());
            }
            // The server leaves out what it does not send, and the default says so.
            signature.extend(arguments.iter().map(|it| it.declared.clone()));
            let _ = writeln!(
                methods,
                "\n    async def {name}({}) -> {}:",
                arguments_text(&signature),
                result.as_deref().unwrap_or("None"),
            );
            docstring(&mut methods, 8, &self.method_doc(method));
            methods.push_str("        ...\n");
        }
        let base = self.typing("Protocol");
        let _ = writeln!(self.out, "\n\nclass {callbacks}({base}):");
        docstring(
            &mut self.out,
            4,
            &["Methods that the server calls. A `RemoteError` that one raises is sent as it is."
                .to_owned()],
        );
        self.out.push_str(&methods);
    }

    pub(super) fn serve(&mut self, callbacks: &str) {
        let any = self.typing("Any");
        let _ = writeln!(self.out, "\n    def serve(self, callbacks: {callbacks}) -> None:");
        docstring(&mut self.out, 8, &["Serve methods to the server.".to_owned()]);
        for (at, (name, method)) in
            method_names(&self.document.client_methods).into_iter().enumerate()
        {
            let kind = if method.is_notification() { "notification" } else { "request" };
            let wire = string(&method.name);
            let call = match &method.free_params {
                Some(_) => format!("callbacks.{name}(params)"),
                None if method.params.is_empty() => format!("callbacks.{name}()"),
                None => format!(
                    "callbacks.{name}(**duet_rpc.arguments(params, {}))",
                    wire_names(method)
                ),
            };
            let argument = if method.free_params.is_none() && method.params.is_empty() {
                "_params"
            } else {
                "params"
            };
            let _ = writeln!(
                self.out,
                "\n        async def _serve_{at}({argument}: {any}) -> {any}:\n            return await {call}\n\n        \
                 self._peer.on_{kind}({wire}, _serve_{at})",
            );
        }
    }
}

/// The params of a callback: the name on the wire, the name of the argument, and whether it is required.
fn wire_names(method: &Method) -> String {
    let mut names = Names::new(&[KEYWORDS, RESERVED, ARGUMENTS], "_");
    let entries = method.params.iter().map(|param| {
        let name = names.pick(&snake(&words(&param.name, "param")));
        let is_required = if param.is_required { "True" } else { "False" };
        format!("({}, {}, {is_required}),", string(&param.name), string(&name))
    });
    format!("({})", entries.collect::<Vec<_>>().join(" "))
}
