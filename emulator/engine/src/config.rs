//! A lane as it is asked for, and its form in JSON.

use serde_json::{json, Value};

use crate::error::Error;
use crate::fields::Fields;
use crate::settings::DirectionSettings;

/// The directions by name: to the site, and from it.
pub const DIRECTIONS: [&str; 2] = ["outbound", "inbound"];

/// A lane: its two ports, its bridge, and what each direction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub hub: String,
    pub site: String,
    pub bridge: String,
    /// Whether the bridge passes frames on, unimpaired, when the engine dies.
    pub pass_on_failure: bool,
    pub directions: [DirectionSettings; 2],
    /// With so many processors left to others, each direction has one of its own.
    pub spare_processors: u64,
}

/// Enough for what comes in and goes out beside the engine. Where there are no more than these, threads that are bound to
/// them move less, not more.
const SPARE_PROCESSORS: u64 = 2;
const KNOWN: [&str; 7] = ["hub", "site", "bridge", "on_failure", "outbound", "inbound", "spare_processors"];

impl Config {
    /// Reads a lane. Errors name the field by its path.
    pub fn from_json(value: &Value) -> Result<Config, Error> {
        let fields = Fields::of(value, "", &KNOWN)?;
        let word = |name: &str| {
            let text =
                fields.read(name, "an interface's name", |v| v.as_str().filter(|t| (1..16).contains(&t.len())))?;
            text.map(str::to_string).ok_or_else(|| Error::Missing(name.to_string()))
        };
        let on_failure = fields.read("on_failure", "cut or pass", |v| match v.as_str() {
            Some("pass") => Some(true),
            Some("cut") => Some(false),
            _ => None,
        })?;
        Ok(Config {
            pass_on_failure: on_failure.ok_or_else(|| Error::Missing("on_failure".to_string()))?,
            hub: word("hub")?,
            site: word("site")?,
            bridge: word("bridge")?,
            directions: directions_of(&fields)?,
            spare_processors: fields.uint("spare_processors", 1024)?.unwrap_or(SPARE_PROCESSORS),
        })
    }

    /// As `from_json` reads it.
    pub fn to_json(&self) -> Value {
        json!({
            "hub": self.hub,
            "site": self.site,
            "bridge": self.bridge,
            "on_failure": if self.pass_on_failure { "pass" } else { "cut" },
            "outbound": self.directions[0].to_json(),
            "inbound": self.directions[1].to_json(),
            "spare_processors": self.spare_processors,
        })
    }
}

/// Both directions of a lane or of a request.
pub fn directions_of(fields: &Fields) -> Result<[DirectionSettings; 2], Error> {
    let read = |name: &str| DirectionSettings::from_json(fields.needed(name)?, &fields.path_of(name));
    Ok([read(DIRECTIONS[0])?, read(DIRECTIONS[1])?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Error> {
        Config::from_json(&serde_json::from_str(text)?)
    }

    #[test]
    fn a_lane_is_read_as_it_was_written() {
        let one = DirectionSettings { memory_bytes: 4, ..DirectionSettings::default() };
        let config = Config {
            hub: "a".into(),
            site: "b".into(),
            bridge: "c".into(),
            pass_on_failure: true,
            directions: [one.clone(), one],
            spare_processors: 7,
        };
        assert_eq!(parse(&config.to_json().to_string()).unwrap(), config);
    }

    #[test]
    fn what_is_wrong_with_a_lane_is_named() {
        let wrong = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(wrong("{}"), "on_failure: missing");
        assert_eq!(wrong(r#"{"on_failure":"stop"}"#), "on_failure: \"stop\" is not cut or pass");
        assert_eq!(wrong(r#"{"on_failure":"cut"}"#), "hub: missing");
        assert_eq!(wrong(r#"{"on_failure":"cut","hub":7}"#), "hub: 7 is not an interface's name");
        assert_eq!(wrong(r#"{"colour":1}"#), "colour: unknown");
        let bad = r#"{"on_failure":"cut","hub":"a","site":"b","bridge":"c","outbound":{"memory_bytes":-1}}"#;
        assert_eq!(wrong(bad), "outbound.memory_bytes: -1 is not a whole number within 0..1099511627776");
        assert!(wrong("{").starts_with("not JSON: EOF while parsing"));
    }
}
