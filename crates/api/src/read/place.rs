//! A value of the document together with its JSON pointer.

use crate::error::ApiError;
use crate::json::{Json, Members};

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    pub(super) value: &'a Json,
    pub(super) pointer: String,
}

impl<'a> Place<'a> {
    pub(super) fn root(value: &'a Json) -> Self {
        Place { value, pointer: String::new() }
    }

    pub(super) fn error(&self, problem: impl Into<String>) -> ApiError {
        ApiError::new(self.pointer.clone(), problem)
    }

    fn expected(&self, what: &str) -> ApiError {
        self.error(format!("expected {what}, found {}", self.value.kind()))
    }

    /// The kind may be right, and only the number wrong.
    fn expected_number(&self, what: &str) -> ApiError {
        match self.value {
            Json::Number(number) => self.error(format!("expected {what}, found {number}")),
            _ => self.expected(what),
        }
    }

    pub(super) fn child(&self, name: &str, value: &'a Json) -> Self {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        Place { value, pointer: format!("{}/{escaped}", self.pointer) }
    }

    /// The member with this name, if there is one.
    pub(super) fn member(&self, name: &str) -> Option<Self> {
        self.value.get(name).map(|value| self.child(name, value))
    }

    pub(super) fn required(&self, name: &str) -> Result<Self, ApiError> {
        self.member(name).ok_or_else(|| self.error(format!("the member `{name}` is missing")))
    }

    pub(super) fn object(&self) -> Result<&'a Members, ApiError> {
        self.value.as_object().ok_or_else(|| self.expected("an object"))
    }

    pub(super) fn entries(&self) -> Result<Vec<Self>, ApiError> {
        let entries = self.value.as_array().ok_or_else(|| self.expected("an array"))?;
        let place = |(at, value): (usize, &'a Json)| self.child(&at.to_string(), value);
        Ok(entries.iter().enumerate().map(place).collect())
    }

    pub(super) fn text(&self) -> Result<String, ApiError> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.expected("a string"))
    }

    pub(super) fn boolean(&self) -> Result<bool, ApiError> {
        self.value.as_bool().ok_or_else(|| self.expected("true or false"))
    }

    pub(super) fn integer(&self) -> Result<i64, ApiError> {
        let number = self.value.as_number();
        // Some tools write whole numbers as `-32000.0`.
        let whole =
            |number: f64| (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64);
        let value = number.and_then(|it| it.as_i64().or_else(|| it.as_f64().and_then(whole)));
        value.ok_or_else(|| self.expected_number("a whole number"))
    }

    /// A size, such as the value of `maxLength`. Some tools write whole numbers as `3.0`.
    pub(super) fn size(&self) -> Result<u64, ApiError> {
        let number = self.value.as_number();
        let whole = |number: f64| (number.fract() == 0.0 && number >= 0.0).then_some(number as u64);
        let size = number.and_then(|it| it.as_u64().or_else(|| it.as_f64().and_then(whole)));
        size.ok_or_else(|| self.expected_number("a whole number of at least 0"))
    }

    pub(super) fn member_text(&self, name: &str) -> Result<Option<String>, ApiError> {
        self.member(name).map(|it| it.text()).transpose()
    }

    /// A member that is `false` if it is missing.
    pub(super) fn member_flag(&self, name: &str) -> Result<bool, ApiError> {
        self.member(name).map_or(Ok(false), |it| it.boolean())
    }

    pub(super) fn member_size(&self, name: &str) -> Result<Option<u64>, ApiError> {
        self.member(name).map(|it| it.size()).transpose()
    }

    /// Entries of a member that is empty if it is missing.
    pub(super) fn member_entries(&self, name: &str) -> Result<Vec<Self>, ApiError> {
        self.member(name).map_or(Ok(Vec::new()), |it| it.entries())
    }
}
