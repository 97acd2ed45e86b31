//! Packages of Debian and its like, installed by apt-get as root or with a sudo that wants no
//! password.
//!
//! It leaves no service running or enabled: the tests start servers of their own, on ports of their
//! own.

use std::fs;
use std::process::{Command, Stdio};

use super::runs;

/// Valkey came to Debian after its release 12, which has it among its backports.
const SOURCES: &str = "/etc/apt/sources.list.d/taketurns-backports.list";

/// Writes the line `$1` to the file `$2`.
const WRITE: &str = r#"printf '%s\n' "$1" >"$2""#;

/// What packages ask before they start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs, with `$2` as options and the packages after it, while the policy `$1` forbids to start
/// services. A policy of the machine's own stays. One of ours goes again, whatever ends this. One at
/// a time, or the first to end would take it away from the others.
const INSTALL: &str = r#"
set -e
policy=$1
options=$2
shift 2
exec 9<"${policy%/*}"
flock 9
if [ ! -e "$policy" ] || grep -q 'by cargo xtask' "$policy"; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\n# Put here for a moment by cargo xtask.\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
# Packages have much to say that concerns nobody, unless it goes wrong.
said=$(mktemp)
code=0
apt-get $options install "$@" >/dev/null 2>"$said" 9<&- || code=$?
[ $code = 0 ] || cat "$said" >&2
rm -f "$said"
[ $code = 0 ] || exit $code
if [ -d /run/systemd/system ]; then
    for package; do
        # Not every package has a service of its name.
        if systemctl cat "$package" >/dev/null 2>&1; then
            systemctl disable --quiet "$package"
        fi
    done
fi
"#;

/// Removes the policy `$1` if it is ours and no installation is using it. Otherwise the policy of an installation that
/// was killed would keep packages from starting services.
const TIDY: &str = r#"
exec 9<"${1%/*}"
flock 9
if grep -qs 'by cargo xtask' "$1"; then rm -f "$1"; fi
"#;

/// How apt-get is to go about it: without questions, without extras, at the cost of no other package,
/// and with patience for another one that is at work.
const OPTIONS: &str =
    "--yes --quiet=2 --no-install-recommends --no-remove -o DPkg::Lock::Timeout=120";

/// Removes what an earlier run left behind when it was killed.
pub(super) fn tidy() -> Result<(), String> {
    let left_behind = |policy: String| policy.contains("by cargo xtask");
    if fs::read_to_string(POLICY).is_ok_and(left_behind)
        && let Some(root) = Root::find()
    {
        root.run("sh", &["-c", TIDY, "sh", POLICY])?;
    }
    Ok(())
}

/// An apt-get that may install.
pub(super) struct Apt {
    root: Root,
}

impl Apt {
    pub(super) fn find() -> Option<Self> {
        let root = Root::find().filter(|_| runs("apt-get", &["--version"]))?;
        Some(Self { root })
    }

    /// Finds out what packages there are.
    pub(super) fn update(&self) -> Result<(), String> {
        eprintln!("==> looking for packages");
        self.root.run("apt-get", &["--quiet=2", "update"])
    }

    pub(super) fn install(&self, package: &str) -> Result<(), String> {
        let mut options = OPTIONS.to_owned();
        if !has_candidate(&output("apt-cache", &["policy", package])) {
            let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
            let suite = backports(&release)
                .ok_or_else(|| format!("{package} is missing, and apt-get does not know it"))?;
            eprintln!("==> adding {suite} to the package sources: {SOURCES}");
            self.root.run("sh", &["-c", WRITE, "sh", &source(&suite), SOURCES])?;
            self.root.run("apt-get", &["--quiet=2", "update"])?;
            options = format!("{options} --target-release {suite}");
        }
        eprintln!("==> installing {package}");
        self.root.run("sh", &["-c", INSTALL, "sh", POLICY, &options, package])
    }
}

/// Does apt-cache name a version that could be installed?
fn has_candidate(policy: &str) -> bool {
    let candidate = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "));
    candidate.is_some_and(|candidate| candidate != "(none)")
}

/// The suite with newer packages for the running release. Derivatives of Debian have their own, or
/// none.
fn backports(os_release: &str) -> Option<String> {
    let field = |name: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_matches('"'))
    };
    let codename = field("VERSION_CODENAME=").filter(|_| field("ID=") == Some("debian"))?;
    Some(format!("{codename}-backports"))
}

fn source(suite: &str) -> String {
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    format!("deb [signed-by={keys}] http://deb.debian.org/debian {suite} main")
}

/// How to do what only root may.
struct Root {
    sudo: bool,
}

