//! Headers in memory: what a super-frame consists of, and the few changes that are made to frames. A record is the
//! virtio_net header (include/uapi/linux/virtio_net.h) and the frame. Nothing here trusts a length it has not checked.

/// The size of struct virtio_net_hdr.
pub const VNET: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ETHERNET: usize = 14;
const VLAN: usize = 4;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?])))
}

/// The virtio_net header's fields are in the machine's order.
fn vnet_u16(record: &[u8], at: usize) -> usize {
    usize::from(u16::from_ne_bytes([record[at], record[at + 1]]))
}

fn put_u16(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

/// A super-frame's parts, checked to lie within the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Super {
    udp: bool,
    gso_size: usize,
    network: usize,
    transport: usize,
    payload: usize,
}

/// What counts about a record. One that is no super-frame is one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What all its packets take on the wire.
    pub wire_bytes: u32,
    pub packets: u32,
    /// What each of them takes, but for the last, which may be shorter.
    pub packet_bytes: u32,
}

/// The shape of a record.
pub fn shape(record: &[u8]) -> Shape {
    let frame_bytes = record.len() - VNET;
    let size = vnet_u16(record, 4);
    if record[1] & !GSO_ECN == GSO_NONE || size == 0 {
        return Shape { wire_bytes: frame_bytes as u32, packets: 1, packet_bytes: frame_bytes as u32 };
    }
    let headers = match super_frame(record) {
        Some(parts) => parts.payload,
        None => vnet_u16(record, 2).clamp(ETHERNET, frame_bytes),
    };
    let packets = ((frame_bytes.saturating_sub(headers) + size - 1) / size).max(1);
    let wire_bytes = (frame_bytes + (packets - 1) * headers) as u32;
    let packet_bytes = wire_bytes.min((headers + size) as u32);
    Shape { wire_bytes, packets: packets as u32, packet_bytes }
}

/// The network header's offset in a frame: behind at most two VLAN tags. And whether it is IPv6.
fn network(frame: &[u8]) -> Option<(usize, bool)> {
    let mut at = ETHERNET - 2;
    for _ in 0..2 {
        if matches!(u16_at(frame, at)?, 0x8100 | 0x88A8) {
            at += VLAN;
        }
    }
    let v6 = match u16_at(frame, at)? {
        0x0800 => false,
        0x86DD => true,
        _ => return None,
    };
    let start = at + 2;
    let (version, shortest) = if v6 { (6, 40) } else { (4, 20) };
    (frame.get(start)? >> 4 == version && frame.len() >= start + shortest).then_some((start, v6))
}

/// The protocol behind the outermost IP header and its extension headers, and where its header begins.
fn outer_protocol(frame: &[u8], network: usize, v6: bool) -> Option<(u8, usize)> {
    if !v6 {
        return Some((frame[network + 9], network + usize::from(frame[network] & 15) * 4));
    }
    let (mut protocol, mut at) = (frame[network + 6], network + 40);
    // Hop by hop, routing, destination options.
    while matches!(protocol, 0 | 43 | 60) {
        (protocol, at) = (*frame.get(at)?, at + 8 + usize::from(*frame.get(at + 1)?) * 8);
    }
    Some((protocol, at))
}

/// Of a tunnel's super-frame the virtio_net header names the inner transport header: nobody but its sender can cut it.
fn super_frame(record: &[u8]) -> Option<Super> {
    let frame = &record[VNET..];
    let udp = match record[1] & !GSO_ECN {
        GSO_TCPV4 | GSO_TCPV6 => false,
        GSO_UDP_L4 => true,
        _ => return None,
    };
    let (gso_size, transport) = (vnet_u16(record, 4), vnet_u16(record, 6));
    let (network, v6) = network(frame)?;
    let header = if udp { 8 } else { usize::from(frame.get(transport + 12)? >> 4) * 4 };
    let payload = transport + header;
    let fits = record[0] & NEEDS_CSUM != 0
        && outer_protocol(frame, network, v6)? == (if udp { UDP } else { TCP }, transport)
        && header >= if udp { 8 } else { 20 }
        && payload < frame.len();
    (fits && gso_size > 0).then_some(Super { udp, gso_size, network, transport, payload })
}

/// Whether `piece` can cut this record.
pub fn splits(record: &[u8]) -> bool {
    super_frame(record).is_some()
}

/// Whether this record is a super-frame that `piece` cannot cut, and perhaps the kernel neither.
pub fn is_opaque(record: &[u8]) -> bool {
    record[1] & !GSO_ECN != GSO_NONE && !splits(record)
}

