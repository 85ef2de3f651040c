//! The methods with what is known of them, and what is told of that.

use std::sync::{Arc, OnceLock};

use duet_rpc::{Failure, Router, quick};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::shape::Shape;

/// The version of the OpenRPC specification that the document is written to.
const OPENRPC: &str = "1.3.2";
/// Our extension of it: the schema of params that have no names.
const FREE_PARAMS: &str = "x-params";

/// What a method is about.
#[derive(Debug)]
pub(super) struct About {
    pub(super) name: &'static str,
    /// For people.
    pub(super) description: &'static str,
    pub(super) params: Params,
    pub(super) result: Shape,
}

/// What a method can be called with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Params {
    /// These, by name or by position.
    Named(&'static [Param]),
    /// Whatever params can be.
    Free,
}

/// A parameter of a method.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) shape: Shape,
    pub(super) is_required: bool,
}

/// Methods, each registered with what it is about.
#[derive(Default)]
pub(super) struct Catalog {
    router: Router,
    entries: Vec<About>,
    pages: Arc<OnceLock<Pages>>,
}

/// What is told of the methods, as JSON.
struct Pages {
    list: Box<RawValue>,
    description: Box<RawValue>,
    discovery: Box<RawValue>,
}

/// One of the pages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Page {
    /// `listMethods`
    List,
    /// `describeMethods`
    Description,
    /// `rpc.discover`
    Discovery,
}

impl Catalog {
    /// Adds a method: `serve` registers its handler under the name that it is given. No handler of ours ever
    /// holds its thread, so all are [`quick`].
    pub(super) fn add(&mut self, about: About, serve: impl FnOnce(Router, &str) -> Router) {
        self.router = serve(std::mem::take(&mut self.router), about.name);
        self.entries.push(about);
    }

    /// Adds a method that tells of the methods.
    pub(super) fn add_page(&mut self, about: About, page: Page) {
        let pages = Arc::clone(&self.pages);
        let tell = move || {
            let page = pages.get().map(|pages| pages.get(page).to_owned());
            page.ok_or_else(|| Failure::internal("the pages are not written"))
        };
        self.add(about, |router, name| router.method(name, quick(tell)));
    }

    /// The methods, ready to be served.
    pub(super) fn into_router(self) -> Router {
        // They are made of text that is known here, and so are JSON.
        if let Ok(pages) = Pages::write(&self.entries) {
            let _ = self.pages.set(pages);
        }
        self.router
    }
}

impl Pages {
    fn write(entries: &[About]) -> serde_json::Result<Pages> {
        #[derive(Serialize)]
        struct Listed {
            name: &'static str,
            description: &'static str,
        }

        #[derive(Serialize)]
        struct Described {
            name: &'static str,
            params: Vec<String>,
            returns: String,
        }

        let list = entries.iter().map(|it| Listed { name: it.name, description: it.description });
        let described = entries.iter().map(|it| Described {
            name: it.name,
            params: it.params.named().iter().map(Param::to_text).collect(),
            returns: it.result.to_string(),
        });
        Ok(Pages {
            list: to_raw_value(&list.collect::<Vec<_>>())?,
            description: to_raw_value(&described.collect::<Vec<_>>())?,
            discovery: to_raw_value(&json!({
                "openrpc": OPENRPC,
                "info": {
                    "title": "duet-rpc",
                    "version": env!("CARGO_PKG_VERSION"),
                    "license": {"name": env!("CARGO_PKG_LICENSE")},
                },
                "methods": entries.iter().map(About::to_openrpc).collect::<Vec<_>>(),
            }))?,
        })
    }

    fn get(&self, page: Page) -> &RawValue {
        match page {
            Page::List => &self.list,
            Page::Description => &self.description,
            Page::Discovery => &self.discovery,
        }
    }
}

impl About {
    fn to_openrpc(&self) -> Value {
        let mut method = json!({
            "name": self.name,
            "summary": self.description,
            "params": self.params.named().iter().map(Param::to_openrpc).collect::<Vec<_>>(),
            "result": {"name": "result", "schema": self.result.schema()},
        });
        if let Params::Free = self.params {
            // OpenRPC can only name params. Without this, a program would take it that there are none.
            method[FREE_PARAMS] = Shape::Params.schema();
        }
        method
    }
}

impl Params {
    fn named(self) -> &'static [Param] {
        match self {
            Params::Named(params) => params,
            Params::Free => &[],
        }
    }
}

impl Param {
    fn to_text(&self) -> String {
        let mark = if self.is_required { "" } else { "?" };
        format!("{}{mark}: {}", self.name, self.shape.type_name())
    }

    fn to_openrpc(&self) -> Value {
        json!({
            "name": self.name,
            "summary": self.description,
            "required": self.is_required,
            "schema": self.shape.schema(),
        })
    }
}
