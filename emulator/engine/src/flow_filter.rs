//! Which packets belong to a flow: the keys of the kernel's flower filter, and how it reads them from a frame
//! (net/sched/cls_flower.c, net/core/flow_dissector.c). Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{json, Map, Value};

use crate::error::Error;
use crate::fields::Fields;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
/// The tag that a filter with a VLAN asks for; a service tag (0x88A8) is none.
const VLAN: u16 = 0x8100;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ETHERNET: usize = 14;
/// The kernel follows so many headers of a packet (MAX_FLOW_DISSECT_HDRS).
const MAX_HEADERS: usize = 15;

/// The addresses of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: u128,
    mask: u128,
    v6: bool,
    bits: u8,
}

impl Network {
    /// From "10.0.0.0/8" or "fd00::/64"; None where it is no network.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, bits) = text.split_once('/')?;
        let (address, bits): (IpAddr, u8) = (address.parse().ok()?, bits.parse().ok()?);
        let width = if address.is_ipv6() { 128 } else { 32 };
        if bits > width {
            return None;
        }
        let mask = if bits == 0 { 0 } else { u128::MAX << (128 - u32::from(bits)) };
        let address = left_aligned(address);
        (address & !mask == 0).then_some(Network { address, mask, v6: width == 128, bits })
    }

    fn has(&self, address: Option<IpAddr>) -> bool {
        address.map_or(false, |one| one.is_ipv6() == self.v6 && left_aligned(one) & self.mask == self.address)
    }

    fn text(&self) -> String {
        let address = match self.v6 {
            true => IpAddr::from(Ipv6Addr::from(self.address)),
            false => IpAddr::from(Ipv4Addr::from((self.address >> 96) as u32)),
        };
        format!("{address}/{}", self.bits)
    }
}

/// An address with its first bit as the first of 128.
fn left_aligned(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// One filter; None is any. A packet must have all that is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// What is in the frame, behind its VLAN tag where `vlan` is said; without `vlan` a tagged frame has another.
    pub ethertype: Option<u16>,
    pub vlan: Option<u16>,
    pub source: Option<Network>,
    pub target: Option<Network>,
    pub protocol: Option<u8>,
    pub source_port: Option<u16>,
    pub target_port: Option<u16>,
    pub dscp: Option<u8>,
}

const KEYS: [&str; 8] = ["ethertype", "vlan", "source", "target", "protocol", "source_port", "target_port", "dscp"];

impl Filter {
    /// As `from_json` reads it; what is any is left out.
    pub fn to_json(&self) -> Value {
        let said = [
            ("ethertype", self.ethertype.map(Value::from)),
            ("vlan", self.vlan.map(Value::from)),
            ("source", self.source.map(|network| json!(network.text()))),
            ("target", self.target.map(|network| json!(network.text()))),
            ("protocol", self.protocol.map(Value::from)),
            ("source_port", self.source_port.map(Value::from)),
            ("target_port", self.target_port.map(Value::from)),
            ("dscp", self.dscp.map(Value::from)),
        ];
        Value::Object(said.into_iter().filter_map(|(key, v)| Some((key.to_string(), v?))).collect::<Map<_, _>>())
    }

    /// Reads a filter. Errors name the key by its path.
    pub fn from_json(value: &Value, path: &str) -> Result<Filter, Error> {
        let fields = Fields::of(value, path, &KEYS)?;
        let network = |name: &str| {
            fields.read(name, "a network such as 10.0.0.0/8", |value| value.as_str().and_then(Network::parse))
        };
        let port = |name: &str| Ok::<_, Error>(fields.uint(name, 65535)?.map(|port| port as u16));
        Ok(Filter {
            ethertype: fields.uint("ethertype", 65535)?.map(|ethertype| ethertype as u16),
            vlan: fields.uint("vlan", 4095)?.map(|vlan| vlan as u16),
            source: network("source")?,
            target: network("target")?,
            protocol: fields.uint("protocol", 255)?.map(|protocol| protocol as u8),
            source_port: port("source_port")?,
            target_port: port("target_port")?,
            dscp: fields.uint("dscp", 63)?.map(|dscp| dscp as u8),
        })
    }

    /// Whether it finds a packet.
    pub fn finds(&self, keys: &Keys) -> bool {
        fn same<T: PartialEq + Copy>(asked: Option<T>, found: Option<T>) -> bool {
            asked.map_or(true, |asked| Some(asked) == found)
        }
        // Where a filter says a VLAN the frame has a customer's tag; where it says none but what is inside, it has none.
        (self.vlan.is_some() || self.ethertype.is_none() || !keys.tagged)
            && same(self.vlan, keys.vlan)
            && same(self.ethertype, Some(keys.ethertype))
            && same(self.protocol, keys.protocol)
            && same(self.dscp, keys.dscp)
            && same(self.source_port, keys.ports.map(|ports| ports.0))
            && same(self.target_port, keys.ports.map(|ports| ports.1))
            && self.source.map_or(true, |network| network.has(keys.source))
            && self.target.map_or(true, |network| network.has(keys.target))
    }
}

