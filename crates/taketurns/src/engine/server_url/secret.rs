//! Passwords: where they come from, and that they go nowhere else.
//!
//! A password that rotates is read anew at every connect, from a file or from the environment. Nothing
//! here shows one: `Debug` of a [`Secret`] is blank, and there is no `Display`.

use std::fmt;
use std::path::PathBuf;

/// What the environment calls user and password, for a URL that says neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VariableNames {
    pub(crate) user: &'static str,
    pub(crate) password: &'static str,
}

/// A password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(password: String) -> Self {
        Self(password)
    }

    /// For the connection alone.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// Where a password comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// There is none.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "of Sentinels alone"))]
    Nothing,
    /// It was in the URL.
    Url(Secret),
    /// Read at every connect.
    File(PathBuf),
    /// Read at every connect; the variable must be set.
    Variable(String),
    /// The URL says nothing: what is in the environment by our own names, if anything.
    Surroundings(VariableNames),
}

/// Whom to log in as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: Source,
}

/// What to log in with, this time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Secret,
}

impl Credentials {
    /// Reads the password from where it is now.
    pub(crate) fn read(&self) -> Result<Option<Login>, String> {
        self.read_with(&|name| std::env::var(name).ok())
    }

    fn read_with(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Login>, String> {
        let mut user = self.user.clone();
        let password = match &self.password {
            Source::Nothing => None,
            Source::Url(secret) => Some(secret.clone()),
            Source::File(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    format!("the password file {} can't be read: {error}", path.display())
                })?;
                // Editors and `echo` end a file with a line break, and no password does.
                let text = text.strip_suffix('\n').unwrap_or(&text);
                Some(Secret::new(text.strip_suffix('\r').unwrap_or(text).to_owned()))
            }
            Source::Variable(name) => {
                let text = variable(name).ok_or_else(|| {
                    format!("the environment variable {name} (the password's) is not set")
                })?;
                Some(Secret::new(text))
            }
            Source::Surroundings(names) => {
                user = user.or_else(|| variable(names.user).filter(|user| !user.is_empty()));
                variable(names.password).map(Secret::new)
            }
        };
        Ok(match (user, password) {
            (user, Some(password)) => Some(Login { user, password }),
            // A user without a password: one whom the server asks for none takes any.
            (Some(user), None) => {
                Some(Login { user: Some(user), password: Secret::new(String::new()) })
            }
            (None, None) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = "TAKETURNS_USER";
    const PASSWORD: &str = "TAKETURNS_PASSWORD";
    const SURROUNDINGS: Source =
        Source::Surroundings(VariableNames { user: USER, password: PASSWORD });

    fn credentials(user: Option<&str>, password: Source) -> Credentials {
        Credentials { user: user.map(str::to_owned), password }
    }

    fn login(user: Option<&str>, password: &str) -> Option<Login> {
        Some(Login { user: user.map(str::to_owned), password: Secret::new(password.to_owned()) })
    }

    #[test]
    fn nothing_shows_a_password() {
        let credentials = credentials(Some("bob"), Source::Url(Secret::new("hunter2".to_owned())));
        let shown = format!("{credentials:?} {:?}", credentials.read());
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn the_environment_is_asked_only_if_the_url_says_nothing() {
        let set = |name: &str| match name {
            USER => Some("env-user".to_owned()),
            PASSWORD => Some("env-password".to_owned()),
            "OTHER" => Some("other".to_owned()),
            _ => None,
        };
        let read = |user, source| credentials(user, source).read_with(&set).unwrap();
        assert_eq!(read(None, SURROUNDINGS), login(Some("env-user"), "env-password"));
        assert_eq!(read(Some("bob"), SURROUNDINGS), login(Some("bob"), "env-password"));
        assert_eq!(read(None, Source::Variable("OTHER".into())), login(None, "other"));
        assert_eq!(read(None, Source::Nothing), None);
        let unset = credentials(None, SURROUNDINGS).read_with(&|_| None);
        assert_eq!(unset, Ok(None));
        let missing = credentials(None, Source::Variable("NOPE".into())).read_with(&set);
        assert!(missing.unwrap_err().contains("NOPE"));
    }

    #[test]
    fn a_file_is_read_anew_each_time_without_its_line_break() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        let credentials = credentials(None, Source::File(path.clone()));
        assert!(credentials.read().unwrap_err().contains("password"));
        std::fs::write(&path, "one\r\n").unwrap();
        assert_eq!(credentials.read(), Ok(login(None, "one")));
        std::fs::write(&path, " two ").unwrap();
        assert_eq!(credentials.read(), Ok(login(None, " two ")));
    }
}
