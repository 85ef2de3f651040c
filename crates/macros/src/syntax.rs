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

/// The rule for `&'static T`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Static {
    Allowed,
    Refused,
}

/// Returns `true` if a type contains a reference, or a lifetime other than `'static`.
pub(crate) fn borrows(ty: &Type, rule: Static) -> bool {
    fn search(tokens: TokenStream, rule: Static) -> bool {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let is_borrowed = match token {
                TokenTree::Group(group) => search(group.stream(), rule),
                TokenTree::Punct(mark) if mark.as_char() == '&' => {
                    let is_lifetime = |next: &TokenTree| matches!(next, TokenTree::Punct(mark) if mark.as_char() == '\'');
                    rule == Static::Refused || !tokens.peek().is_some_and(is_lifetime)
                }
                TokenTree::Punct(mark) if mark.as_char() == '\'' => {
                    !matches!(tokens.next(), Some(TokenTree::Ident(name)) if name == "static")
                }
                _ => false,
            };
            if is_borrowed {
                return true;
            }
        }
        false
    }
    search(ty.to_token_stream(), rule)
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