/// What the filters look at in a frame. What is cut off or not there is None.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Behind the first tag, if there is one.
    pub ethertype: u16,
    /// Whether there is a tag, of whatever kind.
    pub tagged: bool,
    /// The number of a customer's tag.
    pub vlan: Option<u16>,
    pub source: Option<IpAddr>,
    pub target: Option<IpAddr>,
    pub protocol: Option<u8>,
    pub ports: Option<(u16, u16)>,
    pub dscp: Option<u8>,
}

impl Keys {
    /// Reads a frame, which begins with its Ethernet header.
    pub fn of(frame: &[u8]) -> Keys {
        let mut keys = Keys::default();
        // What is too short for a header leaves the rest unknown.
        let _ = keys.read(frame);
        keys
    }

    fn read(&mut self, frame: &[u8]) -> Option<()> {
        let mut at = ETHERNET;
        self.ethertype = u16_at(frame, 12)?;
        if matches!(self.ethertype, VLAN | 0x88A8) {
            self.tagged = true;
            self.vlan = (self.ethertype == VLAN).then_some(u16_at(frame, at)? & 0xFFF);
            self.ethertype = u16_at(frame, at + 2)?;
            at += 4;
        }
        match self.ethertype {
            IPV4 => self.read_ipv4(frame, at),
            IPV6 => self.read_ipv6(frame, at),
            _ => None,
        }
    }

    fn read_ipv4(&mut self, frame: &[u8], at: usize) -> Option<()> {
        let header = frame.get(at..at + 20)?;
        let length = usize::from(header[0] & 15) * 4;
        if length < 20 {
            return None;
        }
        let address = |from: usize| IpAddr::from([header[from], header[from + 1], header[from + 2], header[from + 3]]);
        (self.source, self.target) = (Some(address(12)), Some(address(16)));
        (self.protocol, self.dscp) = (Some(header[9]), Some(header[1] >> 2));
        // More fragments, or an offset: flower knows a fragment's ports as little as those of the ones behind it.
        if u16_at(header, 6)? & 0x3FFF != 0 {
            return None;
        }
        self.read_ports(frame, at + length)
    }

    fn read_ipv6(&mut self, frame: &[u8], at: usize) -> Option<()> {
        let header = frame.get(at..at + 40)?;
        let address = |from: usize| {
            let bytes: [u8; 16] = header[from..from + 16].try_into().expect("sixteen bytes");
            IpAddr::from(bytes)
        };
        (self.source, self.target) = (Some(address(8)), Some(address(24)));
        self.dscp = Some((header[0] << 4 | header[1] >> 4) >> 2);
        let (mut protocol, mut next) = (header[6], at + 40);
        self.protocol = Some(protocol);
        for _ in 0..MAX_HEADERS {
            match protocol {
                // Hop by hop, routing, destination options.
                0 | 43 | 60 => {
                    let extension = frame.get(next..next + 2)?;
                    protocol = extension[0];
                    next += (usize::from(extension[1]) + 1) * 8;
                }
                // A fragment.
                44 => {
                    self.protocol = Some(*frame.get(next..next + 8)?.first()?);
                    return None;
                }
                _ => return self.read_ports(frame, next),
            }
            self.protocol = Some(protocol);
        }
        None
    }

