//! TLS settings, read once per client, with a provider of our own: a process-wide one is the application's to choose.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::TlsConfig;

/// Reads the certificates.
pub(crate) fn connector(tls: &TlsConfig) -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS can't be set up: {error}"))?
        .with_root_certificates(roots(tls.ca.as_deref())?);
    let config = match &tls.identity {
        None => config.with_no_client_auth(),
        Some((cert, key)) => {
            let certificates = certificates(cert)?;
            let secret = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| format!("the key {} can't be read: {error}", key.display()))?;
            config.with_client_auth_cert(certificates, secret).map_err(|error| {
                format!("{} and {} do not go together: {error}", cert.display(), key.display())
            })?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| {
                    format!("a certificate in {} is no good: {error}", path.display())
                })?;
            }
        }
        None => {
            // Some machines have one that can't be read among many good ones.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this machine has no certificates to trust: name some by ca=".into());
            }
        }
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unreadable = |error| format!("the certificates {} can't be read: {error}", path.display());
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(unreadable)?;
    if certificates.is_empty() {
        return Err(format!("there is no certificate in {}", path.display()));
    }
    Ok(certificates)
}
