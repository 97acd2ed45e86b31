//! The server's certificate and key. They are read again when their files change, so a renewed certificate needs no
//! restart.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::exit;

/// The files of a certificate and its key.
pub(crate) struct CertificateFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

/// A certificate that was read.
pub(super) struct Certificate {
    files: CertificateFiles,
    loaded: Mutex<LoadedCertificate>,
}

struct LoadedCertificate {
    /// When the files were last written.
    written: [SystemTime; 2],
    acceptor: TlsAcceptor,
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// A sentence with the file's name, if one can't be read or the two do not belong together.
    pub(super) fn read(files: CertificateFiles) -> Result<Self, String> {
        let loaded = Mutex::new(files.load(files.written().map_err(|error| error.to_string())?)?);
        Ok(Self { files, loaded })
    }

    /// Returns what accepts a connection, with the newest certificate. If the files can't be read any more, it goes on
    /// with the one before, and says so.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(written) = self.files.written()
            && written != loaded.written
        {
            match self.files.load(written) {
                Ok(new) => *loaded = new,
                Err(error) => {
                    exit::say(format_args!("{error}; the certificate from before stays in use"));
                    // Said once for each change.
                    loaded.written = written;
                }
            }
        }
        loaded.acceptor.clone()
    }
}

impl CertificateFiles {
    fn written(&self) -> io::Result<[SystemTime; 2]> {
        let of = |path: &Path| {
            fs::metadata(path).and_then(|file| file.modified()).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })
        };
        Ok([of(&self.cert)?, of(&self.key)?])
    }

    fn load(&self, written: [SystemTime; 2]) -> Result<LoadedCertificate, String> {
        let in_file = |path: &Path| {
            let path = path.display().to_string();
            move |error: rustls::pki_types::pem::Error| match error {
                rustls::pki_types::pem::Error::Io(error) => format!("{path}: {error}"),
                // The message may repeat what is in the file, and a key is secret.
                _ => format!("{path}: not in PEM form, or nothing of that kind is in it"),
            }
        };
        let chain = CertificateDer::pem_file_iter(&self.cert).map_err(in_file(&self.cert))?;
        let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(in_file(&self.cert))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(in_file(&self.key))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config =
            versions.and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|error| format!("{}: {error}", self.cert.display()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(LoadedCertificate { written, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}
