//! Arguments of a method: its params, and values from the context.

use syn::{Expr, FnArg, Ident, LitStr, Pat, PatType, Type};

use super::Service;
use crate::errors::Errors;
use crate::naming;
use crate::options::{Form, OptionTable, Options, docs};
use crate::syntax::{Static, borrows, last_name, mentions, type_arguments};

const ARGUMENT: OptionTable = OptionTable {
    name: "a param",
    options: &[
        ("context", Form::Flag),
        ("default", Form::FlagOrValue),
        ("name", Form::Text),
        ("whole", Form::Flag),
    ],
    conflicts: &[
        ("whole", "default", "the params as a whole have no default; take an `Option` instead"),
        ("whole", "name", "the params as a whole have no name"),
        ("context", "default", "this argument is not a param, and always has a value"),
        ("context", "name", "this argument is not a param, and has no name on the wire"),
        ("context", "whole", "this argument is not a param"),
    ],
};

/// An argument of a method besides `&self`.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// `None` for an argument from the context.
    pub(crate) param: Option<Param>,
}

pub(crate) struct Param {
    /// The name on the wire.
    pub(crate) name: String,
    pub(crate) docs: String,
    pub(crate) presence: Presence,
    /// `true` if the argument takes the whole params.
    pub(crate) is_whole: bool,
}

/// The rule for a param that the caller leaves out.
pub(crate) enum Presence {
    Required,
    /// An `Option`: a missing param is `None`, and the client does not write `None`.
    Optional,
    /// A missing param gets this value, or the default of its type.
    Default(Option<Expr>),
}

impl Argument {
    /// Reads an argument, and removes our attributes from it; `None` if the argument is invalid.
    pub(crate) fn new(service: &Service, input: &mut FnArg, errors: &mut Errors) -> Option<Self> {
        let FnArg::Typed(PatType { attrs, pat, ty, .. }) = input else { return None };
        let docs = docs(attrs);
        // The compiler refuses doc comments on arguments.
        attrs.retain(|attr| !attr.path().is_ident("doc"));
        let options = Options::take(attrs, &ARGUMENT, errors);
        if let Some(cfg) = attrs.iter().find(|attr| attr.path().is_ident("cfg")) {
            errors.push(cfg, "a param cannot be left out by `cfg`: write two methods instead");
        }
        let ident = match &**pat {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => pat.ident.clone(),
            _ => {
                let write =
                    "a param needs a name, as in `point: (i64, i64)`: destructure it in the body";
                errors.push(pat, write);
                return None;
            }
        };
        if !check_type(ty, errors) {
            return None;
        }
        if is_context(service, ty) || options.has("context") {
            if let Some(word) = options.ident("default").or(options.ident("whole")) {
                errors.push(word, "this argument comes from the context, and is not a param");
            }
            return Some(Argument { ident, ty: (**ty).clone(), param: None });
        }
        if ident == "params" && !options.has("whole") && !options.has("name") {
            let write = "write `#[rpc(whole)]` if this takes all params, or `#[rpc(name = \"params\")]` if it is one \
                         of them, with the name `params`";
            errors.push(&ident, write);
        }
        if is_option(ty) && type_arguments(ty).next().is_some_and(is_option) {
            let write = "a param that is left out and one that is null are both `None`: write `Option<T>`, or a type \
                         that tells them apart in another way";
            errors.push(&**ty, write);
        }
        let name = match options.text("name") {
            Some(name) => checked_name(name, errors),
            None => service.params_style.apply(&naming::plain(&ident)),
        };
        let presence = match (options.has("default"), options.value("default")) {
            (true, Some(value)) => Presence::Default(Some(value.clone())),
            (true, None) if !is_option(ty) => Presence::Default(None),
            _ if is_option(ty) => Presence::Optional,
            _ => Presence::Required,
        };
        let param = Param { name, docs, presence, is_whole: options.has("whole") };
        Some(Argument { ident, ty: (**ty).clone(), param: Some(param) })
    }
}

fn checked_name(name: &LitStr, errors: &mut Errors) -> String {
    if name.value().is_empty() {
        errors.push(name, "a param needs a name that is not empty");
    }
    name.value()
}

/// Returns `true` if a param can have this type, and reports an error if not.
fn check_type(ty: &Type, errors: &mut Errors) -> bool {
    let sentence = match ty {
        _ if borrows(ty, Static::Refused) => {
            "a param must be owned, because the handler outlives the message: \
             write `String` for `&str`, `Vec<T>` for `&[T]`, `T` for `&T`"
        }
        Type::ImplTrait(_) => {
            "a param needs a type that serde can read: write it instead of `impl`"
        }
        Type::Infer(_) => "a param needs a type that serde can read: write it instead of `_`",
        _ if mentions(ty, "Self") => "write the name of the type instead of `Self`",
        _ => return true,
    };
    errors.push(ty, sentence);
    false
}

/// Returns `true` if an argument of this type comes from the context.
fn is_context(service: &Service, ty: &Type) -> bool {
    let name = last_name(ty);
    name.is_some_and(|name| name == "Context" || Some(name) == service.callbacks_client.as_ref())
}

fn is_option(ty: &Type) -> bool {
    last_name(ty).is_some_and(|name| name == "Option")
}
