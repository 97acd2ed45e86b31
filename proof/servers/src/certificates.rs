//! A private authority with one certificate for servers and one for clients, made anew for each
//! test and gone with it.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;

use crate::{SetupError, watchdog};

/// PEM files in a folder of their own. Dropping it removes them, so keep it as long as a server or
/// a client may read them.
///
/// ```
/// let certificates = taketurns_servers::Certificates::new()?;
/// let pem = std::fs::read_to_string(certificates.ca())?;
/// assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"));
/// # Ok::<(), taketurns_servers::SetupError>(())
/// ```
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// Makes an authority, a server certificate for 127.0.0.1 and localhost, and a client
    /// certificate.
    ///
    /// # Errors
    ///
    /// If the files can't be written.
    pub fn new() -> Result<Self, SetupError> {
        Self::make(&["127.0.0.1", "localhost"], |_| ())
    }

    /// The same, with a server certificate for this name alone.
    ///
    /// # Errors
    ///
    /// If the files can't be written.
    pub fn of_name(name: &str) -> Result<Self, SetupError> {
        Self::make(&[name], |_| ())
    }

    /// The same, with a server certificate that was good until the end of 2020.
    ///
    /// # Errors
    ///
    /// If the files can't be written.
    pub fn expired() -> Result<Self, SetupError> {
        Self::make(&["127.0.0.1", "localhost"], |server| {
            server.not_before = date_time_ymd(2020, 1, 1);
            server.not_after = date_time_ymd(2020, 12, 31);
        })
    }

    fn make(
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Result<Self, SetupError> {
        let folder =
            tempfile::Builder::new().prefix("certificates-").tempdir_in(watchdog::folder()?)?;
        let made = Self { folder };

        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "taketurns test authority");
        let key = KeyPair::generate()?;
        fs::write(made.ca(), params.self_signed(&key)?.pem())?;
        let authority = Issuer::new(params, key);

        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut server = CertificateParams::new(names)?;
        change(&mut server);
        server.distinguished_name.push(DnType::CommonName, "taketurns test server");
        server.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            // To its peers in a cluster, and to its master, a server is a client.
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        made.issue(&authority, &server, &made.server_cert(), &made.server_key())?;

        let mut client = CertificateParams::default();
        client.distinguished_name.push(DnType::CommonName, "taketurns test client");
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        made.issue(&authority, &client, &made.client_cert(), &made.client_key())?;
        Ok(made)
    }

    /// The folder with all of them.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// The authority's certificate.
    pub fn ca(&self) -> PathBuf {
        self.dir().join("ca.crt")
    }

    /// The server's certificate.
    pub fn server_cert(&self) -> PathBuf {
        self.dir().join("server.crt")
    }

    /// The server's private key.
    pub fn server_key(&self) -> PathBuf {
        self.dir().join("server.key")
    }

    /// The client's certificate.
    pub fn client_cert(&self) -> PathBuf {
        self.dir().join("client.crt")
    }

    /// The client's private key.
    pub fn client_key(&self) -> PathBuf {
        self.dir().join("client.key")
    }

    fn issue(
        &self,
        authority: &Issuer<'_, KeyPair>,
        params: &CertificateParams,
        cert: &Path,
        key: &Path,
    ) -> Result<(), SetupError> {
        let pair = KeyPair::generate()?;
        fs::write(cert, params.signed_by(&pair, authority)?.pem())?;
        fs::write(key, pair.serialize_pem())?;
        Ok(())
    }
}
