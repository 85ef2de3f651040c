//! Model of a method: its checked signature and options.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, Ident, LitStr, Receiver, ReceiverKind, ReturnType, Safety, Signature, Type,
    parse_quote_spanned,
};

use super::Service;
use super::param::{Argument, Presence};
use crate::errors::Errors;
use crate::naming;
use crate::options::{Form, OptionTable, Options, docs};
use crate::syntax::{Static, borrows, last_name, mentions, type_arguments};

pub(crate) const METHOD: OptionTable = OptionTable {
    name: "a method",
    options: &[
        ("aliases", Form::Texts),
        ("blocking", Form::Flag),
        ("deprecated", Form::Text),
        ("idempotent", Form::Flag),
        ("name", Form::Text),
        ("notification", Form::Flag),
        ("positional", Form::Flag),
        ("quick", Form::Flag),
        ("shutdown", Form::Flag),
        ("since", Form::Text),
        ("skip", Form::Flag),
    ],
    conflicts: &[
        ("blocking", "quick", "a quick handler never blocks its thread"),
        ("skip", "name", "a method that is not served has no name on the wire"),
        ("skip", "aliases", "a method that is not served has no name on the wire"),
        ("skip", "notification", "a method that is not served cannot be called"),
    ],
};

pub(crate) struct Method {
    pub(crate) ident: Ident,
    /// The name on the wire.
    pub(crate) name: LitStr,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) docs: String,
    pub(crate) doc_attrs: Vec<Attribute>,
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) returns: Returns,
    pub(crate) is_async: bool,
    pub(crate) is_notification: bool,
    /// `true` if the client sends params by position.
    pub(crate) is_positional: bool,
    pub(crate) is_idempotent: bool,
    pub(crate) pace: Pace,
    /// `true` if the arrival of the message closes the connection.
    pub(crate) closes: bool,
    pub(crate) deprecated: Option<LitStr>,
    pub(crate) since: Option<LitStr>,
}

#[derive(Clone, Copy)]
pub(crate) enum Pace {
    Measured,
    Quick,
    Blocking,
}

/// The return type of a method, as far as its syntax shows it.
pub(crate) struct Returns {
    /// The whole type; `()` if there is none.
    pub(crate) ty: Type,
    /// The `T` of a `Result<T, E>`.
    pub(crate) ok: Option<Type>,
    /// The `E` of a `Result<T, E>`, unless an alias hides it.
    pub(crate) error: Option<Type>,
}

impl Returns {
    /// The type of the result on the wire.
    pub(crate) fn result(&self) -> &Type {
        self.ok.as_ref().unwrap_or(&self.ty)
    }
}

impl Method {
    /// Reads a method, and removes our attributes from its arguments; `None` if the method is invalid.
    pub(crate) fn new(
        service: &Service,
        attrs: &[Attribute],
        options: &Options,
        sig: &mut Signature,
        errors: &mut Errors,
    ) -> Option<Self> {
        check_signature(sig, errors);
        let inputs = sig.inputs.iter_mut().filter(|input| matches!(input, FnArg::Typed(_)));
        let arguments: Vec<_> = inputs.map(|input| Argument::new(service, input, errors)).collect();
        let arguments = arguments.into_iter().collect::<Option<Vec<_>>>()?;
        let returns = returns(&sig.output, service.has_client, errors)?;
        if !service.has_client
            && let Some(word) = options.ident("positional")
        {
            errors.push(
                word,
                "`positional` is an option of the client, and an `impl` block has no client",
            );
        }
        let of_kind = |name: &str| {
            let found = attrs.iter().filter(|attr| attr.path().is_ident(name));
            found.cloned().collect::<Vec<_>>()
        };
        let method = Method {
            name: wire_name(service, options, &sig.ident),
            aliases: options.texts("aliases"),
            docs: docs(attrs),
            doc_attrs: of_kind("doc"),
            cfgs: of_kind("cfg"),
            arguments,
            returns,
            is_async: sig.asyncness.is_some(),
            is_notification: options.has("notification"),
            is_positional: service.is_positional || options.has("positional"),
            is_idempotent: options.has("idempotent"),
            pace: match (options.has("blocking"), options.has("quick")) {
                (true, _) => Pace::Blocking,
                (_, true) => Pace::Quick,
                _ => Pace::Measured,
            },
            closes: options.has("shutdown"),
            deprecated: options.text("deprecated").cloned(),
            since: options.text("since").cloned(),
            ident: sig.ident.clone(),
        };
        method.check_params(errors);
        method.check_notification(errors);
        Some(method)
    }

    /// The params with their arguments, in order.
    pub(crate) fn params(&self) -> impl Iterator<Item = (&Argument, &super::param::Param)> {
        self.arguments.iter().filter_map(|it| it.param.as_ref().map(|param| (it, param)))
    }

    /// The argument that takes the whole params.
    pub(crate) fn whole(&self) -> Option<&Argument> {
        self.params().find(|(_, param)| param.is_whole).map(|(argument, _)| argument)
    }

