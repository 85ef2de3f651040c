//! Helpers for the syntax of types. A macro sees only the syntax.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericArgument, Ident, PathArguments, Type};

/// The last name in the path of a type: `Option` for `std::option::Option<T>`.
pub(crate) fn last_name(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) if path.qself.is_none() => {
            path.path.segments.last().map(|segment| &segment.ident)
        }
        Type::Group(group) => last_name(&group.elem),
        Type::Paren(paren) => last_name(&paren.elem),
        _ => None,
    }
}

/// Returns `true` if the tokens contain the name.
pub(crate) fn mentions(tokens: impl ToTokens, name: &str) -> bool {
    fn search(tokens: TokenStream, name: &str) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == name,
            TokenTree::Group(group) => search(group.stream(), name),
            _ => false,
        })
    }
    search(tokens.to_token_stream(), name)
}

/// The types in the angle brackets of a type.
pub(crate) fn type_arguments(ty: &Type) -> impl Iterator<Item = &Type> {
    let last = match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    let arguments = match last.map(|last| &last.arguments) {
        Some(PathArguments::AngleBracketed(arguments)) => Some(&arguments.args),
        _ => None,
    };
    arguments.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}