/// Writes the packets first..first + count of a super-frame to `out`, as a record of its own; its length.
pub fn piece(record: &[u8], first: usize, count: usize, out: &mut [u8]) -> Option<usize> {
    let parts = super_frame(record)?;
    let frame = &record[VNET..];
    let from = parts.payload + first * parts.gso_size;
    let to = (from + count * parts.gso_size).min(frame.len());
    let len = VNET + parts.payload + to.checked_sub(from).filter(|&n| n > 0)?;
    let out = out.get_mut(..len)?;
    out[..VNET + parts.payload].copy_from_slice(&record[..VNET + parts.payload]);
    out[VNET + parts.payload..].copy_from_slice(&frame[from..to]);
    // The kernel's length of what it had in one piece of memory, which is more than the headers where a frame was short. The
    // kernel refuses a record that is shorter.
    out[2..4].copy_from_slice(&(parts.payload as u16).to_ne_bytes());
    if to - from <= parts.gso_size {
        out[1] = GSO_NONE;
        out[4..6].copy_from_slice(&[0, 0]);
    }
    let last = to == frame.len();
    let body = &mut out[VNET..];
    if !parts.udp {
        let at = parts.transport;
        let sequence = u32::from_be_bytes([body[at + 4], body[at + 5], body[at + 6], body[at + 7]]);
        let sequence = sequence.wrapping_add((first * parts.gso_size) as u32);
        body[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
        body[at + 13] &= if last { 0xFF } else { !FIN_PSH } & if first == 0 { 0xFF } else { !CWR };
    }
    lengths(body, &parts, first);
    Some(len)
}

/// Puts lengths, the IPv4 identification and the checksums' beginnings right in a piece.
fn lengths(frame: &mut [u8], parts: &Super, first: usize) {
    let (network, transport) = (parts.network, parts.transport);
    let segment = frame.len() - transport;
    let v6 = frame[network] >> 4 == 6;
    let (protocol, addresses) = if v6 { (frame[network + 6], 8..40) } else { (frame[network + 9], 12..20) };
    if v6 {
        let behind = frame.len() - network - 40;
        put_u16(frame, network + 4, behind);
    } else {
        let (total, id) = (frame.len() - network, u16_at(frame, network + 4).unwrap_or(0) + first);
        put_u16(frame, network + 2, total);
        put_u16(frame, network + 4, id);
        checksum_ipv4(frame, network);
    }
    if parts.udp {
        put_u16(frame, transport + 4, segment);
    }
    // What is left to the one who completes the checksum: the sum of the pseudo header, not inverted.
    let addresses = &frame[network + addresses.start..network + addresses.end];
    let protocol = if v6 {
        if parts.udp {
            UDP
        } else {
            TCP
        }
    } else {
        protocol
    };
    let pseudo = fold(sum(addresses) + u64::from(protocol) + segment as u64);
    put_u16(frame, transport + if parts.udp { 6 } else { 16 }, usize::from(pseudo));
}

fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let odd = words.remainder().first().map_or(0, |&b| u64::from(b) << 8);
    words.map(|w| u64::from(u16::from_be_bytes([w[0], w[1]]))).sum::<u64>() + odd
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

fn checksum_ipv4(frame: &mut [u8], network: usize) {
    let end = network + usize::from(frame[network] & 15) * 4;
    if end >= network + 20 && end <= frame.len() {
        put_u16(frame, network + 10, 0);
        let value = !fold(sum(&frame[network..end]));
        put_u16(frame, network + 10, usize::from(value));
    }
}

/// Whether the sender of a record speaks ECN: such a packet can be marked.
pub fn markable(record: &[u8]) -> bool {
    network(&record[VNET..]).map_or(false, |(at, v6)| traffic_class(&record[VNET..], at, v6) & 3 != 0)
}

fn traffic_class(frame: &[u8], network: usize, v6: bool) -> u8 {
    if v6 {
        frame[network + 1] >> 4
    } else {
        frame[network + 1]
    }
}

/// Marks a record that is `markable`: congestion experienced.
pub fn mark(record: &mut [u8]) {
    let frame = &mut record[VNET..];
    match network(frame) {
        Some((at, true)) => frame[at + 1] |= 3 << 4,
        Some((at, false)) => {
            frame[at + 1] |= 3;
            checksum_ipv4(frame, at);
        }
        None => (),
    }
}

/// Completes the checksum that was left to the network card, so that what happens next is seen by the receiver.
pub fn complete_checksum(record: &mut [u8]) {
    let (start, offset) = (vnet_u16(record, 6), vnet_u16(record, 8));
    let frame = &mut record[VNET..];
    if start + offset + 2 <= frame.len() {
        let value = match !fold(sum(&frame[start..])) {
            0 => 0xFFFF,
            value => value,
        };
        put_u16(frame, start + offset, usize::from(value));
    }
}

/// Flips one bit of a record's frame, counted from its beginning; the checksum tells.
pub fn corrupt(record: &mut [u8], bit: usize) {
    if record[0] & NEEDS_CSUM != 0 {
        complete_checksum(record);
        record[..VNET].fill(0);
    }
    record[VNET + bit / 8] ^= 1 << (bit % 8);
}

/// Puts a VLAN tag back that the kernel took off. `room` is VLAN bytes of head room and the record, which then fills it.
pub fn insert_vlan(room: &mut [u8], tpid: u16, tci: u16) {
    let macs = VNET + 12;
    room.copy_within(VLAN..VLAN + macs, 0);
    room[macs..macs + 2].copy_from_slice(&tpid.to_be_bytes());
    room[macs + 2..macs + 4].copy_from_slice(&tci.to_be_bytes());
    if room[0] & NEEDS_CSUM != 0 {
        let start = vnet_u16(room, 6) + VLAN;
        room[6..8].copy_from_slice(&(start as u16).to_ne_bytes());
    }
    if room[1] != GSO_NONE {
        let headers = vnet_u16(room, 2) + VLAN;
        room[2..4].copy_from_slice(&(headers as u16).to_ne_bytes());
    }
}

/// How much longer a record becomes by `insert_vlan`.
pub const VLAN_BYTES: usize = VLAN;