    fn check_params(&self, errors: &mut Errors) {
        if let Some(whole) = self.whole()
            && self.params().count() > 1
        {
            let write = "`whole` takes all params: make this the only param, or remove `whole`";
            errors.push(&whole.ident, write);
        }
        let mut names = Vec::new();
        let mut default = None;
        for (argument, param) in self.params() {
            if names.contains(&&param.name) {
                let name = &param.name;
                errors.push(&argument.ident, format!("there is another param named `{name}`"));
            }
            names.push(&param.name);
            match (&param.presence, default) {
                (Presence::Default(_), None) => default = Some(argument),
                (Presence::Required, Some(before)) if self.is_positional => errors.push(
                    &before.ident,
                    format!(
                        "with positional params, a param with a default must come after `{}`, which is \
                         required: put it last",
                        argument.ident
                    ),
                ),
                _ => {}
            }
        }
    }

    fn check_notification(&self, errors: &mut Errors) {
        let is_unit = matches!(self.returns.result(), Type::Tuple(tuple) if tuple.elems.is_empty());
        if self.is_notification && !is_unit {
            let write = "a notification is never answered: return nothing or `Result<(), E>`, \
                         or remove `notification`";
            errors.push(&self.returns.ty, write);
        }
    }
}

fn wire_name(service: &Service, options: &Options, ident: &Ident) -> LitStr {
    if let Some(name) = options.text("name") {
        return name.clone();
    }
    let name = service.methods_style.apply(&naming::plain(ident));
    let prefix = service.prefix.as_ref().map(LitStr::value).unwrap_or_default();
    LitStr::new(&format!("{prefix}{name}"), ident.span())
}

fn check_signature(sig: &Signature, errors: &mut Errors) {
    match sig.receiver() {
        Some(receiver) => check_receiver(receiver, errors),
        None => errors.push(
            &sig.ident,
            "a method of a service takes `&self`: add it, or mark the function `#[rpc(skip)]`",
        ),
    }
    if !sig.generics.params.is_empty() {
        let write = "a method of a service cannot be generic, because a message does not say which \
                     type it means: write a concrete type";
        errors.push(&sig.generics, write);
    }
    if let Some(clause) = &sig.generics.where_clause {
        errors.push(clause, "a method of a service cannot have a `where` clause: remove it");
    }
    let odd = [
        sig.constness.map(|it| it.to_token_stream()),
        matches!(sig.safety, Safety::Unsafe(_)).then(|| sig.safety.to_token_stream()),
        sig.abi.as_ref().map(ToTokens::to_token_stream),
        sig.variadic.as_ref().map(ToTokens::to_token_stream),
    ];
    for odd in odd.into_iter().flatten() {
        errors.push(&odd, format!("a method of a service is a plain function: remove `{odd}`"));
    }
}

fn check_receiver(receiver: &Receiver, errors: &mut Errors) {
    let write = match &receiver.kind {
        ReceiverKind::Reference(_, None, None) => return,
        ReceiverKind::Reference(_, _, Some(_)) => {
            "methods run concurrently: write `&self`, and keep mutable state in a `Mutex` or an atomic"
        }
        ReceiverKind::Reference(_, Some(_), None) => "write `&self`, without a lifetime",
        _ => "all calls share the service: write `&self`",
    };
    errors.push(receiver, write);
}

/// Reads the return type; `None` if it is invalid.
fn returns(output: &ReturnType, has_client: bool, errors: &mut Errors) -> Option<Returns> {
    let ty = match output {
        ReturnType::Default => {
            let ty = parse_quote_spanned!(output.span()=> ());
            return Some(Returns { ty, ok: None, error: None });
        }
        ReturnType::Type(_, ty) => (**ty).clone(),
    };
    let is_result = last_name(&ty).is_some_and(|name| name == "Result");
    let mut types = is_result.then(|| type_arguments(&ty)).into_iter().flatten();
    let returns =
        Returns { ok: types.next().cloned(), error: types.next().cloned(), ty: ty.clone() };
    if is_result && returns.ok.is_none() {
        errors.push(&ty, "write the types of the result, as in `Result<T, E>`");
        return None;
    }
    let result = returns.result();
    let sentence = match result {
        Type::ImplTrait(_) => {
            "a result needs a type that serde can write: write it instead of `impl`"
        }
        _ if has_client && borrows(result, Static::Refused) => {
            "the client cannot receive a reference: write `String` for `&str`, `T` for `&T`"
        }
        _ if borrows(result, Static::Allowed) => {
            "a result must be owned, because it outlives the handler: write `String` for `&str`, `T` for `&T`"
        }
        _ if mentions(&returns.ty, "Self") => "write the name of the type instead of `Self`",
        _ => return Some(returns),
    };
    errors.push(result, sentence);
    None
}

impl Pace {
    /// Wraps the handler in `quick` or `blocking`, according to the pace.
    pub(crate) fn mark(self, library: &syn::Path, handler: &TokenStream) -> TokenStream {
        match self {
            Pace::Measured => handler.clone(),
            Pace::Quick => quote!(#library::quick(#handler)),
            Pace::Blocking => quote!(#library::blocking(#handler)),
        }
    }
}
