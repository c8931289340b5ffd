//! Certificates for tests, and a client that trusts only one authority.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// An authority that signs certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct ServerIdentity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    /// The certificate that clients trust.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a host name or an address.
    pub fn sign(&self, host: &str) -> ServerIdentity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        ServerIdentity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// One exchange over TLS with a server that must prove that it is `host`.
    pub fn exchange(&self, address: &str, host: &str, request: &str) -> io::Result<String> {
        self.exchange_over(TcpStream::connect(address)?, host, request)
    }

    /// The same over a connection that is open already.
    pub fn exchange_over(&self, stream: TcpStream, host: &str, request: &str) -> io::Result<String> {
        let mut stream = self.encrypt(stream, host)?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        match stream.read_to_string(&mut answer) {
            Ok(_) => Ok(answer),
            // A server that closes without a TLS close message has answered all the same.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !answer.is_empty() => Ok(answer),
            Err(error) => Err(error),
        }
    }

    /// A connection after its handshake.
    fn encrypt(
        &self,
        mut stream: TcpStream,
        host: &str,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }
}
