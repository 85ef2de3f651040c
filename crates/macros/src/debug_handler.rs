//! `#[debug_handler]`: checks of a handler, with errors at the wrong argument or type.
//!
//! A router reports only that a function is not a handler. The macro leaves the function unchanged, and adds
//! functions that are never called. They compile only if the parts of the handler are valid.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, ItemFn, PatType, ReturnType, Signature, Type, parse_quote};

use crate::errors::Errors;
use crate::options::{Form, OptionTable, Options};
use crate::syntax::{last_name, type_arguments};

const FUNCTION: OptionTable =
    OptionTable { name: "`debug_handler`", options: &[("crate", Form::Text)], conflicts: &[] };

/// Arguments that are not params, by the last name of their type.
const EXTRACTORS: [&str; 4] = ["Context", "Method", "Request", "State"];

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(_) => {
            let place = proc_macro2::Span::call_site();
            let write = "`#[debug_handler]` goes on a function: write the handler as a function, or remove the attribute";
            errors.add(syn::Error::new(place, write));
            let errors = errors.into_tokens();
            return quote!(#item #errors);
        }
    };
    let options = Options::parse(options, &FUNCTION, &mut errors);
    let library = options.library(&mut errors);
    let arguments = arguments(&function.sig, &mut errors);
    let checks = match errors.into_tokens() {
        Some(errors) => errors,
        None => checks(&function.sig, &arguments, &library),
    };
    quote!(#function #checks)
}

/// Returns the types of the arguments, and reports types that no handler can take.
fn arguments<'a>(sig: &'a Signature, errors: &mut Errors) -> Vec<&'a Type> {
    if !sig.generics.params.is_empty() {
        let write = "a generic handler cannot be checked: write concrete types";
        errors.push(&sig.generics, write);
    }
    let mut types = Vec::new();
    for input in &sig.inputs {
        let ty = match input {
            FnArg::Typed(PatType { ty, .. }) => &**ty,
            FnArg::Receiver(receiver) => {
                let write =
                    "a handler has no `self`: use `#[duet_rpc::service]` for methods of a type";
                errors.push(receiver, write);
                continue;
            }
        };
        match ty {
            Type::Reference(_) => errors.push(
                ty,
                "a param must be owned, because the handler outlives the message: \
                 write `String` for `&str`, `Vec<T>` for `&[T]`",
            ),
            Type::ImplTrait(_) => {
                errors.push(
                    ty,
                    "a handler needs a type that serde can read: write it instead of `impl`",
                );
            }
            _ => types.push(ty),
        }
    }
    let mut params = types.iter().filter(|ty| is_params(ty));
    if let (Some(_), Some(second)) = (params.next(), params.next()) {
        let write = "a handler has one argument for all params: combine them, as in \
                     `(a, b): (i64, i64)`, or write a struct";
        errors.push(second, write);
    }
    types
}

fn is_params(ty: &Type) -> bool {
    !last_name(ty).is_some_and(|last| EXTRACTORS.iter().any(|name| last == name))
}

fn checks(sig: &Signature, arguments: &[&Type], library: &syn::Path) -> TokenStream {
    let params = arguments
        .iter()
        .filter(|ty| is_params(ty))
        .map(|ty| quote_spanned!(ty.span()=> let _: fn() = #library::__macro::params::<#ty>;));
    let unit: Type = parse_quote!(());
    let output = match &sig.output {
        ReturnType::Default => &unit,
        ReturnType::Type(_, ty) => &**ty,
    };
    let result = result_checks(output, library);
    let handler = &sig.ident;
    let future = sig.asyncness.map(|_| {
        let names: Vec<_> = (0..arguments.len()).map(|place| format_ident!("a{place}")).collect();
        let check =
            quote_spanned!(handler.span()=> #library::__macro::future(#handler(#(#names),*)));
        quote! {
            #[allow(dead_code)]
            fn future(#(#names: #arguments),*) {
                #check;
            }
        }
    });
    quote! {
        const _: () = {
            #[allow(dead_code)]
            fn types() {
                #(#params)*
                #result
            }
            #future
        };
    }
}

/// Checks of the return type. Of a `Result<T, E>`, serde must write `T`, and `E` must convert into a failure. Serde
/// must write any other type.
fn result_checks(output: &Type, library: &syn::Path) -> TokenStream {
    let written =
        |ty: &Type| quote_spanned!(ty.span()=> let _: fn() = #library::__macro::result::<#ty>;);
    if last_name(output).is_none_or(|name| name != "Result") {
        return written(output);
    }
    let mut types = type_arguments(output);
    let ok = types.next().map(written);
    let error = types
        .next()
        .map(|ty| quote_spanned!(ty.span()=> let _: fn() = #library::__macro::failure::<#ty, _>;));
    quote!(#ok #error)
}