    fn read_ports(&mut self, frame: &[u8], at: usize) -> Option<()> {
        if matches!(self.protocol, Some(TCP | UDP)) {
            self.ports = Some((u16_at(frame, at)?, u16_at(frame, at + 2)?));
        }
        Some(())
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn ethernet(ethertype: u16, rest: &[u8]) -> Vec<u8> {
        [&[0; 12][..], &ethertype.to_be_bytes(), rest].concat()
    }

    fn tagged(tpid: u16, tci: u16, inner: &[u8]) -> Vec<u8> {
        [&inner[..12], &tpid.to_be_bytes(), &tci.to_be_bytes(), &inner[12..]].concat()
    }

    fn ipv4(protocol: u8, tos: u8, fragment: u16, ports: (u16, u16)) -> Vec<u8> {
        let mut header = vec![0x45, tos, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 1, 0, 2];
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        header.extend([ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat());
        ethernet(IPV4, &header)
    }

    fn ipv6(class: u8, headers: &[(u8, usize)], last: u8, ports: (u16, u16)) -> Vec<u8> {
        let mut packet = vec![0x60 | class >> 4, class << 4, 0, 0, 0, 0, headers.first().map_or(last, |h| h.0), 64];
        packet.extend([[0xFD; 16], [0xFE; 16]].concat());
        for (i, (_, units)) in headers.iter().enumerate() {
            let next = headers.get(i + 1).map_or(last, |h| h.0);
            packet.extend([&[next, *units as u8][..], &vec![0; units * 8 + 6]].concat());
        }
        packet.extend([ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat());
        ethernet(IPV6, &packet)
    }

    fn filter(text: &str) -> Filter {
        Filter::from_json(&serde_json::from_str(text).unwrap(), "").unwrap()
    }

    fn found(text: &str, frame: &[u8]) -> bool {
        filter(text).finds(&Keys::of(frame))
    }

    #[test]
    fn ports_addresses_and_code_points_are_found() {
        let frame = ipv4(TCP, 46 << 2 | 3, 0x4000, (40000, 443));
        for (text, is) in [
            (r#"{"ethertype":2048}"#, true),
            (r#"{"ethertype":34525}"#, false),
            (r#"{"ethertype":2048,"protocol":6,"target_port":443}"#, true),
            (r#"{"ethertype":2048,"protocol":17,"target_port":443}"#, false),
            (r#"{"ethertype":2048,"protocol":6,"source_port":443}"#, false),
            (r#"{"ethertype":2048,"dscp":46}"#, true),
            (r#"{"ethertype":2048,"dscp":47}"#, false),
            (r#"{"ethertype":2048,"source":"10.0.0.0/24","target":"10.1.0.2/32"}"#, true),
            (r#"{"ethertype":2048,"source":"10.1.0.0/24"}"#, false),
            (r#"{"ethertype":2048,"source":"0.0.0.0/0"}"#, true),
            (r#"{"ethertype":2048,"source":"::/0"}"#, false),
        ] {
            assert_eq!(found(text, &frame), is, "{text}");
        }
    }

    #[test]
    fn a_fragment_has_a_protocol_but_no_ports() {
        for (fragment, ports) in [(0x2000, false), (1, false), (0x4000, true)] {
            let frame = ipv4(UDP, 0, fragment, (5, 6));
            assert!(found(r#"{"ethertype":2048,"protocol":17}"#, &frame));
            assert_eq!(found(r#"{"ethertype":2048,"protocol":17,"source_port":5}"#, &frame), ports);
        }
        let frame = ipv6(0, &[(44, 0)], UDP, (5, 6));
        assert!(found(r#"{"ethertype":34525,"protocol":17}"#, &frame));
        assert!(!found(r#"{"ethertype":34525,"protocol":17,"source_port":5}"#, &frame));
    }

    #[test]
    fn headers_of_ipv6_are_followed() {
        let frame = ipv6(34 << 2, &[(0, 0), (43, 2), (60, 1)], TCP, (5, 6));
        assert!(found(r#"{"ethertype":34525,"protocol":6,"target_port":6,"dscp":34,"source":"fdfd::/16"}"#, &frame));
        assert!(!found(r#"{"ethertype":34525,"protocol":0}"#, &frame));
        let endless = ipv6(0, &[(60, 0); 16], TCP, (5, 6));
        assert!(!found(r#"{"ethertype":34525,"protocol":6}"#, &endless));
    }

    #[test]
    fn a_tag_hides_what_is_inside_from_filters_that_do_not_ask_for_it() {
        let inner = ipv4(TCP, 0, 0, (1, 2));
        let one = tagged(VLAN, 3 << 13 | 7, &inner);
        assert!(found(r#"{"vlan":7}"#, &one) && found(r#"{"vlan":7,"ethertype":2048,"protocol":6}"#, &one));
        assert!(
            !found(r#"{"vlan":8}"#, &one) && !found(r#"{"ethertype":2048}"#, &one) && !found(r#"{"vlan":7}"#, &inner)
        );
        assert!(!found(r#"{"vlan":7}"#, &tagged(0x88A8, 7, &inner)));
        let two = tagged(VLAN, 7, &tagged(VLAN, 9, &inner));
        assert!(found(r#"{"vlan":7}"#, &two) && !found(r#"{"vlan":7,"ethertype":2048}"#, &two));
    }

    #[test]
    fn a_filter_is_read_as_it_was_written_and_what_is_wrong_is_named() {
        let full = r#"{"dscp":1,"ethertype":34525,"protocol":6,"source":"fd00::/64","source_port":3,"target":"fd01::1/128","target_port":4,"vlan":5}"#;
        assert_eq!(filter(full).to_json().to_string(), full);
        let wrong = |text: &str| Filter::from_json(&serde_json::from_str(text).unwrap(), "").unwrap_err().to_string();
        assert_eq!(wrong(r#"{"source":"10.0.0.1/8"}"#), r#"source: "10.0.0.1/8" is not a network such as 10.0.0.0/8"#);
        assert_eq!(wrong(r#"{"colour":1}"#), "colour: unknown");
        for text in ["10.0.0.0/33", "10.0.0.0", "x/8", "10.0.0.0/-1", "::/129"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }

    #[test]
    fn no_noise_and_no_cut_makes_it_panic() {
        let mut dice = Random::new(4);
        let frames = [
            ipv4(TCP, 1, 0, (1, 2)),
            ipv6(1, &[(0, 1), (44, 0)], UDP, (1, 2)),
            tagged(VLAN, 1, &ipv4(UDP, 0, 0, (1, 2))),
        ];
        for _ in 0..50_000 {
            let mut frame = frames[dice.below(3) as usize].clone();
            for _ in 0..dice.below(4) {
                let at = dice.below(frame.len() as u64) as usize;
                frame[at] = dice.next_u32() as u8;
            }
            frame.truncate(dice.below(frame.len() as u64 + 1) as usize);
            let _ = Keys::of(&frame);
        }
    }
}
