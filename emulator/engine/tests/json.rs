//! JSON in and out, and noise.

use longhaul_wire::json::parse;
use longhaul_wire::random::Random;

#[test]
fn what_is_written_is_read_back() {
    let text = r#"{"a":[1,-2,18446744073709551615],"b":{"c":null,"d":true,"e":false},"f":"x\"\\\u0001é","g":[]}"#;
    let value = parse(text).unwrap();
    assert_eq!(value.to_string(), text);
    assert_eq!(value.get("a").unwrap().list().unwrap()[2].uint(u64::MAX), Some(u64::MAX));
}

#[test]
fn what_is_malformed_is_refused() {
    for text in ["", "{", "[1,", "[1 2]", "{\"a\"}", "01", "1.5", "1e9", "nul", "\"", "\"\\x\"", "{}{}", "[,]", "-"] {
        assert!(parse(text).is_err(), "{text}");
    }
    assert!(parse(r#"{"a":1,"a":2}"#).unwrap_err().contains("twice"));
    assert!(parse(&"[".repeat(100_000)).unwrap_err().contains("deep"));
}

#[test]
fn no_noise_makes_it_panic() {
    let mut random = Random::new(5);
    let seed = br#"{"op":"set","outbound":{"delay_ns":1,"rate":[1,2,3]},"x":"\u00e9"}"#;
    for _ in 0..20_000 {
        let mut bytes = seed.to_vec();
        for _ in 0..=random.below(6) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u32() as u8;
        }
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
        if let Ok(value) = parse(&String::from_utf8_lossy(&bytes)) {
            assert_eq!(parse(&value.to_string()), Ok(value));
        }
    }
}
