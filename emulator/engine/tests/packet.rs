//! Super-frames cut and put together again, marks, flipped bits, VLAN tags; and noise in the place of frames.

use longhaul_wire::packet::*;
use longhaul_wire::random::Random;

const SIZE: usize = 1448;

/// A record as the kernel hands it over: a TCP super-frame of `payload` bytes, its checksum left to the network card.
fn super_frame(v6: bool, vlan: bool, payload: usize) -> Vec<u8> {
    let network = if vlan { 18 } else { 14 };
    let transport = network + if v6 { 40 } else { 20 };
    let mut frame = vec![0_u8; transport + 32 + payload];
    if vlan {
        frame[12..16].copy_from_slice(&[0x81, 0, 0, 7]);
    }
    frame[network - 2..network].copy_from_slice(if v6 { &[0x86, 0xDD] } else { &[8, 0] });
    let total = frame.len() - network;
    if v6 {
        frame[network] = 0x60;
        frame[network + 1] = 0x20;
        frame[network + 4..network + 6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
        frame[network + 6] = 6;
        frame[network + 8..network + 40].iter_mut().enumerate().for_each(|(i, b)| *b = i as u8 * 7);
    } else {
        frame[network..network + 12].copy_from_slice(&[0x45, 2, 0, 0, 0xFF, 0xFE, 0x40, 0, 64, 6, 0, 0]);
        frame[network + 2..network + 4].copy_from_slice(&(total as u16).to_be_bytes());
        frame[network + 12..network + 20].copy_from_slice(&[10, 9, 9, 1, 10, 9, 9, 2]);
    }
    frame[transport + 4..transport + 8].copy_from_slice(&0xFFFF_F000_u32.to_be_bytes());
    frame[transport + 12] = 0x80;
    frame[transport + 13] = 0x98; // CWR, PSH, ACK
    frame[transport + 32..].iter_mut().enumerate().for_each(|(i, b)| *b = (i * 31 % 251) as u8);
    let mut record = vec![1, if v6 { 4 } else { 1 }];
    for field in [transport + 32, SIZE, transport, 16] {
        record.extend_from_slice(&(field as u16).to_ne_bytes());
    }
    record.extend_from_slice(&frame);
    record
}

fn cut(record: &[u8], first: usize, count: usize) -> Vec<u8> {
    let mut out = vec![0; 70_000];
    let len = piece(record, first, count, &mut out).unwrap();
    out.truncate(len);
    out
}

/// Adds 16-bit words up, as RFC 1071 does.
fn sum(bytes: &[u8]) -> u32 {
    let mut sum = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |&b| u32::from(b))).sum::<u32>();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum
}

/// Whether IPv4's and TCP's checksums, once completed, and the lengths are right; by arithmetic of our own.
fn is_sound(record: &[u8]) -> bool {
    let mut record = record.to_vec();
    complete_checksum(&mut record);
    let frame = &record[VNET..];
    let network = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
    let v6 = frame[network] >> 4 == 6;
    let (transport, addresses) = if v6 { (network + 40, 8..40) } else { (network + 20, 12..20) };
    let said = u16::from_be_bytes(if v6 {
        [frame[network + 4], frame[network + 5]]
    } else {
        [frame[network + 2], frame[network + 3]]
    });
    let length = frame.len() - if v6 { transport } else { network };
    let pseudo = sum(&frame[network + addresses.start..network + addresses.end]) + 6 + (frame.len() - transport) as u32;
    let total = sum(&frame[transport..]) + pseudo;
    let ip = v6 || sum(&frame[network..transport]) == 0xFFFF;
    usize::from(said) == length && ip && (total & 0xFFFF) + (total >> 16) == 0xFFFF
}

#[test]
fn a_super_frame_counts_all_its_headers_on_the_wire() {
    let record = super_frame(false, false, 10 * SIZE + 1);
    let wire_bytes = (record.len() - VNET + 10 * 66) as u32;
    assert_eq!(shape(&record), Shape { wire_bytes, packets: 11, packet_bytes: SIZE as u32 + 66 });
    assert_eq!(shape(&cut(&record, 10, 1)), Shape { wire_bytes: 67, packets: 1, packet_bytes: 67 });
}

