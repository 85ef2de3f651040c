//! The identity in a client certificate: its subject, its names and its fingerprint.
//!
//! rustls has already verified the certificate. `webpki`, which rustls uses for that, also returns the names. It
//! leaves the subject encoded (DER), so this file decodes it: a list of sets of pairs, each an object identifier and
//! a text.

use std::fmt::Write;

use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::remote::Identity;

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const BMP_STRING: u8 = 0x1e;

/// The identity of a client that has proved to have the key of this certificate.
pub(super) fn identity(certificate: &CertificateDer<'_>) -> Identity {
    let (subject, names) = match EndEntityCert::try_from(certificate) {
        Ok(parsed) => {
            let names = parsed.valid_dns_names().chain(parsed.valid_uri_names());
            (subject(parsed.subject()), names.map(str::to_owned).collect())
        }
        // Cannot happen with a certificate that was verified.
        Err(_) => (String::new(), Vec::new()),
    };
    Identity::Certificate { subject, names, fingerprint: fingerprint(certificate) }
}

/// SHA-256 in hexadecimal digits.
fn fingerprint(certificate: &[u8]) -> String {
    let Some(suite) = TLS13_AES_128_GCM_SHA256.tls13() else { return String::new() };
    let hash = suite.common.hash_provider.hash(certificate);
    hash.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The subject as RFC 4514 writes it: the last pair first, as in `CN=alice,O=Example`.
fn subject(der: &[u8]) -> String {
    let mut parts = Vec::new();
    let mut sets = Elements(der);
    while let Some((SET, set)) = sets.next() {
        let mut pairs = Elements(set);
        let mut together = Vec::new();
        while let Some((SEQUENCE, pair)) = pairs.next() {
            let mut pair = Elements(pair);
            if let (Some((OBJECT_IDENTIFIER, id)), Some((tag, value))) = (pair.next(), pair.next())
            {
                together.push(format!("{}={}", attribute(id), escape(&text(tag, value))));
            }
        }
        parts.push(together.join("+"));
    }
    parts.reverse();
    parts.join(",")
}

/// The short name of an attribute, or its identifier.
fn attribute(id: &[u8]) -> String {
    match id {
        [0x55, 0x04, 3] => "CN".to_owned(),
        [0x55, 0x04, 6] => "C".to_owned(),
        [0x55, 0x04, 7] => "L".to_owned(),
        [0x55, 0x04, 8] => "ST".to_owned(),
        [0x55, 0x04, 9] => "STREET".to_owned(),
        [0x55, 0x04, 10] => "O".to_owned(),
        [0x55, 0x04, 11] => "OU".to_owned(),
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 1] => "UID".to_owned(),
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 25] => "DC".to_owned(),
        id => dotted(id),
    }
}

/// An object identifier as numbers: 7 bits in each byte, and the first number holds two.
fn dotted(id: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for byte in id {
        number = number.wrapping_shl(7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            match numbers.is_empty() {
                true => {
                    let first = (number / 40).min(2);
                    numbers.extend([first, number - 40 * first]);
                }
                false => numbers.push(number),
            }
            number = 0;
        }
    }
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

fn text(tag: u8, value: &[u8]) -> String {
    match tag {
        BMP_STRING => {
            let units: Vec<u16> =
                value.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16_lossy(&units)
        }
        _ => String::from_utf8_lossy(value).into_owned(),
    }
}

/// Escapes the characters that separate pairs, so that no value can look like another pair. Control characters are
/// escaped too, because a subject is shown in logs.
fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (place, char) in value.chars().enumerate() {
        let is_edge = (char == ' ' && (place == 0 || place == last)) || (char == '#' && place == 0);
        if is_edge || matches!(char, ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=') {
            out.push('\\');
            out.push(char);
        } else if char.is_control() {
            let mut bytes = [0; 4];
            for byte in char.encode_utf8(&mut bytes).bytes() {
                let _ = write!(out, "\\{byte:02X}");
            }
        } else {
            out.push(char);
        }
    }
    out
}

/// The elements of a DER sequence or set: tag and contents. It ends at the first malformed element.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, contents))
    }
}

#[cfg(test)]
mod tests {
    use super::{dotted, escape, subject};

    #[test]
    fn t5_a_subject_cannot_pretend_to_be_another() {
        for (value, escaped) in [
            ("alice", "alice"),
            ("alice,O=Admins", "alice\\,O\\=Admins"),
            (" a b ", "\\ a b\\ "),
            ("#1", "\\#1"),
            ("a\nb", "a\\0Ab"),
            ("ü", "ü"),
            ("", ""),
        ] {
            assert_eq!(escape(value), escaped, "{value:?}");
        }
    }

    #[test]
    fn t5_a_subject_is_read_as_far_as_it_is_well_formed() {
        let common_name = b"\x31\x0c\x30\x0a\x06\x03\x55\x04\x03\x0c\x03bob".to_vec();
        let country = b"\x31\x0b\x30\x09\x06\x03\x55\x04\x06\x13\x02DE".to_vec();
        let both = [country, common_name.clone()].concat();
        assert_eq!(subject(&common_name), "CN=bob");
        assert_eq!(subject(&both), "CN=bob,C=DE");
        assert_eq!(subject(b""), "");
        for cut in 0..both.len() {
            let _ = subject(&both[..cut]);
        }
        for place in 0..both.len() {
            for byte in [0, 0x7f, 0x80, 0x83, 0xff] {
                let mut broken = both.clone();
                broken[place] = byte;
                let _ = subject(&broken);
            }
        }
    }

    #[test]
    fn t5_unknown_attributes_are_shown_by_number() {
        assert_eq!(dotted(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1]), "1.2.840.113549.1.9.1");
        assert_eq!(dotted(&[]), "");
        assert_eq!(dotted(&[0xff; 40]), "");
    }
}
