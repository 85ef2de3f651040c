//! `#[derive(RpcError)]`: converts enums and structs into JSON-RPC errors, and back.

mod describe;
mod read;
mod variant;
mod write;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Ident, Path};

use self::variant::{Kind, Variant};
use crate::errors::Errors;
use crate::options::{Form, OptionTable, Options};

const ENUM: OptionTable = OptionTable {
    name: "an error enum",
    options: &[("crate", Form::Text), ("no_display", Form::Flag)],
    conflicts: &[],
};

/// A checked error type.
pub(crate) struct ErrorType {
    pub(crate) ident: Ident,
    pub(crate) library: Path,
    pub(crate) variants: Vec<Variant>,
    /// `true` if the user writes `Display` and `Error`.
    pub(crate) has_own_display: bool,
}

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let item: DeriveInput = match syn::parse2(item) {
        Ok(item) => item,
        Err(error) => return error.to_compile_error(),
    };
    let mut errors = Errors::default();
    let made = read_type(&item, &mut errors).map(|error| {
        let (written, read) = (write::items(&error), read::item(&error));
        let described = describe::item(&error);
        quote!(#written #read #described)
    });
    errors.into_tokens().or(made).unwrap_or_default()
}

fn read_type(item: &DeriveInput, errors: &mut Errors) -> Option<ErrorType> {
    if !item.generics.params.is_empty() {
        let write = "an error type cannot be generic, because the remote does not say which type \
                     it means: write the types";
        errors.push(&item.generics, write);
        return None;
    }
    let (options, variants) = match &item.data {
        Data::Enum(data) => {
            let options = Options::from_attrs(&item.attrs, &ENUM, errors);
            let read = data.variants.iter().map(|it| Variant::from_enum(&item.ident, it, errors));
            (options, read.collect::<Vec<_>>())
        }
        Data::Struct(data) => {
            let options = Options::from_attrs(&item.attrs, &variant::STRUCT, errors);
            let variant = Variant::from_struct(item, &options, &data.fields, errors);
            (options, vec![variant])
        }
        Data::Union(data) => {
            let write = "an error is an enum or a struct, because a union does not say which field \
                         it holds: write `enum`";
            errors.push(data.union_token, write);
            return None;
        }
    };
    let variants = variants.into_iter().collect::<Option<Vec<_>>>()?;
    check_codes(&variants, errors);
    Some(ErrorType {
        ident: item.ident.clone(),
        library: options.library(errors),
        variants,
        has_own_display: options.has("no_display"),
    })
}

/// Reports a code that two variants share, because the generated reader could not distinguish them.
fn check_codes(variants: &[Variant], errors: &mut Errors) {
    let mut owners: Vec<(i64, &Ident)> = Vec::new();
    for variant in variants {
        let Kind::Code { code, literal, .. } = &variant.kind else { continue };
        match owners.iter().find(|(other, _)| other == code) {
            Some((_, owner)) => {
                let sentence = format!("{code} is already the code of `{owner}`: choose another");
                errors.push(literal, sentence);
            }
            None => owners.push((*code, &variant.ident)),
        }
    }
}
