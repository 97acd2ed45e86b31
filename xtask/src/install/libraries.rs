//! Clients in other languages, for the tests that show that any client will do: an environment per
//! language in the target directory, so that they are cargo's to clean and nothing else of the machine
//! changes.

use std::path::Path;
use std::process::Command;

use taketurns_servers::clients::{
    Environment, NODE, NODE_PACKAGE, PYTHON, PYTHON_PACKAGE, REDLOCK_PY,
};

/// The command that installs an environment into a folder.
type Installer = fn(Environment, &Path) -> Command;

const ALL: [(Environment, Installer); 4] =
    [(PYTHON, pip), (PYTHON_PACKAGE, pip), (NODE, npm), (NODE_PACKAGE, npm)];

/// A line for each that is missing.
pub(super) fn missing() -> Vec<String> {
    let missing = ALL.iter().filter_map(|(environment, _)| environment.find().err());
    missing.map(|error| error.to_string()).collect()
}

/// Installs those that are missing.
pub(super) fn install() -> Result<(), String> {
    ALL.into_iter().try_for_each(|(environment, command)| install_with(environment, command))
}

/// Installs a Python environment, unless it is there.
pub(super) fn install_python(environment: Environment) -> Result<(), String> {
    install_with(environment, pip)
}

fn install_with(environment: Environment, command: Installer) -> Result<(), String> {
    if environment.find().is_ok() {
        return Ok(());
    }
    eprintln!("==> installing into target/clients/{}: {environment}", environment.name);
    environment.install(|folder| command(environment, folder))
}

/// A virtual environment, so that pip neither sees nor mentions the machine's own packages. The machine's pip
/// fills it: Debian has the one that would come with it in a package of its own.
///
/// No package runs code while it is installed, but for one that is published as source alone.
fn pip(environment: Environment, folder: &Path) -> Command {
    let script = r#"
folder=$1
shift
python3 -m venv --without-pip "$folder"
exec python3 -m pip --python "$folder/bin/python" install "$@"
"#;
    let mut command = Command::new("sh");
    command.args(["-ec", script, "sh"]).arg(folder);
    command.args(["--quiet", "--disable-pip-version-check", "--no-input"]);
    command.args(["--only-binary", ":all:", "--no-binary", REDLOCK_PY.name]);
    command.args(environment.libraries.iter().map(|it| format!("{}=={}", it.name, it.version)));
    // pip warns against running as root, which does no harm here.
    command.env("PIP_ROOT_USER_ACTION", "ignore");
    command
}

/// No package runs code while it is installed.
fn npm(environment: Environment, folder: &Path) -> Command {
    let mut command = Command::new("npm");
    command.args(["install", "--silent", "--no-save", "--ignore-scripts", "--no-audit"]);
    command.args(["--no-fund", "--prefix"]).arg(folder);
    command.args(environment.libraries.iter().map(|it| format!("{}@{}", it.name, it.version)));
    command
}
