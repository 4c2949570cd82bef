//! Reads the fields of a JSON object; every error names the field by its path.

use serde_json::{Map, Value};

use crate::error::Error;

/// An object that has only known fields.
pub struct Fields<'a> {
    path: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The object at `path`, "" for the whole message. An unknown field is an error.
    pub fn of(value: &'a Value, path: &'a str, known: &[&str]) -> Result<Fields<'a>, Error> {
        let map = match value {
            Value::Object(map) => map,
            other => return Err(invalid(path, other, "an object")),
        };
        let fields = Fields { path, map };
        match map.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(Error::Unknown(fields.path_of(name))),
            None => Ok(fields),
        }
    }

    /// The path of one of the fields.
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_string()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// A field as it is, if it is there and not null.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// A field that must be there.
    pub fn needed(&self, name: &str) -> Result<&'a Value, Error> {
        self.value(name).ok_or_else(|| Error::Missing(self.path_of(name)))
    }

    /// What `read` makes of a field, if it is there.
    pub fn read<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let value = match self.value(name) {
            Some(value) => value,
            None => return Ok(None),
        };
        read(value).map(Some).ok_or_else(|| invalid(&self.path_of(name), value, expected))
    }

    /// A whole number within 0..=most, if it is there.
    pub fn uint(&self, name: &str, most: u64) -> Result<Option<u64>, Error> {
        let expected = format!("a whole number within 0..{most}");
        self.read(name, &expected, |value| value.as_u64().filter(|&number| number <= most))
    }

    /// A whole number that must be there.
    pub fn needed_uint(&self, name: &str, most: u64) -> Result<u64, Error> {
        self.uint(name, most)?.ok_or_else(|| Error::Missing(self.path_of(name)))
    }

    /// A number of 32 bits; 0 where it is not there.
    pub fn u32(&self, name: &str) -> Result<u32, Error> {
        Ok(self.uint(name, u64::from(u32::MAX))?.unwrap_or(0) as u32)
    }

    /// True or false; false where it is not there.
    pub fn bool(&self, name: &str) -> Result<bool, Error> {
        Ok(self.read(name, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    /// A list of `count` numbers of 32 bits, if it is there.
    pub fn u32_list<const N: usize>(&self, name: &str) -> Result<Option<[u32; N]>, Error> {
        let expected = format!("a list of {N} whole numbers within 0..{}", u32::MAX);
        self.read(name, &expected, |value| {
            let items =
                value.as_array()?.iter().map(|item| item.as_u64().and_then(|number| u32::try_from(number).ok()));
            items.collect::<Option<Vec<u32>>>()?.try_into().ok()
        })
    }

    /// What stands in a list, each with its path; nothing where it is not there.
    pub fn list(&self, name: &str) -> Result<Vec<(String, &'a Value)>, Error> {
        let items = self.read(name, "a list", Value::as_array)?;
        let path = self.path_of(name);
        Ok(items.into_iter().flatten().enumerate().map(|(i, item)| (format!("{path}[{i}]"), item)).collect())
    }
}

/// The error of a field that is not what was expected; a long value is cut.
fn invalid(path: &str, found: &Value, expected: &str) -> Error {
    let mut found = found.to_string();
    if found.chars().count() > 60 {
        found = found.chars().take(57).chain("...".chars()).collect();
    }
    Error::Invalid { path: path.to_string(), found, expected: expected.to_string() }
}