#[test]
fn pieces_are_sound_and_together_they_are_the_whole() {
    let mut dice = Random::new(1);
    for round in 0..200 {
        let (v6, vlan) = (round % 2 == 0, round % 3 == 0);
        let whole = super_frame(v6, vlan, 1 + dice.below(60_000) as usize);
        let (headers, packets) = (u16::from_ne_bytes([whole[2], whole[3]]) as usize, shape(&whole).packets as usize);
        let transport = u16::from_ne_bytes([whole[6], whole[7]]) as usize;
        let (mut first, mut body) = (0, Vec::new());
        while first < packets {
            let count = 1 + dice.below((packets - first) as u64) as usize;
            let part = cut(&whole, first, count);
            assert!(is_sound(&part), "{v6} {vlan} {first} {count}");
            assert_eq!(shape(&part).packets as usize, count);
            let tcp = &part[VNET + transport..];
            let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
            assert_eq!(sequence, 0xFFFF_F000_u32.wrapping_add((first * SIZE) as u32));
            let last = first + count == packets;
            assert_eq!(tcp[13], 0x10 | if first == 0 { 0x80 } else { 0 } | if last { 8 } else { 0 });
            body.extend_from_slice(&part[VNET + headers..]);
            first += count;
        }
        assert_eq!(body, whole[VNET + headers..]);
    }
}

#[test]
fn a_piece_says_how_long_its_own_headers_are() {
    // A short super-frame stands in one piece of the kernel's memory, all of which it calls headers.
    let mut whole = super_frame(false, false, 2 * SIZE);
    let len = whole.len() - VNET;
    whole[2..4].copy_from_slice(&(len as u16).to_ne_bytes());
    for (first, count) in [(0, 1), (1, 1), (0, 2)] {
        let part = cut(&whole, first, count);
        assert_eq!(usize::from(u16::from_ne_bytes([part[2], part[3]])), 14 + 20 + 32);
    }
}

#[test]
fn only_what_is_transported_by_the_outer_header_is_cut() {
    let whole = super_frame(true, false, 3000);
    assert!(splits(&whole) && !is_opaque(&whole));
    let mut tunnel = whole.clone();
    tunnel[VNET + 14 + 6] = 4;
    assert!(is_opaque(&tunnel) && piece(&tunnel, 0, 1, &mut [0; 9000]).is_none());
    // Behind a header of destination options it is the outer header's still.
    let mut optional = whole.clone();
    optional.splice(VNET + 54..VNET + 54, [6, 0, 1, 4, 0, 0, 0, 0]);
    optional[VNET + 14 + 6] = 60;
    for (at, value) in [(2, 54 + 8 + 32), (6, 54 + 8)] {
        optional[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
    }
    assert!(splits(&optional));
    optional[VNET + 54] = 4;
    assert!(is_opaque(&optional));
}

#[test]
fn a_mark_is_put_and_the_checksum_stays_right() {
    for v6 in [false, true] {
        let mut record = cut(&super_frame(v6, true, 3000), 0, 1);
        assert!(markable(&record));
        mark(&mut record);
        let byte = record[VNET + 19];
        assert_eq!(if v6 { byte >> 4 & 3 } else { byte & 3 }, 3);
        assert!(is_sound(&record));
    }
    let mut silent = super_frame(false, false, 10);
    silent[VNET + 15] = 0;
    assert!(!markable(&silent));
}

#[test]
fn a_flipped_bit_is_seen_by_the_receiver() {
    for bit in (34 * 8..1400 * 8).step_by(97) {
        let record = cut(&super_frame(false, false, 3000), 0, 1);
        let mut completed = record.clone();
        complete_checksum(&mut completed);
        let mut flipped = record.clone();
        corrupt(&mut flipped, bit);
        assert_eq!(flipped[..VNET], [0; VNET]);
        let differ: u32 = flipped[VNET..].iter().zip(&completed[VNET..]).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(differ, 1);
    }
}

#[test]
fn a_vlan_tag_goes_back_where_it_was() {
    let tagged = super_frame(false, true, 3000);
    let mut room = vec![0; VLAN_BYTES];
    room.extend_from_slice(&super_frame(false, false, 3000));
    insert_vlan(&mut room, 0x8100, 7);
    assert_eq!(room, tagged);
}

#[test]
fn no_noise_makes_it_panic() {
    let mut dice = Random::new(9);
    let mut out = vec![0; 70_000];
    for round in 0..50_000 {
        let mut record = super_frame(round % 2 == 0, round % 3 == 0, 200);
        for _ in 0..1 + dice.below(12) {
            let at = dice.below(100) as usize;
            record[at] = dice.next_u32() as u8;
        }
        record.truncate(VNET + 14 + dice.below(300) as usize);
        let Shape { wire_bytes: bytes, packets, .. } = shape(&record);
        assert!(bytes as usize >= record.len() - VNET && packets > 0);
        if splits(&record) {
            let first = dice.below(u64::from(packets)) as usize;
            let count = 1 + dice.below(u64::from(packets) - first as u64) as usize;
            assert!(piece(&record, first, count, &mut out).is_some());
        }
        if markable(&record) {
            mark(&mut record);
        }
        let bit = dice.below((record.len() - VNET) as u64 * 8) as usize;
        corrupt(&mut record, bit);
    }
}
