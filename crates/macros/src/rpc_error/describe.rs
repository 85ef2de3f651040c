//! `DescribeErrors`: generated code that lists the errors of a type for a document.
//!
//! The implementation is generic over the generator of schemas, so its bounds count only where a document asks for the
//! list. Without a document, fields need no schema.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::ErrorType;
use super::variant::{Kind, Shape, Variant};
use crate::naming;

pub(crate) fn item(error: &ErrorType) -> TokenStream {
    let ErrorType { ident, library, variants, .. } = error;
    let bounds: Vec<_> = variants.iter().flat_map(|variant| bounds(error, variant)).collect();
    let statements = variants.iter().map(|variant| match &variant.kind {
        Kind::Internal => TokenStream::new(),
        Kind::Transparent => {
            let ty = &variant.fields[0].ty;
            quote!(__errors.extend(<#ty as #library::__macro::DescribeErrors<__G>>::errors(__generator));)
        }
        Kind::Code { code, message, .. } => {
            let (name, docs) = (naming::plain(&variant.ident), &variant.docs);
            let data = data(error, variant);
            quote! {
                let mut error = #library::__macro::ErrorInfo::new(#code, #message);
                error.name = #name;
                error.docs = #docs;
                #data
                __errors.push(error);
            }
        }
    });
    quote! {
        impl<__G> #library::__macro::DescribeErrors<__G> for #ident
        where
            #(#bounds),*
        {
            #[allow(unused_mut, unused_variables)]
            fn errors(__generator: &mut __G) -> ::std::vec::Vec<#library::__macro::ErrorInfo> {
                let mut __errors = ::std::vec::Vec::new();
                #(#statements)*
                __errors
            }
        }
    }
}

fn bounds(error: &ErrorType, variant: &Variant) -> Vec<TokenStream> {
    let library = &error.library;
    match variant.kind {
        Kind::Internal => Vec::new(),
        Kind::Transparent => {
            let ty = &variant.fields[0].ty;
            vec![quote_spanned!(ty.span()=> #ty: #library::__macro::DescribeErrors<__G>)]
        }
        Kind::Code { .. } => {
            let fields = variant.fields.iter().map(|field| {
                let ty = &field.ty;
                quote_spanned!(ty.span()=> #ty: #library::__macro::HasSchema<__G>)
            });
            fields.collect()
        }
    }
}

/// The statement that sets the schema of the data; nothing for a variant without fields.
fn data(error: &ErrorType, variant: &Variant) -> TokenStream {
    let library = &error.library;
    let schemas = variant.fields.iter().map(|field| {
        let ty = &field.ty;
        quote!(<#ty as #library::__macro::HasSchema<__G>>::schema(__generator))
    });
    let schemas: Vec<_> = schemas.collect();
    let schema = match (variant.shape, &*schemas) {
        (_, []) => return TokenStream::new(),
        (Shape::Named, _) => {
            let names = variant.fields.iter().map(|field| naming::plain(&field.ident));
            quote!(#library::__macro::object_schema([#((#names, #schemas)),*]))
        }
        (_, [one]) => one.clone(),
        _ => quote!(#library::__macro::array_schema([#(#schemas),*])),
    };
    quote!(error.data = ::core::option::Option::Some(#schema);)
}
