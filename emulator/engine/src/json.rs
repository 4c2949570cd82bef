//! As much JSON as the control protocol needs: whole numbers only, nesting and length bounded by the caller's line.

use std::fmt;

/// How deep values may nest.
const MAX_DEPTH: usize = 8;

/// A JSON value without fractions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    /// The field of that name of an object.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Map(fields) => fields.iter().find(|(n, _)| n == name).map(|(_, v)| v),
            _ => None,
        }
    }

    pub fn int(&self) -> Option<i128> {
        match self {
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// A whole number from 0 to `most`.
    pub fn uint(&self, most: u64) -> Option<u64> {
        self.int().and_then(|n| u64::try_from(n).ok()).filter(|&n| n <= most)
    }

    pub fn u32(&self) -> Option<u32> {
        self.int().and_then(|n| u32::try_from(n).ok())
    }

    pub fn bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(t) => Some(t),
            _ => None,
        }
    }

    pub fn list(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Value {
        Value::Int(i128::from(n))
    }
}

impl From<u32> for Value {
    fn from(n: u32) -> Value {
        Value::Int(i128::from(n))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_string())
    }
}

/// An object from names and values.
pub fn map(fields: Vec<(&str, Value)>) -> Value {
    Value::Map(fields.into_iter().map(|(n, v)| (n.to_string(), v)).collect())
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(n) => write!(f, "{n}"),
            Value::Text(t) => quote(f, t),
            Value::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
            Value::Map(fields) => {
                f.write_str("{")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { "," })?;
                    quote(f, name)?;
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn quote(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if c < ' ' => write!(f, "\\u{:04x}", c as u32)?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

/// Reads one JSON text. Errors say what was found and at which byte.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
    let value = reader.value(0)?;
    reader.blanks();
    if reader.at < reader.bytes.len() {
        return Err(reader.wrong("something after the end"));
    }
    Ok(value)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn wrong(&self, what: &str) -> String {
        format!("no JSON: {what} at byte {}", self.at)
    }

    fn blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, String> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.wrong("an unknown word"))
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("too deep a nesting"));
        }
        self.blanks();
        match self.bytes.get(self.at) {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => Err(self.wrong("an unknown character")),
            None => Err(self.wrong("the end")),
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        while matches!(self.bytes.get(self.at), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let digits = &self.bytes[start..self.at];
        let text = std::str::from_utf8(digits).unwrap_or("");
        let plain = text.strip_prefix('-').unwrap_or(text);
        if plain.is_empty() || plain.len() > 30 || (plain.len() > 1 && plain.starts_with('0')) {
            return Err(self.wrong("a malformed number"));
        }
        if !plain.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.wrong("a number that is not whole"));
        }
        text.parse().map(Value::Int).map_err(|_| self.wrong("a malformed number"))
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.bytes.get(self.at) {
                None | Some(0..=31) => return Err(self.wrong("an unfinished text")),
                Some(b'"') => break,
                Some(b'\\') => self.escape(&mut out)?,
                Some(&b) => {
                    out.push(b);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        String::from_utf8(out).map_err(|_| self.wrong("no UTF-8"))
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let plain = match self.bytes.get(self.at + 1) {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(&c @ (b'"' | b'\\' | b'/')) => c,
            Some(b'u') => {
                let hex = self.bytes.get(self.at + 2..self.at + 6).and_then(|h| std::str::from_utf8(h).ok());
                let code = hex.and_then(|h| u32::from_str_radix(h, 16).ok()).and_then(char::from_u32);
                let c = code.ok_or_else(|| self.wrong("an unknown escape"))?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                self.at += 6;
                return Ok(());
            }
            _ => return Err(self.wrong("an unknown escape")),
        };
        out.push(plain);
        self.at += 2;
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        while self.another(items.is_empty(), b']')? {
            items.push(self.value(depth + 1)?);
        }
        Ok(Value::List(items))
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        let mut fields: Vec<(String, Value)> = Vec::new();
        while self.another(fields.is_empty(), b'}')? {
            self.blanks();
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err(self.wrong("no name of a field"));
            }
            let name = self.string()?;
            self.blanks();
            if self.bytes.get(self.at) != Some(&b':') {
                return Err(self.wrong("no colon"));
            }
            self.at += 1;
            if fields.iter().any(|(n, _)| *n == name) {
                return Err(self.wrong("a field given twice"));
            }
            fields.push((name, self.value(depth + 1)?));
        }
        Ok(Value::Map(fields))
    }

    /// Steps over the bracket or comma before an item; false at the closing bracket, stepped over too.
    fn another(&mut self, first: bool, close: u8) -> Result<bool, String> {
        if first {
            self.at += 1;
        }
        self.blanks();
        match self.bytes.get(self.at) {
            Some(&b) if b == close => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') if !first => {
                self.at += 1;
                Ok(true)
            }
            Some(_) if first => Ok(true),
            _ => Err(self.wrong("an unfinished list or object")),
        }
    }
}