impl Root {
    fn find() -> Option<Self> {
        if output("id", &["-u"]).trim() == "0" {
            return Some(Self { sudo: false });
        }
        runs("sudo", &["-n", "true"]).then_some(Self { sudo: true })
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<(), String> {
        let mut command = Command::new(if self.sudo { "sudo" } else { program });
        if self.sudo {
            command.args(["-n", program]);
        }
        let status = command.args(args).stdin(Stdio::null()).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("==> {program} failed with {status}")),
            Err(error) => Err(format!("==> {program} can't be started: {error}")),
        }
    }
}

/// What a program prints, in English. Nothing if it can't be run.
fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).env("LC_ALL", "C").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_known_if_it_has_a_candidate() {
        let known = "valkey-server:\n  Installed: (none)\n  Candidate: 8.0.1+dfsg1-1~bpo12+1\n";
        assert!(has_candidate(known));
        assert!(!has_candidate("valkey-server:\n  Installed: (none)\n  Candidate: (none)\n"));
        assert!(!has_candidate(""));
    }

    #[test]
    fn only_debian_itself_has_these_backports() {
        let debian = "ID=debian\nVERSION_CODENAME=bookworm\n";
        assert_eq!(backports(debian).as_deref(), Some("bookworm-backports"));
        assert_eq!(backports("ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=jammy\n"), None);
        assert_eq!(backports("ID=debian\n"), None, "testing has no name of its own");
    }
}

/// The scripts, on a machine that only says what it would have done.
#[cfg(all(test, target_os = "linux"))]
mod script_tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::process::Child;

    use super::*;

    /// A machine of its own: a policy, and programs that only say what they would have done.
    struct Machine {
        folder: PathBuf,
    }

    impl Machine {
        /// `apt_get` is what apt-get does; services start if there is no `$POLICY`.
        fn new(name: &str, apt_get: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).expect("a folder");
            let machine = Self { folder };
            machine.has("apt-get", apt_get);
            machine.has("systemctl", "");
            machine
        }

        fn has(&self, program: &str, does: &str) {
            let path = self.folder.join(program);
            fs::write(&path, format!("#!/bin/sh\n{does}\n")).expect("written");
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program");
        }

        fn policy(&self) -> PathBuf {
            self.folder.join("policy-rc.d")
        }

        fn start(&self, script: &str) -> Child {
            self.start_with(script, "a-server")
        }

        fn start_with(&self, script: &str, package: &str) -> Child {
            let path =
                format!("{}:{}", self.folder.display(), std::env::var("PATH").unwrap_or_default());
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]).arg(self.policy()).args(["", package]);
            command.env("PATH", path).env("POLICY", self.policy()).current_dir(&self.folder);
            command.spawn().expect("a shell")
        }

        fn said(&self) -> String {
            fs::read_to_string(self.folder.join("said")).unwrap_or_default()
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    const STARTS: &str = "sleep 0.2; test -e $POLICY && echo kept >>said || echo started >>said";

    #[test]
    fn no_service_starts_though_two_install_at_once() {
        let machine = Machine::new("two", STARTS);
        let mut both = [machine.start(INSTALL), machine.start(INSTALL)];
        assert!(both.iter_mut().all(|one| one.wait().expect("its end").success()));
        assert_eq!(machine.said(), "kept\nkept\n");
        assert!(!machine.policy().exists());
    }

    #[test]
    fn services_are_disabled_and_a_package_may_have_none() {
        let machine = Machine::new("services", "");
        machine.has(
            "systemctl",
            r#"test "$*" != "cat a-server" || exit 0
            test "$*" = "disable --quiet a-server" && echo disabled >>said"#,
        );
        let here = machine.folder.display().to_string();
        let script = INSTALL.replace("/run/systemd/system", &here);
        for package in ["a-library", "a-server"] {
            assert!(machine.start_with(&script, package).wait().expect("its end").success());
        }
        assert_eq!(machine.said(), "disabled\n");
    }

    #[test]
    fn the_policy_goes_again_when_nothing_could_be_installed() {
        let machine = Machine::new("fails", "exit 100");
        assert_eq!(machine.start(INSTALL).wait().expect("its end").code(), Some(100));
        assert!(!machine.policy().exists());
    }

    #[test]
    fn what_a_kill_left_behind_is_tidied_up_but_no_policy_of_the_machine() {
        let machine = Machine::new("killed", "kill -9 $PPID");
        assert_eq!(machine.start(INSTALL).wait().expect("its end").code(), None);
        assert!(machine.policy().exists());
        machine.start(TIDY).wait().expect("its end");
        assert!(!machine.policy().exists());
        fs::write(machine.policy(), "#!/bin/sh\nexit 101\n").expect("written");
        machine.start(TIDY).wait().expect("its end");
        machine.start(INSTALL).wait().expect("its end");
        assert!(machine.policy().exists(), "it is not ours");
    }
}
