//! A software authenticator: creates a key and signs like a device, or incorrectly where a test asks for that.

use data_encoding::BASE64URL_NOPAD;
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{DerSignature, SigningKey};
use serde_json::{Value, json};
use workrail_core::passkey::{NewKey, Passkeys, registered};
use workrail_model::digest::Sha256;
use workrail_model::passkey::{KeyName, PasskeyChange};

const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const HAS_KEY: u8 = 0x40;

/// A device with one key.
#[derive(Clone)]
pub struct Authenticator {
    key: SigningKey,
    credential: Vec<u8>,
    pub counter: u32,
    /// Whether it verifies the user; if not, it says so.
    pub verifies_user: bool,
    pub relying_party: String,
    /// Extra flags that it sets.
    pub more_flags: u8,
    /// Extra bytes after the signed data.
    pub trailing: Vec<u8>,
    /// Members of the client data that differ from what a browser writes.
    pub client_data: Vec<(&'static str, Value)>,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("counter", &self.counter).finish_non_exhaustive()
    }
}

/// The passkey log of a store in which each of these keys was enrolled, each after a reset of the previous one.
pub fn enrolments(devices: &[Authenticator]) -> String {
    let mut log = Vec::new();
    for (number, device) in devices.iter().enumerate() {
        if number > 0 {
            log.extend(next_line(&log, PasskeyChange::Reset { damaged: None }));
        }
        let NewKey { credential: credential_id, public_key, counter } = device.new_key();
        let name = KeyName::new(format!("Device {number}")).expect("a short name");
        let (replaces, authorized_by) = (None, None);
        let enrolled = PasskeyChange::Enrolled {
            name,
            owner: None,
            credential_id,
            public_key,
            counter,
            replaces,
            authorized_by,
        };
        log.extend(next_line(&log, enrolled));
    }
    String::from_utf8(log).expect("lines of JSON")
}

fn next_line(log: &[u8], change: PasskeyChange) -> Vec<u8> {
    let at = serde_json::from_value(json!("2026-01-31T23:59:00.000Z")).expect("a time");
    let keys = Passkeys::fold(log).expect("a sound log");
    keys.line(change, at).expect("a change that follows")
}

/// The authenticator's response, as form fields.
pub type FormFields = Vec<(&'static str, String)>;

impl Authenticator {
    /// Different seeds make different keys.
    pub fn new(seed: u8) -> Self {
        Self {
            key: SigningKey::from_slice(&[seed; 32]).expect("a number below the order of the curve"),
            credential: vec![seed; 20],
            counter: 0,
            verifies_user: true,
            relying_party: "localhost".to_owned(),
            more_flags: 0,
            trailing: Vec::new(),
            client_data: Vec::new(),
        }
    }

    /// The same, for the console of a team under this host.
    #[must_use]
    pub fn under(self, host: &str) -> Self {
        Self { relying_party: host.to_owned(), ..self }
    }

    /// A device with its own key that claims to be another one.
    pub fn posing_as(seed: u8, other: &Self) -> Self {
        Self { credential: other.credential.clone(), counter: other.counter, ..Self::new(seed) }
    }

    pub fn credential(&self) -> String {
        BASE64URL_NOPAD.encode(&self.credential)
    }

    fn data(&self, flags: u8) -> Vec<u8> {
        let verified = if self.verifies_user { USER_VERIFIED } else { 0 };
        let mut data = Sha256::of(self.relying_party.as_bytes()).as_bytes().to_vec();
        data.push(flags | self.more_flags | USER_PRESENT | verified);
        data.extend(self.counter.to_be_bytes());
        data
    }

    /// A new key for a console's challenge.
    pub fn make(&self, asked: &Value, origin: &str) -> FormFields {
        let point = self.key.verifying_key().to_sec1_point(false);
        let point = point.as_bytes();
        let mut data = self.data(HAS_KEY);
        data.extend([0; 16]);
        data.extend((self.credential.len() as u16).to_be_bytes());
        data.extend(&self.credential);
        data.extend([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]);
        data.extend(&point[1..33]);
        data.extend([0x22, 0x58, 0x20]);
        data.extend(&point[33..65]);
        data.extend(&self.trailing);
        vec![
            ("new.nonce", text(asked, "nonce")),
            ("new.authenticatorData", BASE64URL_NOPAD.encode(&data)),
            ("new.clientData", BASE64URL_NOPAD.encode(&self.client_data("webauthn.create", asked, origin))),
        ]
    }

    /// The key as a console extracts it from the device's response.
    fn new_key(&self) -> NewKey {
        const ORIGIN: &str = "http://localhost";
        let challenge = Sha256::of(b"any");
        let asked = json!({ "nonce": "", "challenge": BASE64URL_NOPAD.encode(challenge.as_bytes()) });
        let made = self.make(&asked, ORIGIN);
        let bytes = |name: &str| {
            let (_, value) = made.iter().find(|(other, _)| *other == name).expect("a field of `make`");
            BASE64URL_NOPAD.decode(value.as_bytes()).expect("encoded by `make`")
        };
        let (data, client_data) = (bytes("new.authenticatorData"), bytes("new.clientData"));
        registered(&data, &client_data, challenge, ORIGIN).expect("a device of this kind is accepted")
    }

    /// Signs a console's challenge.
    pub fn sign(&mut self, asked: &Value, origin: &str) -> FormFields {
        self.counter += 1;
        let data = [self.data(0), self.trailing.clone()].concat();
        let client_data = self.client_data("webauthn.get", asked, origin);
        let message = [&data[..], Sha256::of(&client_data).as_bytes()].concat();
        let signature: DerSignature = self.key.sign(&message);
        vec![
            ("passkey.nonce", text(asked, "nonce")),
            ("passkey.credential", self.credential()),
            ("passkey.authenticatorData", BASE64URL_NOPAD.encode(&data)),
            ("passkey.clientData", BASE64URL_NOPAD.encode(&client_data)),
            ("passkey.signature", BASE64URL_NOPAD.encode(signature.as_bytes())),
        ]
    }

    /// As a browser writes it.
    fn client_data(&self, kind: &str, asked: &Value, origin: &str) -> Vec<u8> {
        let mut data = json!({
            "type": kind, "challenge": text(asked, "challenge"), "origin": origin, "crossOrigin": false,
        });
        for (name, value) in &self.client_data {
            data[*name] = value.clone();
        }
        data.to_string().into_bytes()
    }
}

fn text(asked: &Value, name: &str) -> String {
    asked[name].as_str().unwrap_or_else(|| panic!("no {name}: {asked}")).to_owned()
}
