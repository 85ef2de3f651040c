//! Model of an error variant: its code, message and fields.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{DeriveInput, Expr, ExprLit, ExprUnary, Fields, Ident, Lit, Type, UnOp};

use crate::errors::Errors;
use crate::naming::sentence;
use crate::options::{Form, OptionTable, Options, docs};

const VARIANT: OptionTable = OptionTable {
    name: "an error variant",
    options: &[
        ("code", Form::Value),
        ("from", Form::Flag),
        ("internal", Form::Flag),
        ("message", Form::Text),
        ("transparent", Form::Flag),
    ],
    conflicts: CONFLICTS,
};

/// A struct has the options of its one variant, and those of the type.
pub(crate) const STRUCT: OptionTable = OptionTable {
    name: "an error struct",
    options: &[
        ("code", Form::Value),
        ("crate", Form::Text),
        ("from", Form::Flag),
        ("internal", Form::Flag),
        ("message", Form::Text),
        ("no_display", Form::Flag),
        ("transparent", Form::Flag),
    ],
    conflicts: CONFLICTS,
};

const CONFLICTS: &[(&str, &str, &str)] = &[
    ("internal", "code", "an internal error always has the code -32603"),
    ("internal", "message", "an internal error always has the message `Internal error`"),
    ("transparent", "code", "the field says which error it is"),
    ("transparent", "message", "the field says which error it is"),
    ("transparent", "internal", "the field says which error it is"),
    ("code", "from", "only `internal` and `transparent` variants can have `from`"),
];

/// The codes that JSON-RPC reserves, and the range among them that it leaves to applications: -32000 is `Server busy`.
const RESERVED: std::ops::RangeInclusive<i64> = -32768..=-32000;
const FOR_APPLICATIONS: std::ops::RangeInclusive<i64> = -32099..=-32001;

pub(crate) struct Variant {
    pub(crate) ident: Ident,
    /// `MathError::Overflow`, or `Locked` for a struct.
    pub(crate) path: TokenStream,
    pub(crate) docs: String,
    pub(crate) fields: Vec<Field>,
    pub(crate) shape: Shape,
    pub(crate) kind: Kind,
    /// `true` if `?` converts the field into the type.
    pub(crate) is_from: bool,
}

pub(crate) struct Field {
    /// The name of the field, or of a variable for an unnamed field.
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    Named,
    Unnamed,
    Unit,
}

pub(crate) enum Kind {
    Code { code: i64, literal: Expr, message: String },
    Internal,
    Transparent,
}

impl Variant {
    pub(crate) fn from_enum(
        error: &Ident,
        variant: &syn::Variant,
        errors: &mut Errors,
    ) -> Option<Self> {
        let options = Options::from_attrs(&variant.attrs, &VARIANT, errors);
        let ident = &variant.ident;
        let docs = docs(&variant.attrs);
        Variant::new(ident, quote!(#error::#ident), docs, &options, &variant.fields, errors)
    }

    pub(crate) fn from_struct(
        item: &DeriveInput,
        options: &Options,
        fields: &Fields,
        errors: &mut Errors,
    ) -> Option<Self> {
        let ident = &item.ident;
        Variant::new(ident, quote!(#ident), docs(&item.attrs), options, fields, errors)
    }

    fn new(
        ident: &Ident,
        path: TokenStream,
        docs: String,
        options: &Options,
        fields: &Fields,
        errors: &mut Errors,
    ) -> Option<Self> {
        let shape = match fields {
            Fields::Named(_) => Shape::Named,
            Fields::Unnamed(_) => Shape::Unnamed,
            Fields::Unit => Shape::Unit,
        };
        let kind = kind(ident, options, errors)?;
        for field in fields {
            if let Some(attr) = field.attrs.iter().find(|attr| attr.path().is_ident("rpc")) {
                errors.push(attr, "`#[rpc(...)]` goes on the variant, not on its fields");
            }
        }
        let fields: Vec<_> = fields.iter().enumerate().map(field).collect();
        let is_from = options.has("from");
        let wrong = match (&kind, fields.len()) {
            (Kind::Internal, 2..) => Some(
                "an internal error has at most one field, its cause: combine the fields in one type",
            ),
            (Kind::Transparent, count) if count != 1 => {
                Some("a transparent error needs exactly one field, the error that it passes on")
            }
            (_, count) if is_from && count != 1 => Some("`from` needs exactly one field"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            errors.push(ident, wrong);
            return None;
        }
        Some(Variant { ident: ident.clone(), path, docs, fields, shape, kind, is_from })
    }

    /// The pattern that matches the variant with its fields, and the expression that makes it from them.
    pub(crate) fn with_fields(&self) -> TokenStream {
        let path = &self.path;
        let fields = self.fields.iter().map(|field| &field.ident);
        match self.shape {
            Shape::Named => quote!(#path { #(#fields),* }),
            Shape::Unnamed => quote!(#path(#(#fields),*)),
            Shape::Unit => path.clone(),
        }
    }
}

fn field((place, field): (usize, &syn::Field)) -> Field {
    let ident = field.ident.clone();
    let ident = ident.unwrap_or_else(|| format_ident!("field_{place}", span = field.ty.span()));
    Field { ident, ty: field.ty.clone() }
}

fn kind(ident: &Ident, options: &Options, errors: &mut Errors) -> Option<Kind> {
    if options.has("internal") {
        return Some(Kind::Internal);
    }
    if options.has("transparent") {
        return Some(Kind::Transparent);
    }
    let Some(literal) = options.value("code") else {
        let write = format!(
            "`{ident}` needs a code: write `#[rpc(code = 1001)]`, or `#[rpc(internal)]` to hide it \
             from the remote"
        );
        errors.push(ident, write);
        return None;
    };
    let Some(code) = integer(literal) else {
        errors.push(literal, "a code is a whole number, as in `code = 1001`");
        return None;
    };
    if RESERVED.contains(&code) && !FOR_APPLICATIONS.contains(&code) {
        let (first, last) = (FOR_APPLICATIONS.start(), FOR_APPLICATIONS.end());
        let write = format!(
            "JSON-RPC reserves the codes from {} to {}: choose a code outside of them, or one from \
             {first} to {last}",
            RESERVED.start(),
            RESERVED.end()
        );
        errors.push(literal, write);
        return None;
    }
    let message = match options.text("message") {
        Some(text) if text.value().contains('{') => {
            let write = "the message cannot contain fields: remove `{...}`; fields become `data`";
            errors.push(text, write);
            return None;
        }
        Some(text) => text.value(),
        None => sentence(&ident.to_string()),
    };
    Some(Kind::Code { code, literal: literal.clone(), message })
}

fn integer(value: &Expr) -> Option<i64> {
    let (sign, value) = match value {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => ("-", &**expr),
        _ => ("", value),
    };
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) if number.suffix().is_empty() => {
            format!("{sign}{}", number.base10_digits()).parse().ok()
        }
        _ => None,
    }
}
